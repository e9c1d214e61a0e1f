package doctor

import (
	"fmt"
	"io"
	"strings"
)

// Print writes the report for a person.
func (r *Report) Print(out io.Writer) {
	for _, f := range r.Findings {
		fmt.Fprintf(out, "%-8s%s  %s\n", strings.ToUpper(string(f.Severity)), f.Code, f.About)
		fmt.Fprintf(out, "        found  %s\n        why    %s\n        fix    %s\n\n",
			f.Found, f.Why, strings.ReplaceAll(f.Fix, "\n", "\n               "))
	}
	for _, u := range r.Unseen {
		fmt.Fprintf(out, "NOT LOOKED AT  %s\n        why    %s\n\n", u.About, u.Why)
	}
	fmt.Fprintln(out, r.Verdict)
}

func (r *Report) sum() string {
	counts := fmt.Sprintf("%s, %s, %s", plural(r.Count(Danger), "danger"), plural(r.Count(Warning), "warning"), plural(r.Count(Note), "note"))
	switch r.ExitCode() {
	case ExitDangers:
		return "unsafe: " + counts
	case ExitBlind:
		return "not known: a part could not be looked at; " + counts
	case ExitWarnings:
		return "safe within limits: " + counts
	}
	return "sound: " + counts
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
