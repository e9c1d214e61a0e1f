package statement

import (
	"fmt"
	"slices"

	"github.com/fencegate/fencegate/internal/catalog"
)

// Path leads into a JSON column. The empty path is the column itself.
type Path []Step

// Step is one arrow of a path.
type Step struct {
	Key   string // a member's name, or an element's number in digits
	Index bool
	Text  bool // ->> and not ->
}

// sql follows the path from operand. Keys are parameters like any other value.
func (p Path) sql(b *builder, operand string) string {
	for _, step := range p {
		arrow, typ := "->", "text"
		if step.Text {
			arrow = "->>"
		}
		if step.Index {
			typ = "int4"
		}
		operand = fmt.Sprintf("(%s %s %s::pg_catalog.%s)", operand, arrow, b.param(step.Key), typ)
	}
	return operand
}

// operand is a column of alias, or what lies in it, to be compared or sorted by.
// json has no operators for that, jsonb does.
func operand(b *builder, alias string, column catalog.Column, path Path) string {
	text := path.sql(b, alias+"."+ident(column.Name))
	if len(path) > 0 && column.KeyType == "json" && !path[len(path)-1].Text {
		return text + "::pg_catalog.jsonb"
	}
	return text
}

// name is what PostgREST calls the end of a path: its last member.
func (p Path) name(column string) string {
	for _, step := range slices.Backward(p) {
		if !step.Index {
			return step.Key
		}
	}
	return column
}

// check returns a *Fault for a path into a column that has none.
func (p Path) check(table *catalog.Table, column, parameter string) error {
	if len(p) == 0 {
		return nil
	}
	if c, _ := table.Column(column); c.KeyType != "json" && c.KeyType != "jsonb" {
		return &Fault{Code: NotJSON, Column: column, Parameter: parameter,
			Detail: fmt.Sprintf("column %q is %s; only json and jsonb have paths", column, c.Type)}
	}
	return nil
}
