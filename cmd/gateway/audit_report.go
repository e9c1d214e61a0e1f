package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// report is RefusalReport of openapi.yaml.
type report struct {
	Since, Until time.Time
	Admitted     int64
	Cut          bool
	Observed     []string
	Tables       []struct {
		Table    string
		Admitted int64
		Last     time.Time
	}
	Groups     []reportGroup
	MoreGroups int64 `json:"more_groups"`
}

type reportGroup struct {
	Table, Code, Principal, Client string
	Remote                         string `json:"remote_address"`
	Admitted                       int64
	First, Last                    time.Time
	Example                        string
}

func newAuditReport() *cobra.Command {
	var a asking
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Tell which writes would have been refused, were nothing in observe mode",
		Long: "Counts what tables, statements and functions with mode: observe have let through.\n" +
			"How many writes there were in all is not known.",
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query, err := a.query()
			if err != nil {
				return err
			}
			raw, err := a.exchange(cmd.Context(), http.MethodGet, withQuery("/v1/refusals/report", url.Values{"since": query["since"]}), nil)
			if err != nil {
				return err
			}
			if a.json {
				return a.print(cmd.OutOrStdout(), raw)
			}
			var r report
			if err := json.Unmarshal(raw, &r); err != nil {
				return err
			}
			return r.tell(cmd.OutOrStdout())
		},
	}
	a.reach.flags(cmd)
	cmd.Flags().StringVar(&a.since, "since", "7d", "only from this `time` on: 2026-01-31T12:00:00Z, or how long ago: 2h, 7d")
	cmd.Flags().BoolVar(&a.json, "json", false, "print the gateway's answer, JSON")
	return cmd
}

func (r report) tell(out io.Writer) error {
	fmt.Fprintf(out, "since %s: %d writes would have been refused\n", moment(r.Since), r.Admitted)
	if r.Cut {
		fmt.Fprintln(out, "there may be more before; only the newest are counted")
	}
	fmt.Fprintln(out)
	for _, t := range r.Tables {
		fmt.Fprintf(out, "%s: %d would have been refused, the last one %s ago%s\n",
			plain(t.Table), t.Admitted, ago(r.Until.Sub(t.Last)), r.enforced(t.Table))
	}
	for _, name := range r.Observed {
		if !slices.ContainsFunc(r.Groups, func(g reportGroup) bool { return g.Table == name }) {
			fmt.Fprintf(out, "%s: nothing on record; if it was written to and observed all the time, it can be enforced\n", plain(name))
		}
	}
	if len(r.Groups) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WRITES\tTABLE\tCODE\tWORKER\tFIRST\tLAST\tEXAMPLE\t")
	for _, g := range r.Groups {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", g.Admitted, plain(g.Table), g.Code, g.worker(), moment(g.First), moment(g.Last), g.Example)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("%w: %w", errOutput, err)
	}
	if r.MoreGroups > 0 {
		fmt.Fprintf(out, "and %d more rows, each with no more writes than these\n", r.MoreGroups)
	}
	return nil
}

// enforced says that a table is not observed any more.
func (r report) enforced(name string) string {
	if slices.Contains(r.Observed, name) {
		return ""
	}
	return " (not in observe mode now)"
}

// worker is who wrote, as far as it is known.
func (g reportGroup) worker() string {
	return or(plain(g.Client), plain(g.Principal)+" at "+g.Remote)
}

func moment(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// ago is how long ago something was, roughly.
func ago(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", d/time.Hour)
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d minutes", d/time.Minute)
	}
	return fmt.Sprintf("%d seconds", max(d, 0)/time.Second)
}
