package proxy

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/statement"
)

// maxGroupDepth bounds how deep groups of filters nest.
const maxGroupDepth = 8

var (
	leafPattern  = regexp.MustCompile(`(?s)^(not\.)?([a-z]+)(\([^()]*\))?\.(.*)$`)
	groupPattern = regexp.MustCompile(`(?s)^(not\.)?(and|or)(\(.*\))$`)
	// A configuration is named, never numbered: PostgreSQL takes any number for
	// one that is there.
	searchConfig = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)
)

// addFilter reads one query parameter that is a filter or a group of them.
// Only single conditions count against most, wherever they are.
func (q *restQuery) addFilter(name, text string, most int) (err error) {
	p := filterParser{parameter: name, left: most - q.leaves}
	var f statement.Filter
	switch op, negated := strings.CutPrefix(name, "not."); op {
	case "and", "or":
		f, err = p.group(negated, op, text, 1)
	default:
		f, err = p.leaf(name, text, false)
	}
	if err != nil {
		return err
	}
	q.leaves = most - p.left
	q.filters = append(q.filters, f)
	return nil
}

// filterParser reads one query parameter.
type filterParser struct {
	parameter string
	left      int // single conditions that are still allowed
}

func (p *filterParser) group(not bool, op, text string, depth int) (f statement.Filter, err error) {
	f.Not, f.Op = not, statement.FilterOp(op)
	if depth > maxGroupDepth {
		return f, p.bad("groups nest deeper than %d", maxGroupDepth)
	}
	inner, opened := strings.CutPrefix(text, "(")
	inner, closed := strings.CutSuffix(inner, ")")
	parts, err := splitNested(inner)
	if err != nil || !opened || !closed {
		return f, p.bad(`%s takes (column.operator.value,…), with " around values that hold commas, quotes, parentheses or single braces`, op)
	}
	for _, part := range parts {
		one, err := p.part(strings.TrimLeft(part, " "), depth)
		if err != nil {
			return f, err
		}
		f.Parts = append(f.Parts, one)
	}
	return f, nil
}

func (p *filterParser) part(text string, depth int) (statement.Filter, error) {
	if nested := groupPattern.FindStringSubmatch(text); nested != nil {
		return p.group(nested[1] != "", nested[2], nested[3], depth+1)
	}
	column, rest, ok := cutOutside(text, ".")
	if !ok {
		return statement.Filter{}, p.bad("%q is not a filter; write column.operator.value", text)
	}
	return p.leaf(column, rest, true)
}

// leaf reads one condition. Inside a group its value may be quoted.
func (p *filterParser) leaf(column, text string, grouped bool) (f statement.Filter, err error) {
	if p.left--; p.left < 0 {
		return f, p.bad("more filters than allowed")
	}
	if f.Column, f.Path, err = parseField(p.parameter, column); err != nil {
		return f, err
	}
	words := leafPattern.FindStringSubmatch(text)
	if words == nil || !statement.KnownOp(statement.FilterOp(words[2])) {
		return f, p.bad("%q is not a filter on %q; write eq.<value>, with one of %s", text, column, strings.Join(statement.Ops(), " "))
	}
	f.Not, f.Op = words[1] != "", statement.FilterOp(words[2])
	if err := p.modify(&f, words[3]); err != nil {
		return f, err
	}
	f.Values, err = p.values(f, words[4], grouped)
	return f, err
}

// modify reads what follows the operator in parentheses.
func (p *filterParser) modify(f *statement.Filter, modifier string) error {
	inner := strings.Trim(modifier, "()")
	switch {
	case modifier == "":
	case statement.IsSearch(f.Op) && searchConfig.MatchString(inner):
		f.Config = inner
	case statement.Quantifiable(f.Op) && (inner == "any" || inner == "all"):
		f.Quantifier = statement.Quantifier(inner)
	default:
		return p.bad("%s does not take %s", f.Op, modifier)
	}
	return nil
}

func (p *filterParser) values(f statement.Filter, text string, grouped bool) ([]string, error) {
	if f.Op == statement.In {
		values, err := parseList(text)
		if err != nil {
			return nil, p.bad(`in takes (a,b,c), with " around values that hold commas or parentheses`)
		}
		return values, nil
	}
	if grouped {
		var ok bool
		if text, ok = groupedValue(text); !ok {
			return nil, p.bad(`%q: inside a group, " goes around values that hold commas, quotes or parentheses`, text)
		}
	}
	if f.Op == statement.Is && !statement.KnownIs(text) {
		return nil, p.bad("is takes null, not_null, true, false or unknown")
	}
	if f.Quantifier != "" && (!strings.HasPrefix(text, "{") || !strings.HasSuffix(text, "}")) {
		return nil, p.bad("%s(%s) takes {a,b,c}", f.Op, f.Quantifier)
	}
	return []string{text}, nil
}

// groupedValue takes the quotes off a value. Braces quote an array as a whole.
func groupedValue(text string) (string, bool) {
	switch {
	case strings.HasPrefix(text, `"`):
		value, rest, err := nextElement(text)
		return value, err == nil && rest == ""
	case strings.HasPrefix(text, "{"):
		return text, true
	}
	return text, !strings.ContainsAny(text, `"()`)
}

func (p *filterParser) bad(format string, args ...any) error {
	return badParameter(p.parameter, format, args...)
}

// searchFault tells a value that to_tsquery can't read from a statement that
// PostgreSQL can't: both are a syntax error to it, and only the first is the
// caller's.
func searchFault(err error, filters []statement.Filter) error {
	var db *gate.DatabaseError
	if errors.As(err, &db) && db.SQLState == "42601" && hasQuery(filters) {
		return &fault{status: http.StatusUnprocessableEntity, slug: "invalid_value", code: db.SQLState, sqlState: db.SQLState,
			detail: "the value of fts is no text search query; plfts, phfts and wfts take any text"}
	}
	return err
}

func hasQuery(filters []statement.Filter) bool {
	return slices.ContainsFunc(filters, func(f statement.Filter) bool { return f.Op == "fts" || hasQuery(f.Parts) })
}
