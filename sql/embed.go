// Package sql holds the gateway's own schema, "fencegate", and moves a database
// from one version of it to the next.
package sql

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/golang-migrate/migrate/v4"
	migratepgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

//go:embed migrations/*.sql
var files embed.FS

// ErrSchemaVersion is wrapped by Check when the database is not at Latest.
var ErrSchemaVersion = errors.New("schema version")

// Status is where a database stands. The zero value: nothing was migrated.
type Status struct {
	Version uint
	Dirty   bool // a migration stopped half-way and needs a person
}

// Latest returns the schema version this program works with.
func Latest() uint {
	ups, err := fs.Glob(files, "migrations/*.up.sql")
	if err != nil || len(ups) == 0 {
		panic("no migrations embedded") // the go:embed pattern would not have compiled
	}
	number, _, _ := strings.Cut(path.Base(ups[len(ups)-1]), "_")
	latest, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		panic(err) // a migration's name begins with its number
	}
	return uint(latest)
}

// Up brings the database at url to Latest. Safe to repeat and to run from
// several places at once. It needs a direct connection: the lock it takes does
// not survive a transaction pooler.
func Up(ctx context.Context, url string) error {
	return withMigrator(ctx, url, func(m *migrate.Migrate) error {
		if err := m.Up(); !errors.Is(err, migrate.ErrNoChange) {
			return err
		}
		return nil
	})
}

// Down takes the database at url one version back. Version 0 has no marks:
// nothing stops a late writer then.
func Down(ctx context.Context, url string) error {
	return withMigrator(ctx, url, func(m *migrate.Migrate) error { return m.Steps(-1) })
}

// Read returns the version that the database behind conn is at.
func Read(ctx context.Context, conn *pgx.Conn) (Status, error) {
	var s Status
	var exists bool
	err := conn.QueryRow(ctx, `SELECT to_regclass('fencegate.schema_migrations') IS NOT NULL`).Scan(&exists)
	if err != nil || !exists {
		return s, err
	}
	err = conn.QueryRow(ctx, `SELECT version, dirty FROM fencegate.schema_migrations`).Scan(&s.Version, &s.Dirty)
	if errors.Is(err, pgx.ErrNoRows) {
		return Status{}, nil
	}
	return s, err
}

// Check returns an error wrapping ErrSchemaVersion, with what to do, unless the
// database behind conn is at Latest.
func Check(ctx context.Context, conn *pgx.Conn) error {
	s, err := Read(ctx, conn)
	switch {
	case err != nil:
		return fmt.Errorf("reading the schema version: %w", err)
	case s.Dirty:
		return fmt.Errorf("%w: migration %d stopped half-way; mend the database, then run `gateway migrate up`", ErrSchemaVersion, s.Version)
	case s.Version < Latest():
		return fmt.Errorf("%w: the database is at %d, this gateway needs %d; run `gateway migrate up`", ErrSchemaVersion, s.Version, Latest())
	case s.Version > Latest():
		return fmt.Errorf("%w: the database is at %d, this gateway knows only %d; run a newer gateway", ErrSchemaVersion, s.Version, Latest())
	}
	return nil
}

func withMigrator(ctx context.Context, url string, act func(*migrate.Migrate) error) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("reading the database address: %w", err)
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	if err := makeSchema(ctx, db); err != nil {
		return err
	}
	driver, err := migratepgx.WithInstance(db, &migratepgx.Config{SchemaName: "fencegate"})
	if err != nil {
		return fmt.Errorf("preparing to migrate: %w", err)
	}
	defer driver.Close()
	source, err := iofs.New(files, "migrations")
	if err != nil {
		return fmt.Errorf("reading the embedded migrations: %w", err)
	}
	m, err := migrate.NewWithInstance("embedded", source, config.Database, driver)
	if err != nil {
		return fmt.Errorf("preparing to migrate: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { m.GracefulStop <- true })
	defer stop()
	return act(m)
}

// makeSchema tolerates a second migrator that made the schema in between:
// CREATE SCHEMA IF NOT EXISTS alone still races on the catalog's unique index.
func makeSchema(ctx context.Context, db *sql.DB) error {
	const query = `DO $$ BEGIN
		CREATE SCHEMA IF NOT EXISTS fencegate;
	EXCEPTION WHEN unique_violation THEN NULL;
	END $$`
	if _, err := db.ExecContext(ctx, query); err != nil {
		return fmt.Errorf("making schema fencegate: %w", err)
	}
	return nil
}
