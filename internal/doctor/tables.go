package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/config"
)

// checkServable reads the tables as serve does when it starts.
func (v *visit) checkServable(ctx context.Context, tx pgx.Tx) error {
	_, err := catalog.Load(ctx, tx, v.Specs)
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) || ctx.Err() != nil {
		return err
	}
	for _, fault := range lines(err) {
		v.find("serve_refuses", "tables, statements, functions", fault, "Correct the configuration, or the table; gateway serve says the same.")
	}
	return nil
}

// examineModes names what is not enforced.
func (v *visit) examineModes() {
	found := func(name, mode string) {
		if mode == config.ModeObserve {
			v.find("observed", name, "its mode is observe", "mode: enforce, once gateway audit report shows nothing that must go on; see docs/adopting.md.")
		}
	}
	for _, t := range v.Config.Tables {
		found(t.Schema+"."+t.Name, t.Mode)
	}
	for _, s := range v.Config.Statements {
		found(s.Name, s.Mode)
	}
	for _, f := range v.Config.Functions {
		found(f.Schema+"."+f.Name, f.Mode)
	}
}

func lines(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

func (v *visit) checkKeys(ctx context.Context, tx pgx.Tx) error {
	schemas, names := v.tableNames()
	all, err := read[struct{ Name string }](ctx, tx, "the tables' keys", `
		WITH `+protected+`
		SELECT name
		  FROM protected
		 WHERE relkind IN ('r', 'p')
		   AND NOT EXISTS (SELECT FROM pg_catalog.pg_index WHERE indrelid = protected.oid AND indisprimary)
		 ORDER BY 1`, schemas, names)
	for _, t := range all {
		v.find("no_primary_key", t.Name, "it has no primary key", "ALTER TABLE "+t.Name+" ADD PRIMARY KEY (…);")
	}
	return err
}

// smallTable is how many bytes a table may have before reading all of it is slow.
const smallTable = 1 << 20

// checkTemplates looks at the columns that lock keys are made of.
func (v *visit) checkTemplates(ctx context.Context, tx pgx.Tx) error {
	schemas, names := v.tableNames()
	type table struct {
		Position int64
		Name     string
		Nullable []string
		Leading  []string // the first columns of its indexes
		Bytes    int64
	}
	all, err := read[table](ctx, tx, "the lock templates' columns", `
		WITH `+protected+`
		SELECT position, name,
		       ARRAY(SELECT attname::text FROM pg_catalog.pg_attribute
		              WHERE attrelid = p.oid AND attnum > 0 AND NOT attisdropped AND NOT attnotnull),
		       ARRAY(SELECT a.attname::text
		               FROM pg_catalog.pg_index AS i
		               JOIN pg_catalog.pg_attribute AS a ON a.attrelid = p.oid AND a.attnum = i.indkey[0]
		              WHERE i.indrelid = p.oid AND i.indisvalid AND i.indpred IS NULL),
		       (SELECT coalesce(sum(pg_relation_size(tree.relid)), 0)::bigint FROM pg_partition_tree(p.oid) AS tree)
		         + CASE WHEN relkind = 'r' THEN pg_relation_size(p.oid) ELSE 0 END
		  FROM protected AS p
		 WHERE relkind IN ('r', 'p')
		 ORDER BY 1`, schemas, names)
	for _, t := range all {
		lock := v.at(t.Position).Lock
		for _, column := range lock.Columns {
			if slices.Contains(t.Nullable, column) {
				v.find("template_nullable", t.Name, fmt.Sprintf("column %q of its lock template %q may be NULL", column, lock), notNull(t.Name, column))
			}
		}
		indexed := slices.ContainsFunc(lock.Columns, func(c string) bool { return slices.Contains(t.Leading, c) })
		if len(lock.Columns) > 0 && !indexed && t.Bytes > smallTable {
			v.find("template_unindexed", t.Name, fmt.Sprintf("no index begins with a column of its lock template %q", lock),
				"CREATE INDEX CONCURRENTLY ON "+t.Name+" ("+quotedList(lock.Columns)+");")
		}
	}
	return err
}

func notNull(table, column string) string {
	return "ALTER TABLE " + table + " ALTER COLUMN " + quoted(column) + " SET NOT NULL;"
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

func quotedList(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = quoted(name)
	}
	return strings.Join(all, ", ")
}

// checkUncovered looks for rows that no lock key opens. It reads until the first
// one; a large table without any may take longer than the time there is.
func (v *visit) checkUncovered(ctx context.Context, tx pgx.Tx) error {
	schemas, names := v.tableNames()
	type column struct {
		Position  int64
		Name, Sql string
	}
	all, err := read[column](ctx, tx, "the columns that may be NULL", `
		WITH `+protected+`
		SELECT position, a.attname::text, format('SELECT EXISTS (SELECT FROM %s WHERE %I IS NULL)', name, a.attname)
		  FROM protected AS p
		  JOIN pg_catalog.pg_attribute AS a ON a.attrelid = p.oid AND a.attnum > 0 AND NOT a.attisdropped AND NOT a.attnotnull
		 WHERE relkind IN ('r', 'p')
		 ORDER BY 1, 2`, schemas, names)
	for _, c := range all {
		spec := v.at(c.Position)
		if !slices.Contains(spec.Lock.Columns, c.Name) {
			continue
		}
		var there bool
		if err := tx.QueryRow(ctx, c.Sql).Scan(&there); err != nil {
			return fmt.Errorf("looking for rows of %s.%s: %w", spec.Schema, spec.Name, err)
		}
		if there {
			v.find("rows_without_key", spec.Schema+"."+spec.Name, fmt.Sprintf("rows have NULL in %q, a column of its lock template", c.Name),
				"Give them a value, then "+notNull(pgx.Identifier{spec.Schema, spec.Name}.Sanitize(), c.Name))
		}
	}
	return err
}

func (v *visit) checkTriggers(ctx context.Context, tx pgx.Tx) error {
	schemas, names := v.tableNames()
	type triggered struct{ Name, Triggers string }
	all, err := read[triggered](ctx, tx, "the triggers", `
		WITH `+protected+`
		SELECT name, string_agg(quote_ident(t.tgname) || ' (' || t.tgfoid::regproc::text || ')', ', ' ORDER BY t.tgname)
		  FROM protected AS p
		  JOIN pg_catalog.pg_trigger AS t ON t.tgrelid = p.oid
		 WHERE NOT t.tgisinternal
		   AND t.tgenabled <> 'D'
		   AND t.tgname NOT IN ($3, $4)
		 GROUP BY name
		 ORDER BY 1`, schemas, names, catalog.GuardTrigger, catalog.GuardTruncateTrigger)
	for _, t := range all {
		v.find("triggers", t.Name, "it has triggers: "+t.Triggers, "See that they write no row of a configured table that another lock key guards.")
	}
	return err
}

func (v *visit) checkRowSecurity(ctx context.Context, tx pgx.Tx) error {
	schemas, names := v.tableNames()
	all, err := read[struct{ Name string }](ctx, tx, "row-level security", `
		WITH `+protected+`
		SELECT name
		  FROM protected AS p
		 WHERE row_security_active(p.oid)
		 ORDER BY 1`, schemas, names)
	for _, t := range all {
		v.find("row_security", t.Name, "row-level security is on for the gateway's role", "See that its policies show the gateway every row that workers write.")
	}
	return err
}

func (v *visit) checkFenceColumns(ctx context.Context, tx pgx.Tx) error {
	schemas, names := v.tableNames()
	type table struct {
		Position int64
		Name     string
		Leading  []string
		Bytes    int64
	}
	all, err := read[table](ctx, tx, "the fence columns", `
		WITH `+protected+`
		SELECT position, name,
		       ARRAY(SELECT a.attname::text
		               FROM pg_catalog.pg_index AS i
		               JOIN pg_catalog.pg_attribute AS a ON a.attrelid = p.oid AND a.attnum = i.indkey[0]
		              WHERE i.indrelid = p.oid AND i.indisvalid),
		       pg_relation_size(p.oid)
		  FROM protected AS p
		 WHERE relkind = 'r'
		 ORDER BY 1`, schemas, names)
	for _, t := range all {
		spec := v.at(t.Position)
		if spec.FenceColumn == "" || !spec.Lock.WholeTable() || slices.Contains(t.Leading, spec.FenceColumn) || t.Bytes <= smallTable {
			continue
		}
		v.find("fence_column_unindexed", t.Name, fmt.Sprintf("no index begins with its fence column %q, and one lock key covers the whole table", spec.FenceColumn),
			"CREATE INDEX CONCURRENTLY ON "+t.Name+" ("+quoted(spec.FenceColumn)+");")
	}
	return err
}
