package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

func newAudit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "See what was refused, by whom, and who had taken over",
		Long:  "Talks to a running gateway: --url, or FENCE_URL, or " + defaultURL + ".\n" + credentialHelp,
		Args:  usage(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAuditList(), newAuditShow(), newAuditTail(), newAuditExport(), newAuditReport())
	for _, each := range append(cmd.Commands(), cmd) {
		each.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &exitError{exitUsage, err} })
	}
	return cmd
}

// asking is which refusals are asked for.
type asking struct {
	reach
	key, code, table, principal string
	disposition                 string
	since, until                string
	json                        bool
}

func (a *asking) flags(cmd *cobra.Command, past bool) {
	a.reach.flags(cmd)
	cmd.Flags().StringVar(&a.disposition, "disposition", "", "only what became of it: `refused`, admitted or event")
	cmd.Flags().StringVar(&a.key, "key", "", "only of this lock `key`")
	cmd.Flags().StringVar(&a.code, "code", "", "only with this `code`, such as stale_token")
	cmd.Flags().StringVar(&a.table, "table", "", "only of this table, as `schema.name`")
	cmd.Flags().StringVar(&a.principal, "principal", "", "only of this principal's `name`")
	if past {
		cmd.Flags().StringVar(&a.since, "since", "", "only from this `time` on: 2026-01-31T12:00:00Z, or how long ago: 2h, 7d")
		cmd.Flags().StringVar(&a.until, "until", "", "only before this `time`, written alike")
	}
}

func (a *asking) query() (url.Values, error) {
	query := url.Values{}
	for name, value := range map[string]string{"key": a.key, "code": a.code, "table": a.table, "principal": a.principal, "disposition": a.disposition} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for name, value := range map[string]string{"since": a.since, "until": a.until} {
		at, err := momentOf(value)
		if err != nil {
			return nil, &exitError{exitUsage, fmt.Errorf("--%s: %w", name, err)}
		}
		if !at.IsZero() {
			query.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return query, nil
}

// momentOf reads a time, or how long ago it was; "" is the zero time.
func momentOf(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil {
		return time.Now().Add(-ago), nil
	}
	if days, err := strconv.Atoi(strings.TrimSuffix(text, "d")); err == nil && strings.HasSuffix(text, "d") {
		return time.Now().AddDate(0, 0, -days), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("%q is neither a time such as 2026-01-31T12:00:00Z nor a duration such as 2h or 7d", text)
	}
	return at, nil
}

func withQuery(path string, query url.Values) string { return path + "?" + query.Encode() }

// record is Refusal of openapi.yaml, and history its Grant.
type record struct {
	ID           string
	OccurredAt   time.Time `json:"occurred_at"`
	Code         string
	Disposition  string
	Operation    string
	Table        string
	Key          string
	Token        string `json:"presented_token"`
	Mark         string `json:"mark_token"`
	Client       string
	Principal    string
	RequestID    string `json:"request_id"`
	Remote       string `json:"remote_address"`
	Instance     string
	SupersededBy *history `json:"superseded_by"`
	History      []history
}

type history struct {
	Event, Token, Client, Reason string
	OccurredAt                   time.Time `json:"occurred_at"`
}

const refusalHeads = "TIME\tDISPOSITION\tCODE\tKEY\tTOKEN\tMARK\tCLIENT\tWHAT\tID\t"

func (r record) row() string {
	return strings.Join([]string{
		r.OccurredAt.Local().Format("2006-01-02 15:04:05.000"), r.Disposition, r.Code, or(plain(r.Key), "-"), or(r.Token, "-"), or(r.Mark, "-"),
		or(plain(r.Client), "-"), strings.TrimSpace(r.Operation + " " + plain(r.Table)), r.ID,
	}, "\t") + "\t"
}

// plain is text that does nothing to a terminal.
func plain(text string) string {
	if quoted := strconv.QuoteToGraphic(text); quoted != `"`+text+`"` {
		return quoted
	}
	return text
}

func or(text, instead string) string {
	if text == "" {
		return instead
	}
	return text
}

func newAuditList() *cobra.Command {
	var a asking
	var limit int
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List refusals, newest first",
		Args:  usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query, err := a.query()
			if err != nil {
				return err
			}
			query.Set("limit", strconv.Itoa(limit))
			raw, err := a.exchange(cmd.Context(), http.MethodGet, withQuery("/v1/refusals", query), nil)
			if err != nil {
				return err
			}
			return a.list(cmd.OutOrStdout(), raw)
		},
	}
	a.flags(cmd, true)
	cmd.Flags().IntVar(&limit, "limit", 20, "how many, 1 to 1000")
	cmd.Flags().BoolVar(&a.json, "json", false, "print the gateway's answer, JSON, a line for each refusal")
	return cmd
}

func (a *asking) list(out io.Writer, raw []byte) error {
	var page struct{ Refusals []json.RawMessage }
	if err := json.Unmarshal(raw, &page); err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if !a.json {
		fmt.Fprintln(table, refusalHeads)
	}
	for _, each := range page.Refusals {
		if err := a.print(table, each); err != nil {
			return err
		}
	}
	return table.Flush()
}

// errOutput: what was found can't be written, however often it is asked for.
var errOutput = errors.New("writing the output")

// told is a writer whose errors wrap errOutput.
type told struct{ io.Writer }

func (t told) Write(p []byte) (n int, err error) {
	if n, err = t.Writer.Write(p); err != nil {
		err = fmt.Errorf("%w: %w", errOutput, err)
	}
	return n, err
}

