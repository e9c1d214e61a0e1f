package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// checkFenceColumn refuses a column that can't keep tokens: the gateway must be
// able to set it to any, in the row itself.
func (t *Table) checkFenceColumn(ctx context.Context, db Querier) error {
	if t.FenceColumn == "" {
		return nil
	}
	column, ok := t.Column(t.FenceColumn)
	switch {
	case !ok:
		return fmt.Errorf("fence_column: there is no column %q", t.FenceColumn)
	case column.KeyType != "bigint":
		return fmt.Errorf("fence_column: column %q is %s; only bigint holds every token", t.FenceColumn, column.Type)
	case slices.Contains(t.Lock.Columns, t.FenceColumn):
		return fmt.Errorf("fence_column: column %q is part of the lock template", t.FenceColumn)
	case column.Generated:
		return fmt.Errorf("fence_column: column %q is generated", t.FenceColumn)
	}
	const query = `
		SELECT c.relkind = 'v', a.attidentity <> ''
		  FROM pg_catalog.pg_class AS c
		  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
		  JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid
		 WHERE n.nspname = $1
		   AND c.relname = $2
		   AND a.attname = $3`
	rows, _ := db.Query(ctx, query, t.Schema, t.Name, t.FenceColumn)
	is, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[struct{ View, Identity bool }])
	switch {
	case err != nil:
		return fmt.Errorf("reading its fence column: %w", err)
	case is.View:
		return errors.New("fence_column: a view keeps no tokens; name the table's own column under the table")
	case is.Identity:
		return fmt.Errorf("fence_column: column %q is an identity", t.FenceColumn)
	}
	return nil
}
