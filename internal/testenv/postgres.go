// Package testenv gives tests what they run against: databases and Redis
// prefixes of their own on real servers.
//
// The servers are those named by FENCEGATE_TEST_POSTGRES_URL and
// FENCEGATE_TEST_REDIS_URL, as `go run ./test/stack` sets them. Without these,
// each test program starts servers at first use; they end with it.
package testenv

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/devstack"
	migrations "github.com/fencegate/fencegate/sql"
)

// PostgresEnv names the environment variable with the address of the PostgreSQL
// to test against, as a superuser. Empty: tests start their own.
const PostgresEnv = "FENCEGATE_TEST_POSTGRES_URL"

const (
	startTimeout = 2 * time.Minute // a loaded machine, and initdb
	actTimeout   = 30 * time.Second
	maxName      = 50             // of a template: with what is added to it less than PostgreSQL's 63 bytes
	templateLock = 0x66656e636567 // "fenceg", any number that is the same for all
)

// Database is a database of one test. The zero value is not usable.
type Database struct {
	URL  string // as pgx takes it, for the superuser
	Name string
}

// sharedPostgres is the address of the server that all tests of this program
// share. One that it starts is never stopped: only the end of the program is
// the end of its last test, and devstack ties the server to that.
var sharedPostgres = sync.OnceValues(func() (string, error) {
	if address := os.Getenv(PostgresEnv); address != "" {
		return address, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	server, err := devstack.StartPostgres(ctx, devstack.PostgresConfig{})
	if err != nil {
		return "", err
	}
	addCloser(server.Stop)
	return server.URL("postgres"), nil
})

// Postgres makes a database with the gateway's schema for this test, and drops
// it at the test's end.
func Postgres(t testing.TB) *Database {
	t.Helper()
	return create(t, mustStart(t, plainTemplate))
}

// Shop is Postgres with devstack.Shop in it.
func Shop(t testing.TB) *Database {
	t.Helper()
	return create(t, mustStart(t, shopTemplate))
}

// EmptyPostgres makes a database without the gateway's schema for this test, and
// drops it at the test's end.
func EmptyPostgres(t testing.TB) *Database {
	t.Helper()
	return create(t, "template0")
}

// OnServer runs a statement on the shared server, in no test's database.
func OnServer(t testing.TB, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), actTimeout)
	defer cancel()
	if _, err := mustStart(t, sharedServer).Exec(ctx, sql); err != nil {
		t.Fatalf("executing %q: %v", sql, err)
	}
}

var (
	plainTemplate = sync.OnceValues(func() (string, error) { return sharedTemplate("") })
	shopTemplate  = sync.OnceValues(func() (string, error) { return sharedTemplate(devstack.Shop) })
)

func sharedTemplate(seed string) (string, error) {
	address, err := sharedPostgres()
	if err != nil {
		return "", err
	}
	name, err := ensureTemplate(context.Background(), address, seed)
	if err != nil {
		return "", fmt.Errorf("making the template database: %w", err)
	}
	return name, nil
}

// server is where databases are made and dropped. A connection costs more than what
// is done on it, so that a few are kept.
type server struct {
	*pgxpool.Pool
	address string
	copying string // how CREATE DATABASE is to copy, as a clause
}

var sharedServer = sync.OnceValues(func() (server, error) {
	address, err := sharedPostgres()
	if err != nil {
		return server{}, err
	}
	c, err := pgxpool.ParseConfig(address)
	if err != nil {
		return server{}, err
	}
	c.MaxConns = 4
	s := server{address: address}
	if s.Pool, err = pgxpool.NewWithConfig(context.Background(), c); err != nil {
		return server{}, err
	}
	var knowsStrategies bool
	err = s.QueryRow(context.Background(), "SELECT current_setting('server_version_num')::int >= 150000").Scan(&knowsStrategies)
	if knowsStrategies {
		s.copying = " STRATEGY FILE_COPY" // without fsync half the work of copying by way of the WAL
	}
	return s, err
})

