package statement

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/fencegate/fencegate/internal/catalog"
)

// Filter is one condition on one column, or a group of filters joined by And
// or Or.
type Filter struct {
	Not        bool
	Op         FilterOp
	Column     string
	Path       Path
	Quantifier Quantifier // "" or, if Quantifiable, how the one array in Values is met
	Config     string     // of a full text search; "": the database's default
	Values     []string   // one; any number for In; the literal word for Is
	Parts      []Filter   // of a group, which has nothing else but Not and Op
}

func (f Filter) group() bool { return f.Op == And || f.Op == Or }

// checkFilters looks for every column. parameter is the query parameter that
// the filters came in, "" if each came in one of its own.
func checkFilters(table *catalog.Table, filters []Filter, parameter string) error {
	for _, f := range filters {
		var err error
		if f.group() {
			err = checkFilters(table, f.Parts, cmp.Or(parameter, f.Parameter()))
		} else {
			parameter := cmp.Or(parameter, f.Parameter())
			err = cmp.Or(maySearch(table, f.Column, parameter), f.Path.check(table, f.Column, parameter))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Parameter names the query parameter that f is written as.
func (f Filter) Parameter() string {
	switch {
	case !f.group():
		return f.Column
	case f.Not:
		return "not." + string(f.Op)
	}
	return string(f.Op)
}

func filterConditions(b *builder, table *catalog.Table, filters []Filter) []string {
	conditions := make([]string, len(filters))
	for i, f := range filters {
		conditions[i] = f.sql(b, table)
		if f.Not {
			conditions[i] = "NOT (" + conditions[i] + ")"
		}
	}
	return conditions
}

func (f Filter) sql(b *builder, table *catalog.Table) string {
	if f.group() {
		return "(" + strings.Join(filterConditions(b, table, f.Parts), " "+strings.ToUpper(string(f.Op))+" ") + ")"
	}
	column, _ := table.Column(f.Column) // checkFilters has seen it
	left := operand(b, "t", column, f.Path)
	switch {
	case f.Op == In:
		return left + " = ANY (" + typed(column, b.param(arrayLiteral(f.Values)), "[]") + ")"
	case f.Op == Is:
		return left + " " + isWords[f.Values[0]]
	case IsSearch(f.Op):
		return f.search(b, left, column.KeyType == "tsvector")
	case f.Quantifier != "":
		return fmt.Sprintf("%s %s %s (%s)", left, infix[f.Op], strings.ToUpper(string(f.Quantifier)), typed(column, b.param(f.Op.pattern(f.Values[0])), "[]"))
	}
	return left + " " + infix[f.Op] + " " + typed(column, b.param(f.Op.pattern(f.Values[0])), "")
}

// typed names the type of a value that is compared with a row: PostgreSQL has
// one operator for rows of all types, and does not find out itself.
func typed(column catalog.Column, value, array string) string {
	if column.Composite {
		return value + "::" + column.KeyType + array
	}
	return value
}

// search makes a document of any operand that is none yet, in the language of
// the query.
func (f Filter) search(b *builder, operand string, document bool) string {
	config := ""
	if f.Config != "" {
		config = b.param(f.Config) + "::pg_catalog.regconfig, "
	}
	if !document {
		operand = "pg_catalog.to_tsvector(" + config + operand + ")"
	}
	return fmt.Sprintf("%s @@ pg_catalog.%s(%s%s::pg_catalog.text)", operand, searches[f.Op], config, b.param(f.Values[0]))
}

func where(b *builder, table *catalog.Table, filters []Filter) string {
	if len(filters) == 0 {
		return ""
	}
	return "\n   WHERE " + strings.Join(filterConditions(b, table, filters), "\n     AND ")
}
