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
	if !q.Columns.All {
		columns = identList("t.", q.Columns.Names)
	}
	conditions := where(&b, q.Table, q.Filters)
	total := "NULL::pg_catalog.int8"
	if q.Total {
		total = fmt.Sprintf("(SELECT count(*) FROM %s AS t%s)", tableName(q.Table), conditions)
	}
	fmt.Fprintf(&b, "SELECT count(*), %s, %s\n  FROM (\n  SELECT %s\n    FROM %s AS t%s%s\n   LIMIT %s OFFSET %s) AS w",
		jsonOf(&b, Columns{All: true}, q.MaxBytes), total, columns, tableName(q.Table), conditions, q.orderBy(), b.param(q.Limit), b.param(q.Offset))
	return b.statement(), nil
}

func (q Query) check() error {
	if err := q.Columns.Check(q.Table); err != nil {
		return err
	}
	for _, term := range q.Order {
		if err := known(q.Table, term.Column, "order"); err != nil {
			return err
		}
	}
	return checkFilters(q.Table, q.Filters, "")
}

func (q Query) orderBy() string {
	if len(q.Order) == 0 {
		return ""
	}
	terms := make([]string, len(q.Order))
	for i, term := range q.Order {
		terms[i] = "t." + ident(term.Column)
		if term.Desc {
			terms[i] += " DESC"
		}
		if term.Nulls != "" {
			terms[i] += " NULLS " + strings.ToUpper(term.Nulls)
		}
	}
	return "\n   ORDER BY " + strings.Join(terms, ", ")
}
