package statement

import (
	"strings"

	"github.com/fencegate/fencegate/internal/catalog"
)

// Filter is one condition on one column.
type Filter struct {
	Column string
	Op     FilterOp
	Not    bool
	Values []string // one; any number for In; the literal word for Is
}

// FilterOp is an operator of the filter grammar, as it is written.
type FilterOp string

// The operators.
const (
	Eq  FilterOp = "eq"
	Neq FilterOp = "neq"
	Gt  FilterOp = "gt"
	Gte FilterOp = "gte"
	Lt  FilterOp = "lt"
	Lte FilterOp = "lte"
	In  FilterOp = "in"
	Is  FilterOp = "is"
)

var comparisons = map[FilterOp]string{
	Eq: "=", Neq: "<>", Gt: ">", Gte: ">=", Lt: "<", Lte: "<=",
}

var isWords = map[string]string{
	"null": "IS NULL", "not_null": "IS NOT NULL",
	"true": "IS TRUE", "false": "IS FALSE", "unknown": "IS UNKNOWN",
}

// KnownOp reports whether op is an operator of this grammar.
func KnownOp(op FilterOp) bool {
	return op == In || op == Is || comparisons[op] != ""
}

// KnownIs reports whether word can follow `is.`.
func KnownIs(word string) bool { return isWords[word] != "" }

func checkFilters(table *catalog.Table, filters []Filter) error {
	for _, f := range filters {
		if err := known(table, f.Column, f.Column); err != nil {
			return err
		}
	}
	return nil
}

func filterConditions(b *builder, filters []Filter) []string {
	conditions := make([]string, len(filters))
	for i, f := range filters {
		conditions[i] = f.sql(b)
		if f.Not {
			conditions[i] = "NOT (" + conditions[i] + ")"
		}
	}
	return conditions
}

func (f Filter) sql(b *builder) string {
	column := "t." + ident(f.Column)
	switch f.Op {
	case In:
		return column + " = ANY (" + b.param(arrayLiteral(f.Values)) + ")"
	case Is:
		return column + " " + isWords[f.Values[0]]
	}
	return column + " " + comparisons[f.Op] + " " + b.param(f.Values[0])
}

func where(b *builder, filters []Filter) string {
	if len(filters) == 0 {
		return ""
	}
	return "\n   WHERE " + strings.Join(filterConditions(b, filters), "\n     AND ")
}
