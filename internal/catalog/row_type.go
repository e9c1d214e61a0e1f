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
	attributes map[string]Column
}

// Column returns the named attribute; names match exactly.
func (r *RowType) Column(name string) (Column, bool) {
	column, ok := r.attributes[name]
	return column, ok
}

// reader reads each row type once, also one that holds itself.
type reader struct {
	Querier
	rowTypes map[uint32]*RowType
}

// readColumn is a column with its row type as the catalog names it, 0 if none.
type readColumn struct {
	Column
	Row     uint32
	RowName string
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
		if columns[i].RowType, err = db.rowType(ctx, r.Row, r.RowName); err != nil {
			return nil, err
		}
	}
	return columns, nil
}

// rowType returns the composite type of that oid, nil for 0.
func (db reader) rowType(ctx context.Context, oid uint32, name string) (*RowType, error) {
	known, ok := db.rowTypes[oid]
	if ok || oid == 0 {
		return known, nil
	}
	r := &RowType{Name: name, attributes: map[string]Column{}}
	db.rowTypes[oid] = r
	columns, err := db.columns(ctx, "c.reltype = $1", oid)
	if err != nil {
		return nil, fmt.Errorf("type %s: %w", name, err)
	}
	for _, column := range columns {
		r.attributes[column.Name] = column
	}
	return r, nil
}
