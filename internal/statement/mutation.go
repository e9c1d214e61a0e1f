package statement

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/fencegate/fencegate/internal/lease"
)

func buildUpdate(m Mutation, key lease.Key) ([]Statement, error) {
	row := m.Rows[0]
	if len(row.Names) == 0 {
		return nil, &Fault{Code: EmptyBody, Detail: "the object has no members: nothing to update"}
	}
	var b builder
	pins, where, err := conditions(&b, m, key)
	if err != nil {
		return nil, err
	}
	names := sorted(row.Names)
	assignments := values(m.Table, names)
	for i, name := range names {
		assignments[i] = ident(name) + " = " + assignments[i]
	}
	fmt.Fprintf(&b, "WITH w AS (\n  UPDATE %s AS t\n     SET %s\n    FROM json_to_record(%s::pg_catalog.json) AS b(%s)\n   WHERE %s\n  RETURNING %s)",
		tableName(m.Table), strings.Join(assignments, ", "), b.param(string(row.JSON)), typedList(m.Table, names), where, returning(m))
	answer(&b, m, key, pins)
	return []Statement{b.statement()}, nil
}

func buildDelete(m Mutation, key lease.Key) ([]Statement, error) {
	var b builder
	pins, where, err := conditions(&b, m, key)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(&b, "WITH w AS (\n  DELETE FROM %s AS t\n   WHERE %s\n  RETURNING %s)", tableName(m.Table), where, returning(m))
	answer(&b, m, key, pins)
	return []Statement{b.statement()}, nil
}

// conditions returns the pinned key and the WHERE clause of an update or
// delete: the request's filters and that the row, as it was, is covered.
func conditions(b *builder, m Mutation, key lease.Key) (pins, where string, err error) {
	if len(m.Filters) == 0 && !m.All && m.Table.Lock.WholeTable() {
		return "", "", &Fault{
			Code: FilterRequired, Parameter: "all",
			Detail: fmt.Sprintf("without a filter this %s touches every row of %q; say all=true if that is meant", m.Op, m.Table.Name),
		}
	}
	if pins, err = pinned(b, m); err != nil {
		return "", "", err
	}
	covered := rendered(m.Table, columnOf("t")) + " = " + b.param(string(key)) + "::pg_catalog.text"
	return pins, strings.Join(append(filterConditions(b, m.Table, m.Filters), covered), "\n     AND "), nil
}

// bytea is the one type that JSON has no text of its own for: beside
// PostgreSQL's \x… it may come as base64.
const bytea = "bytea"

// typedList is the column definition list of the record b.
func typedList(t record, names []string) string {
	typed := make([]string, len(names))
	for i, name := range names {
		column, _ := t.Column(name) // checkColumns has seen it
		typed[i] = ident(name) + " " + column.Type
		if column.Type == bytea {
			typed[i] = ident(name) + " pg_catalog.text"
		}
	}
	return strings.Join(typed, ", ")
}

// values is what each column gets of the record b.
func values(t record, names []string) []string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = "b." + ident(name)
		if column, _ := t.Column(name); column.Type == bytea {
			list[i] = fmt.Sprintf("CASE WHEN starts_with(%[1]s, 'base64:') THEN decode(substr(%[1]s, 8), 'base64') ELSE %[1]s::pg_catalog.bytea END", list[i])
		}
	}
	return list
}

func arrayOf(rows []Row) string {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, row := range rows {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(row.JSON)
	}
	b.WriteByte(']')
	return b.String()
}
