package testenv

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	migrations "github.com/fencegate/fencegate/sql"
)

func TestMain(m *testing.M) {
	code := m.Run()
	Stop()
	os.Exit(code)
}

func version(t *testing.T, d *Database) uint {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	status, err := migrations.Read(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	return status.Version
}

func TestPostgresIsMigrated(t *testing.T) {
	d := Postgres(t)
	if got := version(t, d); got != migrations.Latest() {
		t.Errorf("version %d, want %d", got, migrations.Latest())
	}
	d.Exec(t, "CREATE TABLE a (n int); CREATE TABLE b (n int)")
	d.Exec(t, "INSERT INTO a VALUES ($1)", 7)
	var n int
	if err := d.Pool(t).QueryRow(t.Context(), "SELECT n FROM a").Scan(&n); err != nil || n != 7 {
		t.Errorf("n = %d, %v", n, err)
	}
}

func TestEmptyPostgres(t *testing.T) {
	if got := version(t, EmptyPostgres(t)); got != 0 {
		t.Errorf("version %d", got)
	}
}

func TestDatabasesAreDropped(t *testing.T) {
	var name string
	t.Run("inner", func(t *testing.T) {
		d := Postgres(t)
		name = d.Name
		// Left open: the drop must not mind.
		conn, err := pgx.Connect(context.Background(), d.URL)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn
	})
	address, err := sharedPostgres()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if there, err := hasDatabase(t.Context(), conn, name); there || err != nil {
		t.Errorf("database %s: there %v, %v", name, there, err)
	}
}

// TestTemplateIsMadeOnce stands for several test programs at once.
func TestTemplateIsMadeOnce(t *testing.T) {
	server := OwnPostgres(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, err := ensureTemplate(t.Context(), server.URL("postgres"), ""); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	d := &Database{URL: server.URL("postgres")}
	var n int
	err := d.Pool(t).QueryRow(t.Context(), "SELECT count(*) FROM pg_database WHERE datname LIKE 'fencegate%'").Scan(&n)
	if err != nil || n != 1 {
		t.Errorf("%d databases, %v", n, err)
	}
}

func TestOwnDatabaseSurvivesKill(t *testing.T) {
	server := OwnPostgres(t)
	d := OwnDatabase(t, server)
	d.Exec(t, "CREATE TABLE a AS SELECT 7 AS n")
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.Exec(t, "INSERT INTO a VALUES (8)")
	if got := version(t, d); got != migrations.Latest() {
		t.Errorf("version %d", got)
	}
}
