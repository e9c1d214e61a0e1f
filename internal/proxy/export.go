package proxy

import (
	"cmp"
	"context"
	"encoding/csv"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fencegate/fencegate/internal/api"
	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/auth"
)

// exportPage is how many records an export reads at once.
const exportPage = 1000

// format writes the records of an export.
type format struct {
	media  string
	header func(io.Writer) error
	write  func(io.Writer, []audit.Record) error
}

var formats = []*format{
	{media: "application/x-ndjson", header: func(io.Writer) error { return nil }, write: writeLines},
	{media: "text/csv", header: writeNames, write: writeCSV},
}

// exportFormat returns the format that is asked for, nil for a page of JSON.
func exportFormat(h http.Header) *format {
	for item := range strings.SplitSeq(strings.Join(h.Values("Accept"), ","), ",") {
		media, params, _ := mime.ParseMediaType(item)
		if params["q"] == "0" {
			continue
		}
		for _, f := range formats {
			if media == f.media {
				return f
			}
		}
	}
	return nil
}

// exportRefusals streams all that match, a page at a time, so that no transaction
// is open for long. An error after the first page can only be shown by cutting
// the answer off.
func (s *Server) exportRefusals(w http.ResponseWriter, r *http.Request, params api.ListRefusalsParams, f *format) {
	filter, err := refusalFilter(params)
	if wrong := checkQuery(r, "disposition", "key", "code", "table", "principal", "since", "until", "cursor"); wrong != nil || err != nil {
		s.fail(w, r, cmp.Or(wrong, err))
		return
	}
	out := s.stream(w, r)
	records, err := s.Gate.ListRefusals(r.Context(), principal(r), filter, exportPage)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", f.media+"; charset=utf-8")
	if r.Method == http.MethodHead {
		return
	}
	err = f.header(w)
	for err == nil && len(records) > 0 {
		if err = out.send(func() error { return f.write(w, records) }); err != nil || len(records) < exportPage {
			break
		}
		filter.Before = records[len(records)-1].Place()
		records, err = s.page(out.whole, principal(r), filter)
	}
	if err != nil {
		s.Log.Warn("an export was cut off", "error", err, "request_id", requestID(r))
		panic(http.ErrAbortHandler)
	}
}

func (s *Server) page(ctx context.Context, p auth.Principal, filter audit.Filter) ([]audit.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Limits.Request)
	defer cancel()
	return s.Gate.ListRefusals(ctx, p, filter, exportPage)
}

// stream is an answer that takes as long as it takes, as long as its caller takes
// each piece of it in the time of a request.
type stream struct {
	*http.ResponseController
	whole context.Context
	piece time.Duration
}

func (s *Server) stream(w http.ResponseWriter, r *http.Request) *stream {
	out := &stream{ResponseController: http.NewResponseController(w), whole: r.Context().Value(stayKey).(*stay).whole, piece: s.Limits.Request}
	out.extend()
	return out
}

// extend moves the connection's deadline, past the next piece and the wait for it.
func (s *stream) extend() error { return s.SetWriteDeadline(time.Now().Add(2 * s.piece)) }

// send writes one piece and hands it to the caller.
func (s *stream) send(write func() error) error {
	return cmp.Or(s.extend(), write(), s.Flush())
}

func writeLines(w io.Writer, records []audit.Record) error {
	for _, record := range records {
		if err := json.MarshalWrite(w, apiRefusal(record)); err != nil {
			return err
		}
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
	}
	return nil
}

var columnNames = []string{
	"id", "occurred_at", "code", "disposition", "operation", "table", "key", "presented_token", "mark_token", "holder_digest",
	"client", "principal", "request_id", "remote_address", "payload_sha256", "idempotency_key", "instance",
}

func writeNames(w io.Writer) error {
	_, err := io.WriteString(w, strings.Join(columnNames, ",")+"\r\n")
	return err
}

func writeCSV(w io.Writer, records []audit.Record) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	for _, record := range records {
		r := apiRefusal(record)
		row := []string{
			r.Id, r.OccurredAt.Format(time.RFC3339Nano), r.Code, string(r.Disposition), r.Operation, valueOf(r.Table), valueOf(r.Key), valueOf(r.PresentedToken),
			valueOf(r.MarkToken), valueOf(r.HolderDigest), valueOf(r.Client), r.Principal, r.RequestId, r.RemoteAddress, valueOf(r.PayloadSha256),
			valueOf(r.IdempotencyKey), r.Instance,
		}
		for i := range row {
			row[i] = harmless(row[i])
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// harmless keeps a spreadsheet from taking a text for a formula: workers choose
// their names, and keys, themselves.
func harmless(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
