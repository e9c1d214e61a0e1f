package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/lease"
)

// Querier is what Load asks: a connection, a pool or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Load reads the configured tables and routines from the database. It reports
// every one that can't be served as configured, not only the first.
func Load(ctx context.Context, querier Querier, specs Specs) (*Snapshot, error) {
	db := reader{Querier: querier, rowTypes: map[uint32]*RowType{}}
	snapshot := &Snapshot{schemas: specs.Schemas, observed: specs.observed(),
		tables: make(map[[2]string]*Table, len(specs.Tables)), byName: make(map[[2]string]*Routine, len(specs.Routines))}
	if len(specs.Schemas) > 0 {
		snapshot.first = specs.Schemas[0]
	}
	var faults []error
	for _, spec := range specs.Tables {
		table, err := loadTable(ctx, db, spec)
		if err != nil {
			faults = append(faults, spec.blame(err))
			continue
		}
		snapshot.tables[[2]string{spec.Schema, spec.Name}] = table
		if spec.FenceColumn != "" {
			snapshot.fenced = append(snapshot.fenced, table)
		}
	}
	if len(faults) == 0 {
		faults = append(faults, checkOverlaps(ctx, db, specs.Tables))
	}
	for _, spec := range specs.Routines {
		routine, err := loadRoutine(ctx, db, spec)
		if err != nil {
			faults = append(faults, spec.Blame(err))
			continue
		}
		snapshot.routines = append(snapshot.routines, routine)
		snapshot.byName[[2]string{spec.Schema, spec.Name}] = routine
	}
	return snapshot, errors.Join(faults...)
}

func (s Specs) observed() (names []string) {
	for _, t := range s.Tables {
		if t.Observe {
			names = append(names, t.Schema+"."+t.Name)
		}
	}
	for _, r := range s.Routines {
		if r.Observe {
			names = append(names, r.QualifiedName())
		}
	}
	return names
}

// unreachable are schemas that no configuration can open.
var unreachable = []string{"fencegate", "pg_catalog", "information_schema", "pg_toast"}

var errUnreachable = errors.New("the gateway's own schema and PostgreSQL's can't be reached through the gateway")

func loadTable(ctx context.Context, db reader, spec Spec) (*Table, error) {
	if slices.Contains(unreachable, spec.Schema) {
		return nil, errUnreachable
	}
	columns, err := db.columns(ctx, "n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p', 'v', 'f')", spec.Schema, spec.Name)
	if err != nil {
		return nil, err
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
	if err := checkTemplate(table.Lock, "column", table.Column); err != nil {
		return nil, err
	}
	for _, name := range table.Redact {
		if _, ok := table.Column(name); !ok {
			return nil, fmt.Errorf("redact: there is no column %q", name)
		}
	}
	return table, table.checkFenceColumn(ctx, db)
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

// checkTemplate checks that a lock key can be rendered from what its template
// names, the columns of a table or the parameters of a routine.
func checkTemplate(lock lease.Template, what string, find func(name string) (Column, bool)) error {
	for _, name := range lock.Columns {
		column, ok := find(name)
		if !ok {
			return fmt.Errorf("lock template %q: there is no %s %q", lock, what, name)
		}
		if column.Kind == "" {
			return fmt.Errorf("lock template %q: %s %q is %s; only integer, text, uuid, boolean, date and enum %ss can be part of a lock key",
				lock, what, name, column.Type, what)
		}
	}
	return nil
}

// Allows reports whether the table is configured for op.
func (t *Table) Allows(op Operation) bool { return slices.Contains(t.Operations, op) }
