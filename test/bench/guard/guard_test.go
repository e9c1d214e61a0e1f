// Package guard_test measures what a guard costs, and what it costs those who have
// none. `make bench-guard` runs it: read the ratios, each to the first one of its
// benchmark, taken side by side.
package guard_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/statement"
	"github.com/fencegate/fencegate/internal/testenv"
)

const (
	rows   = 10_000
	writes = 100 // in a row, of one variant, in BenchmarkWrites
)

const tables = `
CREATE SCHEMA shop;
CREATE TABLE shop.stock (sku text PRIMARY KEY, shelf text NOT NULL DEFAULT 'x', n int NOT NULL DEFAULT 0) WITH (fillfactor = 50);
INSERT INTO shop.stock SELECT 'sku' || n FROM generate_series(1, 10000) AS n;
CREATE TABLE shop.other (sku text PRIMARY KEY);
VACUUM ANALYZE shop.stock;
`

// statementGuard is the alternative that was not taken: one look for each statement,
// at rows that PostgreSQL kept for it.
const statementGuard = `
CREATE FUNCTION shop.look() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM (SELECT 'shelf:' || shelf AS key FROM old_rows UNION ALL SELECT 'shelf:' || shelf FROM new_rows) AS r
                WHERE NOT EXISTS (SELECT FROM fencegate.admissions AS a
                                   WHERE a.pid = pg_backend_pid() AND a.xid = pg_current_xact_id() AND a.started = pg_postmaster_start_time()
                                     AND r.key COLLATE "C" = ANY (a.keys))) THEN
        RAISE 'unfenced';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER look AFTER UPDATE ON shop.stock REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION shop.look();
`

// variant is one database with something or nothing of a guard in it.
type variant struct {
	name  string
	conn  *pgx.Conn
	times []float64 // µs
}

func newVariant(b *testing.B, name, guarded, more string) *variant {
	b.Helper()
	db := testenv.Postgres(b)
	for _, sql := range strings.SplitAfter(tables, ";\n") {
		db.Exec(b, sql)
	}
	db.Exec(b, `SELECT fencegate.raise_mark('shelf:x', 'h', 0, 0, 'bench', 'bench')`)
	db.Exec(b, more)
	if guarded != "" {
		guard(b, db, guarded)
	}
	conn, err := pgx.Connect(b.Context(), db.URL)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close(b.Context()) })
	return &variant{name: name, conn: conn}
}

func guard(b *testing.B, db *testenv.Database, name string) {
	b.Helper()
	spec := catalog.Spec{Schema: "shop", Name: name, Lock: lease.Template{Literals: []string{"shelf:", ""}, Columns: []string{"shelf"}}}
	if name == "other" {
		spec.Lock.Columns = []string{"sku"}
	}
	pool := db.Pool(b)
	snapshot, err := catalog.Load(b.Context(), pool, catalog.Specs{Schemas: []string{"shop"}, Tables: []catalog.Spec{spec}})
	if err != nil {
		b.Fatal(err)
	}
	g := statement.Guard{}
	if g.Table, err = snapshot.Table("shop", name); err != nil {
		b.Fatal(err)
	}
	if g.Site, err = catalog.LoadGuardSite(b.Context(), pool, g.Table); err != nil {
		b.Fatal(err)
	}
	db.Exec(b, g.Install())
}

// before is the fence as it was before there were guards.
func before(b *testing.B) *variant {
	b.Helper()
	v := newVariant(b, "before", "", "")
	const asks = "    IF EXISTS (SELECT FROM fencegate.guards) THEN\n        PERFORM fencegate.prove(p_keys, p_holders, p_tokens);\n    END IF;\n"
	var source string
	if err := v.conn.QueryRow(b.Context(), `SELECT pg_get_functiondef('fencegate.admit(text[],text[],bigint[],boolean)'::regprocedure)`).Scan(&source); err != nil {
		b.Fatal(err)
	}
	if !strings.Contains(source, asks) {
		b.Fatalf("the fence does not ask for guards as expected:\n%s", source)
	}
	if _, err := v.conn.Exec(b.Context(), strings.Replace(source, asks, "", 1)); err != nil {
		b.Fatal(err)
	}
	return v
}

// write is a transaction as the gateway sends it, in one round trip.
func (v *variant) write(b *testing.B, sql string) {
	b.Helper()
	var batch pgx.Batch
	batch.Queue(`SELECT fencegate.admit($1, $2, $3, false)`, []string{"shelf:x"}, []string{"h"}, []int64{1})
	batch.Queue(sql)
	if err := v.conn.SendBatch(b.Context(), &batch).Close(); err != nil {
		b.Fatal(err)
	}
}

// compare runs act on each variant in turn, b.N times, in an order that changes.
func compare(b *testing.B, variants []*variant, act func(*variant)) {
	for _, v := range variants {
		act(v)
		v.times = nil
	}
	b.ResetTimer()
	for n := range b.N {
		for i := range variants {
			v := variants[(i+n)%len(variants)]
			begun := time.Now()
			act(v)
			v.times = append(v.times, float64(time.Since(begun).Nanoseconds())/1000)
		}
	}
	b.StopTimer()
	for _, v := range variants {
		ratios := make([]float64, len(v.times))
		for i, took := range v.times {
			ratios[i] = took / variants[0].times[i]
		}
		b.ReportMetric(median(ratios), "x-"+v.name)
		b.ReportMetric(median(v.times), "µs-"+v.name)
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// BenchmarkWrites is transactions of one row, a hundred in a row.
func BenchmarkWrites(b *testing.B) {
	all := []*variant{before(b), newVariant(b, "noguard", "", ""), newVariant(b, "another", "other", ""), newVariant(b, "guarded", "stock", "")}
	compare(b, all, func(v *variant) {
		for range writes {
			v.write(b, `UPDATE shop.stock SET n = n + 1 WHERE sku = 'sku7'`)
		}
	})
}

// BenchmarkBulk is one statement that updates 10000 rows.
func BenchmarkBulk(b *testing.B) {
	all := []*variant{newVariant(b, "noguard", "", ""), newVariant(b, "guarded", "stock", ""), newVariant(b, "bystatement", "other", statementGuard)}
	compare(b, all, func(v *variant) { v.write(b, `UPDATE shop.stock SET n = n + 1`) })
	b.ReportMetric(rows, "rows")
}
