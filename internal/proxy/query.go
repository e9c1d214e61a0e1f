package proxy

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fencegate/fencegate/internal/statement"
)

// restQuery is the query string of /rest, parsed.
type restQuery struct {
	columns statement.Columns
	filters []statement.Filter
	leaves  int // single conditions in filters
	order   []statement.OrderTerm
	limit   int64 // -1: none given
	offset  int64
	paged   bool // limit or offset is given
	all     bool
	insert  []string // columns: what every inserted row gets; nil: not given
	target  []string // on_conflict: the unique key to collide on; nil: not given
}

// parseRestQuery reads the query string. allowed names the parameters, beside
// filters, that mean something for this call; others are errors.
func parseRestQuery(raw string, maxFilters int, allowed ...string) (restQuery, error) {
	q := restQuery{columns: statement.Columns{All: true}, limit: -1}
	pairs, err := splitQuery(raw)
	if err != nil {
		return q, err
	}
	seen := map[string]bool{}
	for _, pair := range pairs {
		name, value := pair[0], pair[1]
		switch {
		case slices.Contains(reservedParameters, name):
			if seen[name] || !slices.Contains(allowed, name) {
				return q, badParameter(name, "%s is given twice or means nothing for this call", name)
			}
			seen[name] = true
			q.paged = q.paged || name == "limit" || name == "offset"
			err = q.setReserved(name, value)
		default:
			err = q.addFilter(name, value, maxFilters)
		}
		if err != nil {
			return q, err
		}
	}
	return q, nil
}

var reservedParameters = []string{"select", "order", "limit", "offset", "all", "columns", "on_conflict"}

func (q *restQuery) setReserved(name, value string) (err error) {
	switch name {
	case "select":
		q.columns, err = parseSelect(value)
	case "order":
		q.order, err = parseOrder(value)
	case "limit":
		q.limit, err = parseCount(name, value)
	case "offset":
		q.offset, err = parseCount(name, value)
	case "columns":
		q.insert, err = parseNames(name, value)
	case "on_conflict":
		q.target, err = parseNames(name, value)
	case "all":
		if value != "true" {
			return badParameter(name, "all can only be true")
		}
		q.all = true
	}
	return err
}

// splitQuery decodes the query string once and keeps the order.
func splitQuery(raw string) ([][2]string, error) {
	var pairs [][2]string
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(part, "=")
		name, errName := url.QueryUnescape(rawName)
		value, errValue := url.QueryUnescape(rawValue)
		if errName != nil || errValue != nil || strings.Contains(part, ";") {
			return nil, badParameter(rawName, "the query string has a broken percent-encoding or a semicolon")
		}
		if !utf8.ValidString(name+value) || strings.Contains(name+value, "\x00") {
			return nil, badParameter(rawName, "the query string holds NUL or invalid UTF-8")
		}
		pairs = append(pairs, [2]string{name, value})
	}
	return pairs, nil
}

// checkQuery refuses parameters that a call of /v1 has no meaning for: a filter
// with a typing mistake must not list everything.
func checkQuery(r *http.Request, allowed ...string) error {
	pairs, err := splitQuery(r.URL.RawQuery)
	for _, pair := range pairs {
		if !slices.Contains(allowed, pair[0]) {
			return badParameter(pair[0], "%s means nothing for this call", pair[0])
		}
	}
	return err
}

// parseNames reads a list of column names, each once.
func parseNames(parameter, text string) ([]string, error) {
	var names []string
	for _, name := range splitOutside(text, ',') {
		name = unquote(strings.TrimSpace(name))
		if name == "" || slices.Contains(names, name) {
			return nil, badParameter(parameter, "a column is empty or named twice")
		}
		names = append(names, name)
	}
	return names, nil
}

func parseCount(name, text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 62)
	if err != nil {
		return 0, badParameter(name, "%s must be a whole number, 0 or more", name)
	}
	return int64(n), nil
}

func badParameter(name, format string, args ...any) error {
	return &fault{status: http.StatusBadRequest, slug: "malformed_query", parameter: name, detail: fmt.Sprintf(format, echoed(args)...)}
}
