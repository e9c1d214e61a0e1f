package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Querier is what Load asks: a connection, a pool or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Load reads the configured tables from the database. It reports every table
// that can't be protected as configured, not only the first.
func Load(ctx context.Context, db Querier, schemas []string, specs []Spec) (*Snapshot, error) {
	snapshot := &Snapshot{schemas: schemas, tables: make(map[[2]string]*Table, len(specs))}
	var faults []error
	for _, spec := range specs {
		table, err := loadTable(ctx, db, spec)
		if err != nil {
			faults = append(faults, fmt.Errorf("table %q.%q: %w", spec.Schema, spec.Name, err))
			continue
		}
		snapshot.tables[[2]string{spec.Schema, spec.Name}] = table
	}
	if len(faults) == 0 {
		faults = append(faults, checkOverlaps(ctx, db, specs))
	}
	return snapshot, errors.Join(faults...)
}

// unreachable are schemas that no configuration can open.
var unreachable = []string{"fencegate", "pg_catalog", "information_schema", "pg_toast"}

func loadTable(ctx context.Context, db Querier, spec Spec) (*Table, error) {
	if slices.Contains(unreachable, spec.Schema) {
		return nil, errors.New("the gateway's own schema and PostgreSQL's can't be reached through the gateway")
	}
	// format_type with typmod -1 spells a type so that no length is implied,
	// even for bpchar and bit. An interval keeps its fields: they say what unit a
	// bare number has. Domains are rendered by what they are made of.
	const query = `
		SELECT a.attname,
		       format_type(a.atttypid, CASE WHEN a.atttypid = 'interval'::regtype THEN a.atttypmod ELSE -1 END),
		       CASE
		         WHEN b.typtype = 'e' THEN 'plain'
		         WHEN b.oid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'text'::regtype,
		                        'varchar'::regtype, 'bpchar'::regtype, 'uuid'::regtype, 'bool'::regtype) THEN 'plain'
		         WHEN b.oid = 'date'::regtype THEN 'date'
		         ELSE ''
		       END,
		       format_type(b.oid, -1),
		       a.attgenerated <> '',
		       b.typtype = 'c'
		  FROM pg_catalog.pg_class AS c
		  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
		  JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		 CROSS JOIN LATERAL (
		         WITH RECURSIVE made AS (
		           SELECT t.oid, t.typtype, t.typbasetype FROM pg_catalog.pg_type AS t WHERE t.oid = a.atttypid
		           UNION ALL
		           SELECT t.oid, t.typtype, t.typbasetype FROM made
		             JOIN pg_catalog.pg_type AS t ON made.typtype = 'd' AND t.oid = made.typbasetype)
		         SELECT oid, typtype FROM made WHERE typtype <> 'd') AS b
		 WHERE n.nspname = $1
		   AND c.relname = $2
		   AND c.relkind IN ('r', 'p', 'v', 'f')
		 ORDER BY a.attnum`
	rows, _ := db.Query(ctx, query, spec.Schema, spec.Name)
	columns, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Column])
	if err != nil {
		return nil, fmt.Errorf("reading its columns: %w", err)
	}
	if len(columns) == 0 {
		return nil, errors.New("there is no such table, or this role can't see it")
	}
	primaryKey, err := loadPrimaryKey(ctx, db, spec)
	if err != nil {
		return nil, err
	}
	table := &Table{Spec: spec, Columns: columns, PrimaryKey: primaryKey, byName: make(map[string]int, len(columns))}
	for i, column := range columns {
		table.byName[column.Name] = i
	}
	return table, table.checkTemplate()
}

func loadPrimaryKey(ctx context.Context, db Querier, spec Spec) ([]string, error) {
	const query = `
		SELECT a.attname
		  FROM pg_catalog.pg_class AS c
		  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
		  JOIN pg_catalog.pg_index AS i ON i.indrelid = c.oid AND i.indisprimary
		 CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(attnum, position)
		  JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = k.attnum
		 WHERE n.nspname = $1
		   AND c.relname = $2
		 ORDER BY k.position`
	rows, _ := db.Query(ctx, query, spec.Schema, spec.Name)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("reading its primary key: %w", err)
	}
	return names, nil
}

func (t *Table) checkTemplate() error {
	for _, name := range t.Lock.Columns {
		column, ok := t.Column(name)
		if !ok {
			return fmt.Errorf("lock template %q: there is no column %q", t.Lock, name)
		}
		if column.Kind == "" {
			return fmt.Errorf("lock template %q: column %q is %s; only integer, text, uuid, boolean, date and enum columns can be part of a lock key",
				t.Lock, name, column.Type)
		}
	}
	return nil
}

// Allows reports whether the table is configured for op.
func (t *Table) Allows(op Operation) bool { return slices.Contains(t.Operations, op) }
