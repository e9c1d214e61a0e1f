package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/fencegate/fencegate/internal/lease"
)

var funcs = template.FuncMap{
	"ago":   func(now, then time.Time) string { return ago(now.Sub(then)) },
	"brief": brief, "shown": shown, "rate": rate, "fine": fine, "join": strings.Join,
	"stamp":       func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") },
	"utc":         func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
	"clock":       func(t time.Time) string { return t.UTC().Format("15:04:05") },
	"micro":       func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000000") },
	"ms":          func(d time.Duration) int64 { return d.Milliseconds() },
	"unix":        func(t time.Time) int64 { return t.UnixMilli() },
	"lockLink":    func(k lease.Key) string { return lockLink(k) },
	"refusalLink": func(id int64) string { return "refusal?id=" + strconv.FormatInt(id, 10) },
	"codeOf":      codeOf,
	"arg":         func(of ...any) []any { return of },
	"add":         func(a, b int) int { return a + b },
}

func lockLink(k lease.Key) string { return "lock?" + url.Values{"key": {k.Wire()}}.Encode() }

// ago is how long ago something was, in the one unit that matters. app.js does the
// same while the page is open.
func ago(d time.Duration) string {
	switch {
	case d < time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", d/time.Hour)
	}
	return fmt.Sprintf("%d days ago", d/(24*time.Hour))
}

// brief is a time span for people: 350 ms, 8.2 s, 2 min 5 s, 3 h 10 min, 4 d 2 h.
func brief(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return pair(d, time.Minute, "min", time.Second, "s")
	case d < 24*time.Hour:
		return pair(d, time.Hour, "h", time.Minute, "min")
	}
	return pair(d, 24*time.Hour, "d", time.Hour, "h")
}

func pair(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	text := fmt.Sprintf("%d %s", d/large, largeName)
	if rest := d % large / small; rest > 0 {
		text += fmt.Sprintf(" %d %s", rest, smallName)
	}
	return text
}

// fine is a short duration to three digits.
func fine(d time.Duration) string {
	if d < time.Second {
		return strconv.FormatFloat(d.Seconds()*1000, 'g', 3, 64) + " ms"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + " s"
}

// rate is a number by the second.
func rate(perSecond float64) string {
	switch {
	case perSecond == 0:
		return "0"
	case perSecond < .1:
		return strconv.FormatFloat(perSecond, 'f', 2, 64)
	case perSecond < 100:
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	}
	return strconv.FormatFloat(perSecond, 'f', 0, 64)
}

// shown is text of callers in which what can't be seen, or turns the direction of
// what follows, stands as its number.
func shown(text any) string {
	var s string
	switch text := text.(type) {
	case lease.Key:
		s = text.Wire()
	case string:
		s = text
	default:
		s = fmt.Sprint(text)
	}
	if !strings.ContainsFunc(s, unseen) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unseen(r) {
			fmt.Fprintf(&b, `\u{%04X}`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func unseen(r rune) bool {
	return unicode.Is(unicode.Cf, r) || unicode.IsControl(r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
}

// indented is JSON for reading, or what it is if it can't be indented.
func indented(text string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(text), "", "  ") != nil {
		return text
	}
	return b.String()
}
