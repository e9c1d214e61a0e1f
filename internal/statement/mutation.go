package statement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/lease"
)

func buildUpdate(m Mutation, claims []lease.Claim) ([]Statement, error) {
	var b builder
	pins, where, err := conditions(&b, m, claims)
	if err != nil {
		return nil, err
	}
	var from, assignments []string
	written := map[string]string{}
	if names := sorted(m.Rows[0].Names); len(names) > 0 {
		from = append(from, typedRecord(&b, m.Table, m.Rows[0], "b"))
		for i, value := range values(m.Table, names) {
			written[names[i]] = value
			assignments = append(assignments, ident(names[i])+" = "+value)
		}
	}
	if m.Increment != nil && len(m.Increment.Names) > 0 {
		from = append(from, typedRecord(&b, m.Table, *m.Increment, "i"))
		for _, name := range sorted(m.Increment.Names) {
			written[name] = fmt.Sprintf("(t.%[1]s + i.%[1]s)", ident(name))
			assignments = append(assignments, ident(name)+" = "+written[name])
		}
	}
	if len(assignments) == 0 {
		return nil, &Fault{Code: EmptyBody, Detail: "the object has no members: nothing to update"}
	}
	if m.Table.FenceColumn != "" && !m.blind(claims) {
		assignments = append(assignments, ident(m.Table.FenceColumn)+" = "+stampUpdate(&b, m, written, claims))
	}
	fmt.Fprintf(&b, "WITH w AS (\n  UPDATE %s AS t\n     SET %s\n    FROM %s\n   WHERE %s\n  RETURNING %s)",
		tableName(m.Table), strings.Join(assignments, ", "), strings.Join(from, ", "), where, returning(m))
	answer(&b, m, claims, scope{pins: pins, hidden: hiddenUpdate(&b, m, pins, claims), written: slices.Sorted(maps.Keys(written))})
	return []Statement{b.statement()}, nil
}

// typedRecord is one row of a request with its members typed by the columns.
func typedRecord(b *builder, t record, row Row, alias string) string {
	return fmt.Sprintf("json_to_record(%s::pg_catalog.json) AS %s(%s)", b.param(string(row.JSON)), alias, typedList(t, sorted(row.Names)))
}

func buildDelete(m Mutation, claims []lease.Claim) ([]Statement, error) {
	var b builder
	pins, where, err := conditions(&b, m, claims)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(&b, "WITH w AS (\n  DELETE FROM %s AS t\n   WHERE %s\n  RETURNING %s)", tableName(m.Table), where, returning(m))
	answer(&b, m, claims, scope{pins: pins})
	return []Statement{b.statement()}, nil
}

// conditions returns the pinned key and the WHERE clause of an update or
// delete: the request's filters and that the row, as it was, is covered.
func conditions(b *builder, m Mutation, claims []lease.Claim) (pins, where string, err error) {
	if len(m.Filters) == 0 && !m.All && (m.Table.Lock.WholeTable() || m.Observe != nil) {
		return "", "", &Fault{
			Code: FilterRequired, Parameter: "all",
			Detail: fmt.Sprintf("without a filter this %s touches every row of %q; say all=true if that is meant", m.Op, m.Table.Name),
		}
	}
	if !m.blind(claims) {
		if pins, err = pinned(b, m); err != nil {
			return "", "", err
		}
	}
	all := filterConditions(b, m.Table, m.Filters)
	if m.IfMatch != nil {
		all = append(all, "fencegate.etag(t.*) = ANY ("+b.param(arrayLiteral(m.IfMatch))+")")
	}
	switch {
	case m.Observe == nil:
		all = append(all, covered(b, rendered(m.Table, columnOf("t")), claims))
	case len(all) == 0:
		all = []string{"true"}
	}
	if m.Table.FenceColumn != "" && !m.blind(claims) {
		all = append([]string{onlyThen(all, notStale(b, m, claims))}, all...)
	}
	return pins, strings.Join(all, "\n     AND "), nil
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
		switch {
		case column.KeyType == bytea:
			typed[i] = ident(name) + " pg_catalog.text"
		case isHstore(column):
			typed[i] = ident(name) + " pg_catalog.json"
		}
	}
	return strings.Join(typed, ", ")
}

// values is what each column gets of the record b.
func values(t record, names []string) []string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = "b." + ident(name)
		switch column, _ := t.Column(name); {
		case column.KeyType == bytea:
			list[i] = fmt.Sprintf("CASE WHEN starts_with(%[1]s, 'base64:') THEN decode(substr(%[1]s, 8), 'base64') ELSE %[1]s::pg_catalog.bytea END", list[i])
		case isHstore(column):
			list[i] = fmt.Sprintf("CASE WHEN json_typeof(%[1]s) = 'object' THEN "+
				"(SELECT coalesce(%[2]s(array_agg(e.key), array_agg(e.value)), ''::%[2]s) FROM json_each_text(%[1]s) AS e) ELSE (%[1]s #>> '{}')::%[2]s END", list[i], column.KeyType)
		}
	}
	return list
}

// isHstore finds the one type of contrib that PostgreSQL prints as a JSON object
// and does not read from one. Its constructor has its name.
func isHstore(column catalog.Column) bool {
	return column.KeyType == "hstore" || strings.HasSuffix(column.KeyType, ".hstore")
}

func arrayOf(rows []Row) string {
	size := 2
	for _, row := range rows {
		size += len(row.JSON) + 1
	}
	var b strings.Builder
	b.Grow(size)
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
