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
	order   []statement.OrderTerm
	limit   int64 // -1: none given
	offset  int64
	all     bool
	insert  []string // columns: what every inserted row gets; nil: not given
	target  []string // on_conflict: the unique key to collide on; nil: not given
}

// Reserved names of PostgREST's grammar that this version has no meaning for.
// Taking them for column names would be a wider write than asked for.
var unsupportedParameters = []string{"and", "or", "not.and", "not.or"}

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
		case slices.Contains(unsupportedParameters, name):
			return q, badParameter(name, "%s is not supported by this version", name)
		case slices.Contains(reservedParameters, name):
			if seen[name] || !slices.Contains(allowed, name) {
				return q, badParameter(name, "%s is given twice or means nothing for this call", name)
			}
			seen[name] = true
			err = q.setReserved(name, value)
		case len(q.filters) == maxFilters:
			return q, badParameter(name, "more than %d filters", maxFilters)
		default:
			err = q.addFilter(name, value)
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

func (q *restQuery) addFilter(column, text string) error {
	filter := statement.Filter{Column: unquote(column)}
	rest, negated := strings.CutPrefix(text, "not.")
	filter.Not = negated
	op, value, ok := strings.Cut(rest, ".")
	filter.Op = statement.FilterOp(op)
	if !ok || !statement.KnownOp(filter.Op) {
		return badParameter(column, "%q is not a filter; write %s=eq.<value>, with one of eq neq gt gte lt lte in is", column, column)
	}
	filter.Values = []string{value}
	if filter.Op == statement.Is && !statement.KnownIs(value) {
		return badParameter(column, "is takes null, not_null, true, false or unknown")
	}
	if filter.Op == statement.In {
		values, err := parseList(value)
		if err != nil {
			return badParameter(column, "in takes (a,b,c), with \" around values that hold commas or parentheses")
		}
		filter.Values = values
	}
	q.filters = append(q.filters, filter)
	return nil
}

// parseList reads `(a,b,"c,d")`. `()` is the empty list, which matches nothing.
func parseList(text string) ([]string, error) {
	if len(text) < 2 || text[0] != '(' || text[len(text)-1] != ')' {
		return nil, strconv.ErrSyntax
	}
	rest := text[1 : len(text)-1]
	values := []string{}
	for rest != "" {
		value, after, err := nextElement(rest)
		if err != nil {
			return nil, err
		}
		values = append(values, value)
		if after == "" {
			return values, nil
		}
		if after[0] != ',' {
			return nil, strconv.ErrSyntax
		}
		if rest = after[1:]; rest == "" {
			values = append(values, "")
		}
	}
	return values, nil
}

func nextElement(s string) (value, rest string, err error) {
	if s[0] != '"' {
		end := strings.IndexByte(s, ',')
		if end < 0 {
			end = len(s)
		}
		if strings.ContainsAny(s[:end], `"()`) {
			return "", "", strconv.ErrSyntax
		}
		return s[:end], s[end:], nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case s[i] == '"':
			return b.String(), s[i+1:], nil
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", strconv.ErrSyntax
}

func parseSelect(text string) (statement.Columns, error) {
	if text == "*" || text == "" {
		return statement.Columns{All: true}, nil
	}
	var columns statement.Columns
	for _, name := range splitOutside(text, ',') {
		name = unquote(strings.TrimSpace(name))
		if name == "" || slices.Contains(columns.Names, name) {
			return columns, badParameter("select", "a column is empty or named twice")
		}
		columns.Names = append(columns.Names, name)
	}
	return columns, nil
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

func parseOrder(text string) ([]statement.OrderTerm, error) {
	var terms []statement.OrderTerm
	for _, part := range splitOutside(text, ',') {
		words := splitOutside(part, '.')
		term := statement.OrderTerm{Column: unquote(words[0])}
		words = words[1:]
		if len(words) > 0 && (words[0] == "asc" || words[0] == "desc") {
			term.Desc = words[0] == "desc"
			words = words[1:]
		}
		if len(words) > 0 && (words[0] == "nullsfirst" || words[0] == "nullslast") {
			term.Nulls = strings.TrimPrefix(words[0], "nulls")
			words = words[1:]
		}
		if len(words) > 0 {
			return nil, badParameter("order", "%q: write column.asc|desc.nullsfirst|nullslast", part)
		}
		if slices.ContainsFunc(terms, func(t statement.OrderTerm) bool { return t.Column == term.Column }) {
			return nil, badParameter("order", "column %q is named twice", term.Column)
		}
		if len(terms) == maxOrderTerms {
			return nil, badParameter("order", "more than %d columns", maxOrderTerms)
		}
		terms = append(terms, term)
	}
	return terms, nil
}

// maxOrderTerms bounds the columns to sort by.
const maxOrderTerms = 32

// splitOutside splits at every sep that is not inside double quotes.
func splitOutside(text string, sep byte) []string {
	var parts []string
	begin, inQuotes := 0, false
	for i := 0; i < len(text); i++ {
		switch {
		case inQuotes && text[i] == '\\':
			i++
		case text[i] == '"':
			inQuotes = !inQuotes
		case text[i] == sep && !inQuotes:
			parts = append(parts, text[begin:i])
			begin = i + 1
		}
	}
	return append(parts, text[begin:])
}

func parseCount(name, text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 62)
	if err != nil {
		return 0, badParameter(name, "%s must be a whole number, 0 or more", name)
	}
	return int64(n), nil
}

// unquote takes the double quotes off a column name that needs them. A name that
// is not quoted as a whole stays as it is.
func unquote(name string) string {
	if name == "" || name[0] != '"' {
		return name
	}
	if inner, rest, err := nextElement(name); err == nil && rest == "" {
		return inner
	}
	return name
}

func badParameter(name, format string, args ...any) error {
	return &fault{status: http.StatusBadRequest, slug: "malformed_query", parameter: name, detail: fmt.Sprintf(format, args...)}
}