// OwnPostgres starts a server for this test alone, which may kill it, and stops
// it at the test's end.
func OwnPostgres(t testing.TB) *devstack.Postgres {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	server, err := devstack.StartPostgres(ctx, devstack.PostgresConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// OwnDatabase makes a database with the gateway's schema on a server of this
// test's own. It goes with the server.
func OwnDatabase(t testing.TB, server *devstack.Postgres) *Database {
	t.Helper()
	return ownDatabase(t, server, "")
}

// LatinDatabase is OwnDatabase in the encoding LATIN1, as old databases are,
// with sql run in it.
func LatinDatabase(t testing.TB, server *devstack.Postgres, sql string) *Database {
	t.Helper()
	d := ownDatabase(t, server, " TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
	d.Exec(t, sql)
	return d
}

func ownDatabase(t testing.TB, server *devstack.Postgres, options string) *Database {
	t.Helper()
	name := uniqueName("fencegate_test_")
	if err := execAt(t.Context(), server.URL("postgres"), "CREATE DATABASE "+name+options); err != nil {
		t.Fatalf("creating a database: %v", err)
	}
	d := &Database{URL: server.URL(name), Name: name}
	if err := migrations.Up(t.Context(), d.URL); err != nil {
		t.Fatalf("migrating: %v", err)
	}
	return d
}

// Pool returns connections to the database, closed at the test's end, which
// waits for those still in use.
func (d *Database) Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), d.URL)
	if err != nil {
		t.Fatalf("opening a pool: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Exec runs a statement on a connection of its own, or, without arguments,
// several; an error ends the test.
func (d *Database) Exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if err := execAt(t.Context(), d.URL, sql, args...); err != nil {
		t.Fatalf("executing %q: %v", sql, err)
	}
}

func create(t testing.TB, template string) *Database {
	t.Helper()
	s := mustStart(t, sharedServer)
	name := uniqueName("fencegate_test_")
	OnServer(t, "CREATE DATABASE "+name+" TEMPLATE "+template+s.copying)
	t.Cleanup(func() { OnServer(t, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
	at, err := withDatabase(s.address, name)
	if err != nil {
		t.Fatal(err)
	}
	return &Database{URL: at, Name: name}
}

// ensureTemplate returns the name of a database to copy, with the gateway's schema
// and what seed makes, made by whichever test program comes first. It gets its name
// last, so that one of that name is whole.
func ensureTemplate(ctx context.Context, address, seed string) (string, error) {
	name := fmt.Sprintf("fencegate_template_%d_%s_%x", migrations.Latest(), migrationsHash(), sha256.Sum256([]byte(seed)))[:maxName]
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx)) // gives the lock back as well
	if there, err := hasDatabase(ctx, conn, name); there || err != nil {
		return name, err
	}
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(templateLock)); err != nil {
		return "", err
	}
	if there, err := hasDatabase(ctx, conn, name); there || err != nil {
		return name, err
	}
	return name, makeTemplate(ctx, conn, address, name, seed)
}

func makeTemplate(ctx context.Context, conn *pgx.Conn, address, name, seed string) error {
	draft := name + "_draft"
	at, err := withDatabase(address, draft)
	if err != nil {
		return err
	}
	for _, statement := range []string{"DROP DATABASE IF EXISTS " + draft + " WITH (FORCE)", "CREATE DATABASE " + draft} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	if err := migrations.Up(ctx, at); err != nil {
		return err
	}
	if seed != "" {
		if err := execAt(ctx, at, seed); err != nil {
			return err
		}
	}
	for _, statement := range []string{
		// A single client connected to the template would make copies fail.
		"ALTER DATABASE " + draft + " ALLOW_CONNECTIONS false",
		"ALTER DATABASE " + draft + " RENAME TO " + name,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func hasDatabase(ctx context.Context, conn *pgx.Conn, name string) (bool, error) {
	var there bool
	err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&there)
	return there, err
}

// migrationsHash tells edited migrations apart on a server that outlives a run.
// Without the source tree around it, the version alone has to do.
var migrationsHash = sync.OnceValue(func() string {
	hash := sha256.New()
	dir, _ := os.Getwd() // the directory of the package under test
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		files, _ := filepath.Glob(filepath.Join(dir, "sql", "migrations", "*.sql"))
		for _, file := range files {
			text, _ := os.ReadFile(file)
			fmt.Fprintf(hash, "%s %d\n%s", filepath.Base(file), len(text), text)
		}
		if len(files) > 0 {
			break
		}
	}
	return hex.EncodeToString(hash.Sum(nil)[:6])
})

func execAt(ctx context.Context, address, sql string, args ...any) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, sql, args...)
	return err
}

func withDatabase(address, name string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		return "", fmt.Errorf("%s must be a postgres:// URL", PostgresEnv)
	}
	u.Path = "/" + name
	return u.String(), nil
}
