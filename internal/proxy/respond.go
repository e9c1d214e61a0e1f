package proxy

import (
	"cmp"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/gate"
)

// respondWrite answers a committed write. The worker learns its time left for
// free: the check knew it anyway.
func (s *Server) respondWrite(w http.ResponseWriter, d decodedWrite, result gate.Result) {
	h, m, rows := w.Header(), d.Mutations[0], result.Parts[0]
	d.prefer.writeApplied(h)
	writeClaims(h, d.Write, result)
	h.Set("Content-Range", contentRangeOfWrite(rows, d.prefer))
	writeETag(h, rows)
	if d.location && rows.JSON != "" { // a trigger may have left the row out
		h.Set("Location", locationOf(d, rows.JSON))
	}
	if m.Op == catalog.Call {
		respondCall(w, d, rows)
		return
	}
	representation := d.prefer.returning == "representation"
	switch {
	case representation && m.Op == catalog.Insert && !d.put:
		respondRows(w, http.StatusCreated, rows.JSON, d.singular)
	case representation:
		respondRows(w, http.StatusOK, rows.JSON, d.singular)
	case m.Op == catalog.Insert && !d.put:
		w.WriteHeader(http.StatusCreated)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// observedHeader tells the worker that its write would have been refused, were its
// table not in observe mode.
const observedHeader = "Fencing-Observed"

// writeClaims tells how the leases stand. Of several locks, the one with the
// least time left.
func writeClaims(h http.Header, write gate.Write, result gate.Result) {
	if len(result.Observed) > 0 {
		h.Set(observedHeader, string(result.Observed[0].Code))
	} else if len(write.Claims) == 1 {
		h.Set("Fencing-Token", write.Claims[0].Token.String())
	}
	if result.Replayed {
		h.Set("Idempotency-Replayed", "true")
	}
	if len(result.Checks) == 0 {
		return
	}
	worst := slices.MinFunc(result.Checks, func(a, b gate.Check) int { return cmp.Compare(a.Remaining, b.Remaining) })
	h.Set("Lease-Checked", string(worst.Verdict))
	if worst.Verdict == gate.Live {
		h.Set("Lease-Remaining-Ms", strconv.FormatInt(worst.Remaining.Milliseconds(), 10))
	}
}

func writeETag(h http.Header, rows gate.Rows) {
	if rows.ETag != "" {
		h.Set("ETag", `"`+rows.ETag+`"`)
	}
}

// locationOf says where the one inserted row is, by its primary key.
func locationOf(d decodedWrite, object string) string {
	table := d.Mutations[0].Table
	var members map[string]jsontext.Value
	if err := json.Unmarshal([]byte(object), &members); err != nil {
		panic(err) // PostgreSQL made it
	}
	var filters []string
	for _, name := range table.PrimaryKey {
		value, ok := textOf(members[name])
		if !ok {
			value = string(members[name])
		}
		filters = append(filters, url.QueryEscape(name)+"=eq."+url.QueryEscape(value))
	}
	return "/rest/" + url.PathEscape(table.Name) + "?" + strings.Join(filters, "&")
}

// respondRows answers with an array of the objects or, if singular, with the
// one that there is.
func respondRows(w http.ResponseWriter, status int, objects string, singular bool) {
	if singular {
		respondText(w, status, singularMedia, objects)
	} else {
		respondText(w, status, "application/json", "[", objects, "]")
	}
}

// respondText answers with JSON that PostgreSQL made.
func respondText(w http.ResponseWriter, status int, media string, pieces ...string) {
	length := 0
	for _, piece := range pieces {
		length += len(piece)
	}
	w.Header().Set("Content-Type", media+"; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(length))
	w.WriteHeader(status)
	for _, piece := range pieces {
		io.WriteString(w, piece)
	}
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

func contentRangeOfWrite(rows gate.Rows, prefer preferences) string {
	if prefer.count {
		rows.Total = &rows.Affected
	}
	return contentRange(0, rows)
}

// singularMedia asks for one object instead of an array of one.
const singularMedia = "application/vnd.pgrst.object+json"

// parseAccept refuses callers that can't take JSON before anything is done, and
// says whether it is one object that they want. The first of theirs that can be
// produced counts.
func parseAccept(h http.Header) (singular bool, err error) {
	given := strings.Join(h.Values("Accept"), ",")
	if given == "" {
		return false, nil
	}
	for item := range strings.SplitSeq(given, ",") {
		media, params, _ := mime.ParseMediaType(item)
		switch {
		case params["nulls"] == "stripped":
			return false, &fault{status: http.StatusNotAcceptable, slug: "not_acceptable", code: "PGRST107", parameter: "Accept",
				detail: "nulls=stripped is not offered: null and absent are not the same"}
		case media == singularMedia, media == "application/vnd.pgrst.object":
			return true, nil
		case slices.Contains([]string{"application/json", "application/*", "*/*", "application/problem+json", "application/vnd.pgrst.array", "application/vnd.pgrst.array+json"}, media):
			return false, nil
		}
	}
	return false, &fault{status: http.StatusNotAcceptable, slug: "not_acceptable", code: "PGRST107", parameter: "Accept",
		detail: fmt.Sprintf("none of %q can be produced; application/json can", given)}
}
