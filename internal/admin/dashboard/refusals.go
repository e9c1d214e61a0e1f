package dashboard

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/auth"
)

const refusalsPage = 50

// span is a stretch of time up to now.
type span struct {
	Name, Says string
	Length     time.Duration
	Link       string
	Chosen     bool
}

var spans = []span{
	{Name: "15m", Says: "15 min", Length: 15 * time.Minute}, {Name: "1h", Says: "1 h", Length: time.Hour},
	{Name: "24h", Says: "24 h", Length: 24 * time.Hour}, {Name: "7d", Says: "7 days", Length: 7 * 24 * time.Hour},
	{Name: "all", Says: "all", Length: 0},
}

const defaultSpan = "24h"

// disposition is what became of what a record is of.
type disposition struct {
	Name audit.Disposition
	Says string
}

var dispositions = []disposition{
	{audit.Refused, "refused"}, {audit.Admitted, "let through in observe mode"}, {audit.Event, "late renewal or release"},
}

type refusalsBody struct {
	Filter  refusalFilter
	Codes   []code
	Became  []disposition
	Tables  []string
	Spans   []span
	Lanes   lanes
	Records []audit.Record
	Older   string // link; "": there are no older ones
	First   string // link to the newest; "": these are it
	Follow  string // link that begins or ends following; "": these are not the newest
	Stop    bool   // Follow ends it
	Trouble string
	Now     time.Time
}

// refusalFilter is what the address says.
type refusalFilter struct {
	Disposition, Key, Code, Table, Principal, Span, Since, Until string

	query  url.Values // what of it is said, for links
	before audit.Place
	audit  audit.Filter
	follow bool
}

func (d *Dashboard) refusals(r *http.Request, _ auth.Principal) (page, error) {
	now := time.Now()
	f, err := readFilter(r.URL.Query(), now)
	if err != nil {
		return page{}, err
	}
	p := page{Name: "refusals", Title: "Refusals", Tab: "refusals", Now: now}
	body := refusalsBody{Filter: f, Codes: codes, Became: dispositions, Tables: d.targets(), Spans: f.spans(), Now: now}
	body.Stop = f.follow
	if f.before == (audit.Place{}) && f.Until == "" {
		body.Follow = "refusals?" + with(f.query, "follow", toggled(f.follow)).Encode()
	} else if f.before != (audit.Place{}) {
		body.First = "refusals?" + f.query.Encode()
	}
	if f.follow && body.Follow != "" {
		p.Follow = "stream?" + with(f.query, "span", "", "since", "", "follow", "").Encode()
	}
	err = d.listRefusals(r, &body, now)
	if errors.Is(err, auth.ErrDenied) {
		return page{}, err
	}
	if err != nil {
		body.Trouble, p.Status = d.trouble(err), http.StatusServiceUnavailable
	}
	p.Body = body
	return p, nil
}

func (d *Dashboard) listRefusals(r *http.Request, body *refusalsBody, now time.Time) error {
	f := body.Filter
	paged := f.audit
	paged.Before = f.before
	records, err := d.gate().ListRefusals(r.Context(), principalIn(r.Context()), paged, refusalsPage+1)
	if err != nil {
		return err
	}
	if len(records) > refusalsPage {
		records = records[:refusalsPage]
		body.Older = "refusals?" + with(f.query, "before", cursor(records[refusalsPage-1].Place())).Encode()
	}
	body.Records = records
	drawn := f.audit
	if drawn.Since.IsZero() && len(records) > 0 {
		drawn.Since = now.Add(-7 * 24 * time.Hour)
	}
	if !drawn.Since.IsZero() {
		body.Lanes, err = d.lanes(r.Context(), drawn, now, f.query.Encode())
	}
	return err
}

// targets are the tables and routines that records name.
func (d *Dashboard) targets() (names []string) {
	specs := d.Now().Specs
	for _, t := range specs.Tables {
		names = append(names, t.Schema+"."+t.Name)
	}
	for _, r := range specs.Routines {
		names = append(names, strings.TrimPrefix(r.Schema+"."+r.Name, "."))
	}
	return names
}

