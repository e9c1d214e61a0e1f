package statement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/lease"
)

// Rows that a trigger puts elsewhere, returning NULL, and rows that an upsert
// leaves as they are, don't come back, and so can't be checked as they became.
// Where rows are missing they are checked as they were proposed. PostgreSQL does
// not say which ones are missing: all of them are.

// proposal is the rows of one INSERT.
type proposal struct {
	rows  string // placeholder of their JSON
	count int
	names []string // of their members
}

// hiddenInsert adds 1 if not all rows came back and one of them is out of scope. A
// row that leaves a column of the template to its default or to a trigger can't be
// known to be covered, and is not.
func hiddenInsert(b *builder, m Mutation, claims []lease.Claim, p proposal) string {
	if m.blind(claims) {
		return ""
	}
	given := lockColumns(m.Table, p.names)
	outside := ""
	if len(given) == len(m.Table.Lock.Columns) {
		outside = fmt.Sprintf(" AND EXISTS (\n         SELECT\n           FROM json_to_recordset(%s::pg_catalog.json) AS b(%s)\n          WHERE (%s) IS NOT TRUE)",
			p.rows, typedList(m.Table, given), covered(b, rendered(m.Table, columnOf("b")), claims))
	}
	return fmt.Sprintf("\n       + CASE WHEN a.affected < %s::pg_catalog.int8%s THEN 1 ELSE 0 END", b.param(int64(p.count)), outside)
}

// hiddenUpdate adds 1 if no row came back and the key that the update writes is out
// of scope; "" if it writes no column of the template. How many rows it met is not
// known, but all that it met and did not hide have the key that it writes.
func hiddenUpdate(b *builder, m Mutation, pins string, claims []lease.Claim) string {
	if m.blind(claims) || pins == unpinned {
		return ""
	}
	set := lockPart(m.Table, m.Rows[0])
	var added Row
	if m.Increment != nil {
		added = lockPart(m.Table, *m.Increment)
	}
	var from []string
	if len(set.Names) > 0 {
		from = append(from, typedRecord(b, m.Table, set, "b"))
	}
	if len(added.Names) > 0 {
		from = append(from, typedRecord(b, m.Table, added, "i"))
	}
	if len(from) == 0 {
		return ""
	}
	key := rendered(m.Table, func(column catalog.Column) string {
		switch {
		case slices.Contains(set.Names, column.Name):
			return "b." + ident(column.Name)
		case slices.Contains(added.Names, column.Name):
			return fmt.Sprintf("(%s + i.%s)", pinValue(b, m, column), ident(column.Name))
		}
		return pinValue(b, m, column)
	})
	return fmt.Sprintf("\n       + CASE WHEN a.affected = 0 AND (\n         SELECT %s\n           FROM %s) IS NOT TRUE THEN 1 ELSE 0 END",
		covered(b, key, claims), strings.Join(from, ", "))
}

// lockPart is row with no more than the columns of t's lock template.
func lockPart(t *catalog.Table, row Row) Row {
	return Row{Names: lockColumns(t, row.Names), JSON: row.JSON}
}

// lockColumns are those of names that the lock template of t renders.
func lockColumns(t *catalog.Table, names []string) (columns []string) {
	for _, name := range t.Lock.Columns {
		if slices.Contains(names, name) {
			columns = append(columns, name)
		}
	}
	return columns
}
