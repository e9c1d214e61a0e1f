package legacy_test

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/testenv"
)

// oldSettings are what old databases and roles are found with. Each changes how
// PostgreSQL reads a value or prints one.
const oldSettings = `
ALTER ROLE %[1]s SET DateStyle = 'German, DMY';
ALTER ROLE %[1]s SET IntervalStyle = 'sql_standard';
ALTER ROLE %[1]s SET TimeZone = 'Europe/Amsterdam';
ALTER ROLE %[1]s SET extra_float_digits = 0;
ALTER ROLE %[1]s SET bytea_output = 'escape';
ALTER ROLE %[1]s SET standard_conforming_strings = off;
ALTER ROLE %[1]s SET array_nulls = off;
ALTER ROLE %[1]s SET xmloption = 'document';
ALTER ROLE %[1]s SET default_transaction_isolation = 'serializable';
ALTER ROLE %[1]s SET search_path = '';
ALTER ROLE %[1]s SET client_min_messages = 'debug1';
`

func TestUnderOldSettings(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	needExtensions(t, db.Pool(t))
	db.Exec(t, typesSQL)
	address := oldRole(t, db)
	w := &world{Gateway: testenv.StartGateway(t, testenv.GatewayOptions{
		Database: db, DatabaseURL: address, Config: limits, Tables: yaml([]table{{"legacy", "wide", "wide:{grp}"}}),
	})}
	// What these tests send themselves is not what is tried.
	pool, err := pgxpool.New(t.Context(), address+"&standard_conforming_strings=on&extra_float_digits=3&default_transaction_isolation=read%20committed")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	w.pool = pool
	randomValues(t, w)
}

// oldRole returns the database's address for a role of this test's own.
func oldRole(t *testing.T, db *testenv.Database) string {
	t.Helper()
	role := "fencegate_test_" + strings.ToLower(rand.Text()[:16])
	db.Exec(t, "CREATE ROLE "+role+" SUPERUSER LOGIN;"+strings.ReplaceAll(oldSettings, "%[1]s", role))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		conn, err := pgx.Connect(ctx, db.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	address, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.User(role)
	return address.String()
}