func readFilter(query url.Values, now time.Time) (f refusalFilter, err error) {
	f = refusalFilter{Disposition: query.Get("disposition"), Key: query.Get("key"), Code: query.Get("code"), Table: query.Get("table"), Principal: query.Get("principal"),
		Span: query.Get("span"), Since: query.Get("since"), Until: query.Get("until"), follow: query.Get("follow") != ""}
	f.audit = audit.Filter{Disposition: audit.Disposition(f.Disposition), Code: f.Code, Table: f.Table, Principal: f.Principal}
	if f.Disposition != "" && !slices.ContainsFunc(dispositions, func(d disposition) bool { return d.Name == f.audit.Disposition }) {
		return f, badRequest("A record is of what was refused, of what was admitted, or an event.")
	}
	if f.audit.Key, err = keyOf(strings.TrimSpace(f.Key)); err != nil {
		return f, err
	}
	for _, name := range []string{f.Code, f.Table, f.Principal} {
		if strings.ContainsRune(name, 0) || strings.ToValidUTF8(name, "") != name || len(name) > 1000 {
			return f, badRequest("A filter is no text that could be on record.")
		}
	}
	if f.before, err = parseCursor(query.Get("before")); err != nil {
		return f, err
	}
	if f.audit.Since, err = parseTime(f.Since); err != nil {
		return f, err
	}
	if f.audit.Until, err = parseTime(f.Until); err != nil {
		return f, err
	}
	if err = f.readSpan(now); err != nil {
		return f, err
	}
	f.query = with(nil, "disposition", f.Disposition, "key", f.Key, "code", f.Code, "table", f.Table, "principal", f.Principal, "span", query.Get("span"), "since", f.Since, "until", f.Until)
	return f, nil
}

// readSpan lets since and until outrank the span.
func (f *refusalFilter) readSpan(now time.Time) error {
	if f.Since != "" || f.Until != "" {
		f.Span = ""
		return nil
	}
	if f.Span == "" {
		f.Span = defaultSpan
	}
	i := slices.IndexFunc(spans, func(s span) bool { return s.Name == f.Span })
	if i < 0 {
		return badRequest("There is no such span of time.")
	}
	if spans[i].Length > 0 {
		f.audit.Since = now.Add(-spans[i].Length)
	}
	return nil
}

func (f refusalFilter) spans() []span {
	all := slices.Clone(spans)
	for i := range all {
		all[i].Link = "refusals?" + with(f.query, "span", all[i].Name, "since", "", "until", "").Encode()
		all[i].Chosen = all[i].Name == f.Span
	}
	return all
}

func toggled(on bool) string {
	if on {
		return ""
	}
	return "1"
}

const formLayout = "2006-01-02T15:04:05"

// formTime is a time as a form's field has it, which is always UTC.
func formTime(t time.Time) string { return t.UTC().Format(formLayout) }

func parseTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{formLayout, "2006-01-02T15:04", "2006-01-02", time.RFC3339Nano} {
		if t, err := time.Parse(layout, text); err == nil && t.Year() > 1970 && t.Year() < 10000 {
			return t, nil
		}
	}
	return time.Time{}, badRequest("A time is written as 2026-01-31T23:59:00, in UTC.")
}

// cursor is a place as a link carries it.
func cursor(p audit.Place) string { return fmt.Sprintf("%d-%d", p.OccurredAt.UnixMicro(), p.ID) }

func parseCursor(text string) (p audit.Place, err error) {
	if text == "" {
		return p, nil
	}
	micros, id, _ := strings.Cut(text, "-")
	at, err := strconv.ParseInt(micros, 10, 64)
	if err == nil {
		p.ID, err = strconv.ParseInt(id, 10, 64)
	}
	if err != nil || at < 0 || at > time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() {
		return p, badRequest("There is no such page of refusals.")
	}
	p.OccurredAt = time.UnixMicro(at)
	return p, nil
}
