// Package guard_test writes to guarded tables in every way that PostgreSQL has,
// admitted and not, honest and not.
package guard_test

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/statement"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	testenv.Stop()
	os.Exit(code)
}

// stateUnfenced is what a guard raises, stateRefused what the fence does.
const (
	stateUnfenced = "FG011"
	stateRefused  = "FG001"
	stateDenied   = "42501"
)

// stock is a table for each kind of relation, and one that refers to another.
const stock = `
CREATE SCHEMA shop;
CREATE TABLE shop.stock (sku text PRIMARY KEY, n int NOT NULL DEFAULT 0);
INSERT INTO shop.stock VALUES ('a', 1), ('b', 1);
CREATE TABLE shop.lot (sku text NOT NULL REFERENCES shop.stock ON DELETE CASCADE ON UPDATE CASCADE, lot int, PRIMARY KEY (sku, lot));
CREATE TABLE shop.part (id int NOT NULL, n int NOT NULL DEFAULT 0) PARTITION BY RANGE (id);
CREATE TABLE shop.part_low PARTITION OF shop.part FOR VALUES FROM (0) TO (10);
CREATE TABLE shop.part_high PARTITION OF shop.part FOR VALUES FROM (10) TO (20);
INSERT INTO shop.part VALUES (1, 1), (11, 1);
CREATE TABLE shop.parent (id int NOT NULL, n int NOT NULL DEFAULT 0);
CREATE TABLE shop.child () INHERITS (shop.parent);
INSERT INTO shop.parent VALUES (1, 1);
INSERT INTO shop.child VALUES (2, 1);
GRANT USAGE ON SCHEMA shop TO PUBLIC;
`

// place is a database with guarded tables, and a role that may write them and owns
// nothing.
type place struct {
	*testenv.Database
	role string
}

func newPlace(t *testing.T, tables string, guarded ...string) *place {
	t.Helper()
	p := &place{Database: testenv.Postgres(t), role: "guard_" + strings.ToLower(rand.Text()[:12])}
	p.open(t, tables, guarded...)
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), p.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(context.Background(), "DROP OWNED BY "+p.role+"; DROP ROLE "+p.role); err != nil {
			t.Error(err)
		}
	})
	return p
}

// open makes the role, the tables, and the guards: "table lock", behind which
// " observe" may stand.
func (p *place) open(t *testing.T, tables string, guarded ...string) {
	t.Helper()
	p.Exec(t, tables)
	p.Exec(t, "CREATE ROLE "+p.role+" LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA shop TO "+p.role+
		"; GRANT USAGE ON SCHEMA fencegate TO "+p.role+"; GRANT CREATE ON SCHEMA public TO "+p.role+
		"; GRANT EXECUTE ON FUNCTION fencegate.admit(text, bigint, text) TO "+p.role)
	for _, g := range guarded {
		words := strings.Fields(g)
		p.protect(t, words[0], words[1], len(words) > 2)
	}
}

func (p *place) protect(t *testing.T, name, lock string, observe bool) {
	t.Helper()
	p.Exec(t, p.guard(t, name, lock, observe).Install())
}

func (p *place) guard(t *testing.T, name, lock string, observe bool) statement.Guard {
	t.Helper()
	template, err := lease.ParseTemplate(lock)
	if err != nil {
		t.Fatal(err)
	}
	pool := p.Pool(t)
	snapshot, err := catalog.Load(t.Context(), pool, catalog.Specs{Schemas: []string{"shop"}, Tables: []catalog.Spec{{Schema: "shop", Name: name, Lock: template}}})
	if err != nil {
		t.Fatal(err)
	}
	table, err := snapshot.Table("shop", name)
	if err != nil {
		t.Fatal(err)
	}
	site, err := catalog.LoadGuardSite(t.Context(), pool, table)
	if err != nil {
		t.Fatal(err)
	}
	return statement.Guard{Table: table, Site: site, Observe: observe}
}

// grant hands key out to holder "h", with token 1 if nobody had it before.
func (p *place) grant(t *testing.T, key, holder string) {
	t.Helper()
	p.Exec(t, `SELECT fencegate.raise_mark($1, $2, coalesce((SELECT token FROM fencegate.marks WHERE lock_key = $1), 0), 0, 'test', 'test')`, key, holder)
}

// as connects as the role.
func (p *place) as(t *testing.T) *pgx.Conn {
	t.Helper()
	u, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(p.role)
	return connect(t, u.String())
}

func connect(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// run runs each line as one message, so that a transaction lasts from line to line,
// and returns the SQLSTATE of the first that fails, "" if none does.
func run(t *testing.T, conn *pgx.Conn, script string) (state string) {
	t.Helper()
	for line := range strings.Lines(script) {
		_, err := conn.PgConn().Exec(t.Context(), line).ReadAll()
		var refused *pgconn.PgError
		if errors.As(err, &refused) {
			t.Logf("%s: %s (%s) %s", strings.TrimSpace(line), refused.Message, refused.Code, refused.Hint)
			return refused.Code
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return ""
}

// look returns one value as text.
func (p *place) look(t *testing.T, query string) (text string) {
	t.Helper()
	if err := connect(t, p.URL).QueryRow(t.Context(), query).Scan(&text); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return text
}

// contents is all that is in the guarded tables.
const contents = `
SELECT concat_ws(' | ', (SELECT string_agg(sku || n, ' ' ORDER BY sku) FROM shop.stock), (SELECT string_agg(sku || lot, ' ' ORDER BY sku, lot) FROM shop.lot),
       (SELECT string_agg(id || ':' || n, ' ' ORDER BY id) FROM shop.part), (SELECT string_agg(id || ':' || n, ' ' ORDER BY id) FROM shop.parent))`

func replaceRole(script, role string) string { return strings.ReplaceAll(script, "{role}", role) }
