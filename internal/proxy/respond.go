package proxy

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/gate"
)

// respondWrite answers a committed write. The worker learns its time left for
// free: the check knew it anyway.
func (s *Server) respondWrite(w http.ResponseWriter, write gate.Write, prefer preferences, result gate.Result) {
	h := w.Header()
	prefer.writeApplied(h)
	h.Set("Fencing-Token", write.Claim.Token.String())
	if result.Replayed {
		h.Set("Idempotency-Replayed", "true")
	} else {
		h.Set("Lease-Checked", string(result.Lease.Verdict))
	}
	if result.Lease.Verdict == gate.Live {
		h.Set("Lease-Remaining-Ms", strconv.FormatInt(result.Lease.Remaining.Milliseconds(), 10))
	}
	h.Set("Content-Range", contentRangeOfWrite(result, prefer))
	representation := prefer.returning == "representation"
	switch {
	case representation && write.Mutation.Op == catalog.Insert:
		respondRows(w, http.StatusCreated, result.JSON)
	case representation:
		respondRows(w, http.StatusOK, result.JSON)
	case write.Mutation.Op == catalog.Insert:
		w.WriteHeader(http.StatusCreated)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func respondRows(w http.ResponseWriter, status int, objects string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(objects)+2))
	w.WriteHeader(status)
	io.WriteString(w, "[")
	io.WriteString(w, objects)
	io.WriteString(w, "]")
}

func respondJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err) // the generated types always marshal
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	w.Write(body)
}

func contentRange(offset int64, rows gate.Rows) string {
	total := "*"
	if rows.Total != nil {
		total = strconv.FormatInt(*rows.Total, 10)
	}
	if rows.Affected == 0 {
		return "*/" + total
	}
	return fmt.Sprintf("%d-%d/%s", offset, offset+rows.Affected-1, total)
}

func contentRangeOfWrite(result gate.Result, prefer preferences) string {
	rows := result.Rows
	if prefer.count {
		rows.Total = &rows.Affected
	}
	return contentRange(0, rows)
}

// checkAccept refuses callers that can't take JSON before anything is done.
func checkAccept(h http.Header) error {
	given := strings.Join(h.Values("Accept"), ",")
	if given == "" {
		return nil
	}
	for item := range strings.SplitSeq(given, ",") {
		switch media, _, _ := mime.ParseMediaType(item); media {
		case "application/json", "application/*", "*/*", "application/problem+json":
			return nil
		}
	}
	return &fault{status: http.StatusNotAcceptable, slug: "not_acceptable", code: "PGRST107", parameter: "Accept",
		detail: fmt.Sprintf("none of %q can be produced; application/json can", given)}
}
