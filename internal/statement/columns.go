package statement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fencegate/fencegate/internal/catalog"
)

// Columns is what to return of each row. The zero value is nothing.
type Columns struct {
	All   bool     // every column, and Names and Outputs are empty
	Names []string // these, if nothing else is asked of them
	// Outputs stand in place of Names as soon as one of them is more than a
	// column.
	Outputs []Output
}

// Output is one member of the returned objects.
type Output struct {
	Star   bool // all columns of the table, and nothing else is set
	Column string
	Path   Path
	Cast   string // a name that KnownType knows, or ""
	Alias  string // "": the path's or the column's own name
}

// Name is the member's name.
func (o Output) Name() string {
	if o.Alias != "" {
		return o.Alias
	}
	return o.Path.name(o.Column)
}

// Any reports whether anything is to be returned.
func (c Columns) Any() bool { return c.All || len(c.Names)+len(c.Outputs) > 0 }

// Check returns a *Fault for the first column that table does not have, and for
// a member that would be there twice.
func (c Columns) Check(table *catalog.Table) error {
	for _, name := range c.Names {
		if err := mayReturn(table, name, "select"); err != nil {
			return err
		}
	}
	star := slices.ContainsFunc(c.Outputs, func(o Output) bool { return o.Star })
	for _, o := range c.Outputs {
		if o.Star {
			continue
		}
		if err := cmp.Or(mayReturn(table, o.Column, "select"), o.Path.check(table, o.Column, "select")); err != nil {
			return err
		}
		if _, taken := table.Column(o.Name()); star && taken && table.May(catalog.Select, o.Name()) {
			return &Fault{Code: NamedTwice, Column: o.Column, Parameter: "select",
				Detail: fmt.Sprintf("%q is among the columns of * already; give it an alias", o.Name())}
		}
	}
	return nil
}

// of returns c with the columns that may be returned in place of all of table's,
// where not all may.
func (c Columns) of(table *catalog.Table) Columns {
	if !table.Hides() {
		return c
	}
	if c.All {
		return Columns{Names: table.Returnable()}
	}
	var outputs []Output
	for _, o := range c.Outputs {
		if !o.Star {
			outputs = append(outputs, o)
			continue
		}
		for _, name := range table.Returnable() {
			outputs = append(outputs, Output{Column: name})
		}
	}
	return Columns{Names: c.Names, Outputs: outputs}
}

// needed names the table's columns that the outputs are made of; all says that
// it is every one.
func (c Columns) needed() (names []string, all bool) {
	names = slices.Clone(c.Names)
	for _, o := range c.Outputs {
		if o.Star {
			return nil, true
		}
		names = append(names, o.Column)
	}
	return unique(names), c.All
}

// answered aggregates what m is to answer of the rows of w.
func answered(b *builder, m Mutation) string {
	if m.Op == catalog.Call && m.Return.All && m.Routine.ReturnsScalar {
		return aggregated(b, "coalesce(pg_catalog.to_json(w."+ident(m.Routine.Name)+")::pg_catalog.text, 'null')", "", m.MaxBytes)
	}
	order := ""
	if m.sorted() {
		order = " " + orderBy(b, m.Table, m.Order, "w")
	}
	return jsonOf(b, m.Return, order, m.MaxBytes)
}

// jsonOf aggregates the returned columns of w.
func jsonOf(b *builder, c Columns, order string, maxBytes int64) string {
	row := ""
	switch {
	case c.All:
		row = "row_to_json(w.*)"
	case len(c.Outputs) > 0:
		row = objectOf(b, c.Outputs)
	case len(c.Names) > 0:
		row = "(SELECT row_to_json(r.*) FROM (SELECT " + identList("w.", c.Names) + ") AS r)"
	default:
		return "NULL::pg_catalog.text"
	}
	return aggregated(b, row, order, maxBytes)
}

func aggregated(b *builder, row, order string, maxBytes int64) string {
	return fmt.Sprintf("fencegate.check_size(string_agg(%s::pg_catalog.text, ','%s), %s)", row, order, b.param(maxBytes))
}

// objectOf writes a row's object member by member: the members' names are the
// caller's own, and as parameters they are neither text of the statement nor cut
// to the length of an identifier.
func objectOf(b *builder, outputs []Output) string {
	var text strings.Builder
	text.WriteByte('(')
	separator := "{"
	for i, o := range outputs {
		if i > 0 {
			text.WriteString(" || ")
		}
		if o.Star {
			fmt.Fprintf(&text, "%s::pg_catalog.text || pg_catalog.left(pg_catalog.right(row_to_json(w.*)::pg_catalog.text, -1), -1)", b.param(separator))
		} else {
			name, _ := jsontext.AppendQuote(nil, o.Name())
			fmt.Fprintf(&text, "%s::pg_catalog.text || coalesce(pg_catalog.to_json(%s)::pg_catalog.text, 'null')",
				b.param(separator+string(name)+":"), o.sql(b))
		}
		separator = ","
	}
	text.WriteString(" || '}')")
	return text.String()
}

func (o Output) sql(b *builder) string {
	text := o.Path.sql(b, "w."+ident(o.Column))
	if o.Cast != "" {
		return "CAST(" + text + " AS " + castTypes[o.Cast] + ")"
	}
	return text
}
