package proxy

import (
	"fmt"
	"net/http"
	"regexp"

	"github.com/fencegate/fencegate/internal/gate"
)

var rangePattern = regexp.MustCompile(`^([0-9]+)-([0-9]*)$`)

// parseRange reads the header Range, the other way to say limit and offset.
func (q *restQuery) parseRange(h http.Header) error {
	if unit := h.Get("Range-Unit"); unit != "" && unit != "items" {
		return badParameter("Range-Unit", "the unit can only be items")
	}
	given := h.Get("Range")
	switch {
	case given == "":
		return nil
	case q.paged:
		return badParameter("Range", "give a Range or limit and offset, not both")
	}
	parts := rangePattern.FindStringSubmatch(given)
	if parts == nil {
		return badParameter("Range", "a range is first-last or first-, counted from 0")
	}
	var err error
	if q.offset, err = parseCount("Range", parts[1]); err != nil || parts[2] == "" {
		return err
	}
	last, err := parseCount("Range", parts[2])
	if err != nil {
		return err
	}
	if last < q.offset {
		return notSatisfiable("the range ends before it begins")
	}
	q.limit = last - q.offset + 1
	return nil
}

// noRange refuses a range on a write, which would touch more than it says.
func noRange(h http.Header) error {
	if len(h.Values("Range")) > 0 {
		return badParameter("Range", "Range means nothing for this call")
	}
	return nil
}

// readStatus tells a part from the whole where the total is known.
func readStatus(offset int64, rows gate.Rows) (int, error) {
	switch {
	case rows.Total == nil:
		return http.StatusOK, nil
	case offset > *rows.Total:
		return 0, notSatisfiable(fmt.Sprintf("an offset of %d was requested, but there are only %d rows", offset, *rows.Total))
	case rows.Affected < *rows.Total:
		return http.StatusPartialContent, nil
	}
	return http.StatusOK, nil
}

func notSatisfiable(detail string) error {
	return &fault{status: http.StatusRequestedRangeNotSatisfiable, slug: "range_not_satisfiable", code: "PGRST103", detail: detail}
}
