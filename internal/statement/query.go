package statement

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/fencegate/fencegate/internal/catalog"
)

// BuildQuery returns the statement of q.
func BuildQuery(q Query) (Statement, error) {
	s, err := buildQuery(q)
	if err != nil {
		return Statement{}, err
	}
	return s, counted(s)
}

func buildQuery(q Query) (Statement, error) {
	if q.Routine != nil {
		return buildReadingCall(q)
	}
	if err := q.check(); err != nil {
		return Statement{}, err
	}
	var b builder
	q.Columns, q.ETag = q.Columns.of(q.Table), q.ETag && !q.Table.Hides()
	columns := "t.*"
	answered := q.Columns
	if names, all := q.Columns.needed(); !all && !q.ETag {
		columns = identList("t.", names)
	}
	if len(answered.Outputs) == 0 && !q.ETag {
		answered = Columns{All: true} // of w, which has no more
	}
	conditions := where(&b, q.Table, q.Filters)
	total := "NULL::pg_catalog.int8"
	if q.Total {
		total = fmt.Sprintf("(SELECT count(*) FROM %s AS t%s)", tableName(q.Table), conditions)
	}
	order := orderBy(&b, q.Table, q.Order, "t")
	if order != "" {
		order = "\n   " + order
	}
	fmt.Fprintf(&b, "SELECT count(*), %s, %s, %s\n  FROM (\n  SELECT %s\n    FROM %s AS t%s%s\n   LIMIT %s OFFSET %s) AS w",
		jsonOf(&b, answered, "", q.MaxBytes), total, etagOf(q.ETag), columns, tableName(q.Table), conditions, order, b.param(q.Limit), b.param(q.Offset))
	return b.statement(), nil
}

func (q Query) check() error {
	if err := q.Columns.Check(q.Table); err != nil {
		return err
	}
	if err := checkOrder(q.Table, q.Order); err != nil {
		return err
	}
	return checkFilters(q.Table, q.Filters, "")
}

func checkOrder(table *catalog.Table, order []OrderTerm) error {
	for _, term := range order {
		if err := cmp.Or(mayReturn(table, term.Column, "order"), term.Path.check(table, term.Column, "order")); err != nil {
			return err
		}
	}
	return nil
}

// orderBy is the clause that sorts the rows of alias, "" if nothing is to.
func orderBy(b *builder, table *catalog.Table, order []OrderTerm, alias string) string {
	if len(order) == 0 {
		return ""
	}
	terms := make([]string, len(order))
	for i, term := range order {
		column, _ := table.Column(term.Column) // checkOrder has seen it
		terms[i] = operand(b, alias, column, term.Path)
		if term.Desc {
			terms[i] += " DESC"
		}
		if term.Nulls != "" {
			terms[i] += " NULLS " + strings.ToUpper(term.Nulls)
		}
	}
	return "ORDER BY " + strings.Join(terms, ", ")
}
