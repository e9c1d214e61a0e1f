package statement_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/statement"
)

// tester is a *testing.T or a property's *rapid.T.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Context() context.Context
}

type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func exec(t tester, db executor, sql string) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// load reads a table from PostgreSQL's catalog, as the gateway does.
func load(t tester, db catalog.Querier, name, lock string) *catalog.Table {
	t.Helper()
	parsed, err := lease.ParseTemplate(lock)
	if err != nil {
		t.Fatal(err)
	}
	return loadWith(t, db, name, parsed)
}

func loadWith(t tester, db catalog.Querier, name string, lock lease.Template) *catalog.Table {
	t.Helper()
	spec := catalog.Spec{Schema: "public", Name: name, Lock: lock}
	snapshot, err := catalog.Load(t.Context(), db, catalog.Specs{Schemas: []string{"public"}, Tables: []catalog.Spec{spec}})
	if err != nil {
		t.Fatal(err)
	}
	table, err := snapshot.Table("public", name)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// prepare lets PostgreSQL parse and plan the statements.
func prepare(t *testing.T, pool *pgxpool.Pool, statements ...statement.Statement) {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	prepareOn(t, conn.Conn(), statements...)
}

func prepareOn(t tester, conn *pgx.Conn, statements ...statement.Statement) {
	t.Helper()
	for _, s := range statements {
		described, err := conn.PgConn().Prepare(t.Context(), "", s.SQL, nil)
		if err != nil {
			t.Fatalf("PostgreSQL does not take this: %v\n%s", err, s.SQL)
		}
		if len(described.ParamOIDs) != len(s.Args) || len(described.Fields) != 4 {
			t.Fatalf("%d parameters and %d columns for %d arguments:\n%s",
				len(described.ParamOIDs), len(described.Fields), len(s.Args), s.SQL)
		}
	}
}

// under is a claim on each key.
func under(keys ...lease.Key) []lease.Claim {
	claims := make([]lease.Claim, len(keys))
	for i, key := range keys {
		claims[i] = lease.Claim{Key: key, Holder: "h", Token: 1}
	}
	return claims
}

func eq(column, value string) statement.Filter {
	return statement.Filter{Column: column, Op: statement.Eq, Values: []string{value}}
}

func group(op statement.FilterOp, parts ...statement.Filter) statement.Filter {
	return statement.Filter{Op: op, Parts: parts}
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

func join(parts []string) string { return strings.Join(parts, ", ") }
