package statement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/internal/lease"
)

// buildInserts makes one statement of each run of rows that name the same
// columns: an absent member takes the column's default, which only a column
// list without it expresses.
func buildInserts(m Mutation, claims []lease.Claim) ([]Statement, error) {
	if m.Columns != nil {
		s, err := buildInsert(m, m.Rows, m.Columns, claims)
		return []Statement{s}, err
	}
	var statements []Statement
	for rows := m.Rows; len(rows) > 0; {
		run := sameColumns(rows)
		if run < len(m.Rows) && bounded(m) {
			return nil, &Fault{Code: MixedRows, Detail: "with a bound on the rows affected, or an order of them, all rows must have the same members"}
		}
		if len(statements) == MaxStatements {
			return nil, ErrTooMany()
		}
		s, err := buildInsert(m, rows[:run], sorted(rows[0].Names), claims)
		if err != nil {
			return nil, err
		}
		statements = append(statements, s)
		rows = rows[run:]
	}
	return statements, nil
}

// bounded reports whether what is said of all rows together needs one statement.
func bounded(m Mutation) bool {
	return m.sorted() || m.MinAffected > 0 || m.MaxAffected >= 0 && int64(len(m.Rows)) > m.MaxAffected
}

// sameColumns counts the leading rows that one INSERT can take. DEFAULT VALUES
// makes one row only.
func sameColumns(rows []Row) int {
	first := sorted(rows[0].Names)
	if len(first) == 0 {
		return 1
	}
	for i, row := range rows[1:] {
		if !slices.Equal(first, sorted(row.Names)) {
			return i + 1
		}
	}
	return len(rows)
}

func sorted(names []string) []string {
	return slices.Sorted(slices.Values(names))
}

func buildInsert(m Mutation, rows []Row, names []string, claims []lease.Claim) (Statement, error) {
	var b builder
	into, from := names, values(m.Table, names)
	if m.Table.FenceColumn != "" && !m.blind(claims) {
		token, err := stampInsert(&b, m, names, claims)
		if err != nil {
			return Statement{}, err
		}
		into, from = append(slices.Clone(names), m.Table.FenceColumn), append(from, token)
	}
	proposed := ""
	fmt.Fprintf(&b, "WITH w AS (\n  INSERT INTO %s AS t ", tableName(m.Table))
	switch {
	case len(into) == 0:
		b.WriteString("DEFAULT VALUES")
	case len(names) == 0:
		fmt.Fprintf(&b, "(%s)\n  SELECT %s", identList("", into), strings.Join(from, ", "))
	default:
		proposed = b.param(arrayOf(rows))
		fmt.Fprintf(&b, "(%s)\n  SELECT %s FROM json_to_recordset(%s::pg_catalog.json) AS b(%s)",
			identList("", into), strings.Join(from, ", "), proposed, typedList(m.Table, names))
	}
	if err := onConflict(&b, m, into, claims); err != nil {
		return Statement{}, err
	}
	fmt.Fprintf(&b, "\n  RETURNING %s)", returning(m))
	s := scope{written: names}
	if m.Table.Lock.WholeTable() {
		s.pins = rendered(m.Table, nil)
	} else {
		s.hidden = hiddenInsert(&b, m, claims, proposal{rows: proposed, count: len(rows), names: names})
	}
	answer(&b, m, claims, s)
	return b.statement(), nil
}

// onConflict writes what happens to a row that is there already. Its old self
// must be covered by the keys as well as its new one, which answer checks.
func onConflict(b *builder, m Mutation, names []string, claims []lease.Claim) error {
	if m.Upsert == nil {
		return nil
	}
	target := m.Upsert.Target
	if target == nil {
		target = m.Table.PrimaryKey
	}
	switch {
	case len(target) == 0:
		return &Fault{Code: NoConflictKey, Parameter: "on_conflict",
			Detail: fmt.Sprintf("table %q has no primary key: name the columns of a unique key in on_conflict", m.Table.Name)}
	case m.Upsert.Merge && len(names) == 0:
		return &Fault{Code: EmptyBody, Detail: "a row has no members: nothing to merge"}
	}
	fmt.Fprintf(b, "\n  ON CONFLICT (%s) DO ", identList("", target))
	if !m.Upsert.Merge {
		b.WriteString("NOTHING")
		return nil
	}
	assignments := make([]string, len(names))
	for i, name := range names {
		assignments[i] = ident(name) + " = EXCLUDED." + ident(name)
		if m.Observe != nil && name == m.Table.FenceColumn {
			assignments[i] = fmt.Sprintf("%[1]s = greatest(t.%[1]s, EXCLUDED.%[1]s)", ident(name))
		}
	}
	fmt.Fprintf(b, "UPDATE SET %s", strings.Join(assignments, ", "))
	if m.blind(claims) {
		return nil
	}
	check := covered(b, rendered(m.Table, columnOf("t")), claims)
	if m.Observe != nil {
		check = m.noted(b, check)
	} else {
		check = "fencegate.check_covered(" + check + ")"
	}
	b.WriteString("\n   WHERE " + check)
	if m.Table.FenceColumn != "" {
		b.WriteString("\n     AND " + notStale(b, m, claims))
	}
	return nil
}

func checkInsertColumns(m Mutation) error {
	for _, name := range m.Columns {
		if err := m.sets(name, "columns"); err != nil {
			return err
		}
	}
	if err := checkStamp(m.Table, m.Columns); err != nil {
		return err
	}
	if m.Upsert != nil {
		for _, name := range m.Upsert.Target {
			if err := maySearch(m.Table, name, "on_conflict"); err != nil {
				return err
			}
		}
	}
	return checkListed(m)
}

// checkListed returns a *Fault for a member that the listed columns leave out.
func checkListed(m Mutation) error {
	if m.Columns == nil {
		return nil
	}
	listed := make(map[string]bool, len(m.Columns))
	for _, name := range m.Columns {
		listed[name] = true
	}
	for _, row := range m.Rows {
		for _, name := range row.Names {
			if !listed[name] {
				return &Fault{Code: NotInColumns, Column: name, Parameter: "columns",
					Detail: fmt.Sprintf("a row has the member %q, which columns does not list", name)}
			}
		}
	}
	return nil
}
