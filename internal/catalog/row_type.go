package catalog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// RowType is a composite type: a row of values that have names and types of
// their own.
type RowType struct {
	Name       string // as PostgreSQL spells it
	Relation   string // what PostgreSQL keeps its attributes under, with its schema
	Attributes []Column
}

// Column returns the named attribute; names match exactly.
func (r *RowType) Column(name string) (Column, bool) {
	for _, column := range r.Attributes {
		if column.Name == name {
			return column, true
		}
	}
	return Column{}, false
}

// reader reads each row type once, also one that holds itself.
type reader struct {
	Querier
	rowTypes map[uint32]*RowType
}

// readColumn is a column with its row type as the catalog names it.
type readColumn struct {
	Column
	readRow
}

// readRow is a composite type and how many arrays lie around it; all zero if
// there is none.
type readRow struct {
	OID            uint32
	Name, Relation string
	Arrays         int
}

// columns reads the columns of the relation, or attributes of the composite
// type, that the condition finds.
func (db reader) columns(ctx context.Context, condition string, args ...any) ([]Column, error) {
	query := `
		SELECT a.attname,
		       format_type(typ.oid, CASE WHEN typ.oid = 'interval'::regtype THEN a.atttypmod ELSE -1 END),
		       ` + keyColumns + `,
		       a.attgenerated <> '',
		       b.typtype = 'c',
		       ` + rowColumns + `
		  FROM pg_catalog.pg_class AS c
		  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
		  JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		  JOIN pg_catalog.pg_type AS typ ON typ.oid = a.atttypid
		` + typeBase + `
		` + typeRow + `
		 WHERE ` + condition + `
		 ORDER BY a.attnum`
	rows, _ := db.Query(ctx, query, args...)
	read, err := pgx.CollectRows(rows, pgx.RowToStructByPos[readColumn])
	if err != nil {
		return nil, fmt.Errorf("reading its columns: %w", err)
	}
	columns := make([]Column, len(read))
	for i, r := range read {
		columns[i] = r.Column
		if columns[i].RowType, err = db.rowType(ctx, r.readRow); err != nil {
			return nil, err
		}
		columns[i].Arrays = r.readRow.Arrays
	}
	return columns, nil
}

// rowType returns that composite type, nil for none.
func (db reader) rowType(ctx context.Context, row readRow) (*RowType, error) {
	known, ok := db.rowTypes[row.OID]
	if ok || row.OID == 0 {
		return known, nil
	}
	r := &RowType{Name: row.Name, Relation: row.Relation}
	db.rowTypes[row.OID] = r
	var err error
	if r.Attributes, err = db.columns(ctx, "c.reltype = $1", row.OID); err != nil {
		return nil, fmt.Errorf("type %s: %w", row.Name, err)
	}
	return r, nil
}
