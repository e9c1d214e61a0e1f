package statement

import (
	"fmt"
	"strings"
)

// BuildQuery returns the statement of q.
func BuildQuery(q Query) (Statement, error) {
	if err := q.check(); err != nil {
		return Statement{}, err
	}
	var b builder
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
	fmt.Fprintf(&b, "SELECT count(*), %s, %s, %s\n  FROM (\n  SELECT %s\n    FROM %s AS t%s%s\n   LIMIT %s OFFSET %s) AS w",
		jsonOf(&b, answered, q.MaxBytes), total, etagOf(q.ETag), columns, tableName(q.Table), conditions, q.orderBy(&b), b.param(q.Limit), b.param(q.Offset))
	return b.statement(), nil
}

func (q Query) check() error {
	if err := q.Columns.Check(q.Table); err != nil {
		return err
	}
	for _, term := range q.Order {
		if err := term.Path.check(q.Table, term.Column, "order"); err != nil {
			return err
		}
	}
	return checkFilters(q.Table, q.Filters, "")
}

func (q Query) orderBy(b *builder) string {
	if len(q.Order) == 0 {
		return ""
	}
	terms := make([]string, len(q.Order))
	for i, term := range q.Order {
		column, _ := q.Table.Column(term.Column) // check has seen it
		terms[i] = operand(b, column, term.Path)
		if term.Desc {
			terms[i] += " DESC"
		}
		if term.Nulls != "" {
			terms[i] += " NULLS " + strings.ToUpper(term.Nulls)
		}
	}
	return "\n   ORDER BY " + strings.Join(terms, ", ")
}
