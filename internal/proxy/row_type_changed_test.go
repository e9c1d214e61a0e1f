package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// A composite type changes under a running gateway that has written values of it.
// PostgreSQL would ignore what it has no attribute for.
func TestAChangedRowTypeLosesNothing(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name       string
		column     string // the type of column c; X is the case's own prefix
		change     string // SQL
		body       string // the value of c, before and after
		pointer    string // of the member that is unknown then; "": it is written
		value      string // that is there then
		everywhere bool   // through every door, not only by an update
	}{
		{"AnAttributeIsDropped", "shop.Xpair", `ALTER TYPE shop.Xpair DROP ATTRIBUTE b`, `{"a":1,"b":"x"}`, "/b", "", false},
		{"AnAttributeIsRenamed", "shop.Xpair", `ALTER TYPE shop.Xpair RENAME ATTRIBUTE b TO c`, `{"a":1,"b":"x"}`, "/b", "", true},
		{"AnAttributeThatIsNotGivenIsDropped", "shop.Xpair", `ALTER TYPE shop.Xpair DROP ATTRIBUTE b`, `{"a":1}`, "", "(1)", false},
		{"AnAttributeIsAdded", "shop.Xpair", `ALTER TYPE shop.Xpair ADD ATTRIBUTE c integer`, `{"a":1,"b":"x"}`, "", "(1,x,)", false},
		{"OfADomain", "shop.Xdomain", `ALTER TYPE shop.Xpair RENAME ATTRIBUTE b TO c`, `{"a":1,"b":"x"}`, "/b", "", false},
		{"InAnArray", "shop.Xpair[]", `ALTER TYPE shop.Xpair RENAME ATTRIBUTE b TO c`, `[{"a":1},{"b":"x"}]`, "/1/b", "", false},
		{"OfADomainInAnArray", "shop.Xdomain[]", `ALTER TYPE shop.Xpair RENAME ATTRIBUTE b TO c`, `[{"a":1,"b":"x"}]`, "/0/b", "", true},
		{"OfAnArrayInADomain", "shop.Xlist", `ALTER TYPE shop.Xpair RENAME ATTRIBUTE b TO c`, `[{"a":1,"b":"x"}]`, "/0/b", "", false},
		{"OfAnArrayInADomainInAnArray", "shop.Xlist[]", `ALTER TYPE shop.Xpair RENAME ATTRIBUTE b TO c`, `["{}",[{"a":1,"b":"x"}]]`, "/1/0/b", "", false},
		{"InARowInARow", "shop.Xbox", `ALTER TYPE shop.Xpair RENAME ATTRIBUTE b TO c`, `{"one":{"a":1,"b":"x"}}`, "/one/b", "", false},
		{"InAnArrayInARow", "shop.Xbox", `ALTER TYPE shop.Xpair RENAME ATTRIBUTE b TO c`, `{"more":[{"a":1,"b":"x"}]}`, "/more/0/b", "", true},
		{"OfATablesRow", "shop.Xrow", `ALTER TABLE shop.Xrow DROP b`, `{"a":1,"b":"x"}`, "/b", "", false},
		{"AnAttributeBecomesARow", "shop.Xloose", `ALTER TABLE shop.X DROP c; ALTER TYPE shop.Xloose ALTER ATTRIBUTE j TYPE shop.Xpair CASCADE; ALTER TABLE shop.X ADD c shop.Xloose`, `{"j":{"a":1,"other":2}}`, "/j/other", "", false},
		{"AnAttributeOfAnArrayBecomesARow", "shop.Xloose", `ALTER TABLE shop.X DROP c; ALTER TYPE shop.Xloose ALTER ATTRIBUTE js TYPE shop.Xpair[] CASCADE; ALTER TABLE shop.X ADD c shop.Xloose`, `{"js":[{"a":1,"other":2}]}`, "/js/0/other", "", false},
		{"AnAttributeBecomesAnother", "shop.Xpair", `ALTER TABLE shop.X DROP c; ALTER TYPE shop.Xpair ALTER ATTRIBUTE a TYPE text CASCADE; ALTER TABLE shop.X ADD c shop.Xpair`, `{"a":7,"b":"x"}`, "", "(7,x)", false},
		{"TheDomainIsMadeAnew", "shop.Xdomain", `ALTER TABLE shop.X ALTER c TYPE text; DROP DOMAIN shop.Xdomain;
			CREATE DOMAIN shop.Xdomain AS shop.Xother; ALTER TABLE shop.X ALTER c TYPE shop.Xdomain USING NULL`, `{"a":1,"b":"x"}`, "/b", "", true},
		{"TheTypeIsMadeAnew", "shop.Xpair", `ALTER TABLE shop.X DROP c; DROP TYPE shop.Xpair CASCADE;
			CREATE TYPE shop.Xpair AS (a integer, c text); ALTER TABLE shop.X ADD c shop.Xpair`, `{"a":1,"b":"x"}`, "/b", "", true},
	}
	doors := []struct{ name, method, path, prefer, body string }{
		{"Upsert", http.MethodPost, "/rest/X", "resolution=merge-duplicates", `{"id":"K","c":VALUE}`},
		{"Update", http.MethodPatch, "/rest/X?id=eq.K", "return=minimal", `{"c":VALUE}`},
		{"Call", http.MethodPost, "/rest/rpc/X", "return=minimal", `{"id":"K","c":VALUE}`},
	}
	db := testenv.Postgres(t)
	db.Exec(t, `CREATE SCHEMA shop`)
	tables, statements := "tables:\n", "statements:\n"
	// Each has a table and types of its own: what one finds out, the gateway knows.
	named := func(door, i int, text string) string {
		return strings.ReplaceAll(text, "X", fmt.Sprintf("x%d_%d", i, door))
	}
	plays := func(door, i int) bool { return doors[door].method == http.MethodPatch || cases[i].everywhere }
	for door := range doors {
		for i, c := range cases {
			if !plays(door, i) {
				continue
			}
			db.Exec(t, named(door, i, `CREATE TYPE shop.Xpair AS (a integer, b text); CREATE TYPE shop.Xother AS (a integer, c text);
				CREATE TYPE shop.Xbox AS (one shop.Xpair, more shop.Xpair[]); CREATE TYPE shop.Xloose AS (j json, js json[]);
				CREATE DOMAIN shop.Xdomain AS shop.Xpair; CREATE DOMAIN shop.Xlist AS shop.Xpair[];
				CREATE TABLE shop.Xrow (a integer, b text); CREATE TABLE shop.X (id text PRIMARY KEY, c `+c.column+`)`))
			tables += named(door, i, "  - {name: shop.X, lock: 'kind:{id}'}\n")
			statements += named(door, i, "  - {name: X, lock: 'kind:{id}', params: {id: text, c: '"+c.column+"'}, sql: 'UPDATE shop.X SET c = :c WHERE id = :id RETURNING 1'}\n")
		}
	}
	g := testenv.StartGateway(t, testenv.GatewayOptions{Database: db, Tables: tables + statements})
	l := g.Acquire(t, "kind:K", 300_000)
	pool := db.Pool(t)
	for door, d := range doors {
		for i, c := range cases {
			if !plays(door, i) {
				continue
			}
			t.Run(d.name+"/"+c.name, func(t *testing.T) {
				q := testenv.Request{Method: d.method, Path: named(door, i, d.path), Body: strings.ReplaceAll(d.body, "VALUE", c.body),
					Header: with(l, "Prefer", d.prefer)}
				reset := func() { db.Exec(t, named(door, i, `DELETE FROM shop.X; INSERT INTO shop.X (id) VALUES ('K')`)) }
				reset()
				for range 2 { // it leaves a prepared statement
					if answer := g.Do(t, q); answer.Status >= 400 {
						t.Fatalf("before the change: %d %s", answer.Status, answer.Body)
					}
				}
				reset()
				db.Exec(t, named(door, i, c.change))

				answer := g.Do(t, q)
				got := scalar[string](t, pool, named(door, i, `SELECT coalesce(c::text, '') FROM shop.X`))
				switch {
				case c.pointer != "":
					mustRefuse(t, answer, want{status: 422, slug: "unknown_column", pointer: "/c" + c.pointer})
					if got != "" {
						t.Errorf("refused, and %s is there", got)
					}
				case answer.Status >= 400 || got != c.value:
					t.Errorf("%d %s; %q is there", answer.Status, answer.Body, got)
				}
			})
		}
	}
}