func (a *asking) print(out io.Writer, raw json.RawMessage) error {
	text := string(raw)
	if !a.json {
		var r record
		if err := json.Unmarshal(raw, &r); err != nil {
			return err
		}
		text = r.row()
	}
	if _, err := fmt.Fprintln(out, text); err != nil {
		return fmt.Errorf("%w: %w", errOutput, err)
	}
	return nil
}

func newAuditShow() *cobra.Command {
	var a asking
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Tell the story of one refusal: who paused, who took over, what was refused",
		Args:  usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := a.exchange(cmd.Context(), http.MethodGet, "/v1/refusals/"+url.PathEscape(args[0]), nil)
			if err != nil {
				return err
			}
			if a.json {
				return a.print(cmd.OutOrStdout(), raw)
			}
			var r record
			if err := json.Unmarshal(raw, &r); err != nil {
				return err
			}
			return r.tell(cmd.OutOrStdout())
		},
	}
	a.reach.flags(cmd)
	cmd.Flags().BoolVar(&a.json, "json", false, "print the gateway's answer, JSON")
	return cmd
}

// tell prints the key's history with the refusal in its place.
func (r record) tell(out io.Writer) error {
	fmt.Fprintf(out, "%s of %s under %s, token %s\n", r.Code, strings.TrimSpace(r.Operation+" "+plain(r.Table)), or(plain(r.Key), "no lock key"), or(r.Token, "none"))
	if r.Disposition == "admitted" {
		fmt.Fprintln(out, "let through in observe mode: the write is there")
	}
	fmt.Fprintf(out, "client %s, principal %s, from %s, request %s, gateway %s\n\n",
		or(plain(r.Client), "unknown"), plain(r.Principal), r.Remote, plain(r.RequestID), plain(r.Instance))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(at time.Time, text, token, client string) {
		fmt.Fprintf(table, "%s\t%s\ttoken %s\t%s\t\n", at.Local().Format("2006-01-02 15:04:05.000"), text, token, plain(client))
	}
	told, happened := false, "REFUSED"
	if r.Disposition == "admitted" {
		happened = "ADMITTED"
	}
	for _, h := range r.History {
		if !told && h.OccurredAt.After(r.OccurredAt) {
			line(r.OccurredAt, happened, or(r.Token, "none"), r.Client)
			told = true
		}
		line(h.OccurredAt, strings.TrimSpace(h.Event+" "+plain(h.Reason)), h.Token, h.Client)
	}
	if !told {
		line(r.OccurredAt, happened, or(r.Token, "none"), r.Client)
	}
	return table.Flush()
}

func newAuditExport() *cobra.Command {
	var a asking
	var format string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print all refusals that match, as NDJSON or CSV",
		Args:  usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			media := map[string]string{"ndjson": "application/x-ndjson", "csv": "text/csv"}[format]
			query, err := a.query()
			if media == "" {
				err = &exitError{exitUsage, fmt.Errorf("--format is ndjson or csv, not %q", format)}
			}
			if err != nil {
				return err
			}
			body, err := a.open(cmd.Context(), withQuery("/v1/refusals", query), http.Header{"Accept": {media}})
			if err != nil {
				return err
			}
			defer body.Close()
			_, err = io.Copy(told{cmd.OutOrStdout()}, body)
			switch {
			case errors.Is(err, errOutput):
				return err
			case err != nil:
				return &exitError{exitUnavailable, fmt.Errorf("the export is not whole: %w", err)}
			}
			return nil
		},
	}
	a.flags(cmd, true)
	cmd.Flags().StringVar(&format, "format", "ndjson", "`ndjson` or csv")
	return cmd
}

// tailPause is how long tail waits before it asks again after a lost connection.
const tailPause = 2 * time.Second

func newAuditTail() *cobra.Command {
	var a asking
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print refusals as they come, until interrupted",
		Args:  usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query, err := a.query()
			if err != nil {
				return err
			}
			return a.tail(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), query)
		},
	}
	a.flags(cmd, false)
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON, a line for each refusal")
	return cmd
}

// tail goes on where it was when the connection is lost. Only the first one must
// succeed; what can't be written ends it.
func (a *asking) tail(ctx context.Context, out, errOut io.Writer, query url.Values) error {
	last, begun := "", false
	for {
		header := http.Header{}
		if last != "" {
			header.Set("Last-Event-ID", last)
		}
		body, err := a.open(ctx, withQuery("/v1/refusals/stream", query), header)
		if err != nil && !begun {
			return err
		}
		if err == nil {
			begun = true
			last, err = a.events(out, body, last)
			body.Close()
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errOutput):
			return err
		}
		fmt.Fprintln(errOut, "gateway: the stream was lost, trying again:", err)
		select {
		case <-time.After(tailPause):
		case <-ctx.Done():
			return nil
		}
	}
}

// events prints what comes and returns the last id. A record that comes again
// after a reconnection is told once.
func (a *asking) events(out io.Writer, body io.Reader, last string) (string, error) {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	id, stopping := "", false
	for lines.Scan() {
		if lines.Text() == "event: stopping" {
			stopping = true
		}
		if text, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			id = text
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || id == last || stopping {
			continue
		}
		if err := a.print(out, json.RawMessage(data)); err != nil {
			return last, err
		}
		last = id
	}
	if err := lines.Err(); err != nil {
		return last, err
	}
	return last, errors.New("the gateway ended it")
}
