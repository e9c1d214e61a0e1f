package main_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/identity"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestTheRightsThatArePrintedAreEnoughAndNoMore(t *testing.T) {
	t.Parallel()
	db := testenv.Shop(t)
	db.Exec(t, `
		CREATE TABLE shop.secret (id int PRIMARY KEY);
		CREATE TABLE shop.journal (id serial PRIMARY KEY, n int);
		CREATE FUNCTION shop.take(sku text) RETURNS integer LANGUAGE sql AS $$ SELECT 1 $$;
		CREATE FUNCTION shop.other() RETURNS integer LANGUAGE sql AS $$ SELECT 1 $$;
		REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA shop FROM PUBLIC`)
	role := "role_of_" + db.Name // roles are the server's, not the database's
	tables := "tables:\n  - {name: shop.inventory, lock: 'inventory:{sku}'}\n" +
		"  - {name: shop.orders, lock: 'order:{order_no}', operations: [select]}\n  - {name: shop.journal, lock: 'journal:{id}', operations: [insert]}\n" +
		"functions: [{name: shop.take, lock: 'inventory:{sku}'}]\n"
	path := configFor(t, db.URL, tables)
	printed, code := gateway(t, "migrate", "--print-roles", "--role", role, "--config", path)
	if code != 0 || !strings.Contains(printed, "CREATE ROLE \""+role+"\" LOGIN NOINHERIT;\n") {
		t.Fatalf("exit code %d: %s", code, printed)
	}
	if again, _ := gateway(t, "migrate", "--print-roles", "--role", role, "--config", path); again != printed {
		t.Errorf("printing changed something:\n%s\nwas\n%s", again, printed)
	}
	db.Exec(t, printed)
	dropRoles(t, db, role)
	if rest, code := gateway(t, "migrate", "--print-roles", "--role", role, "--config", path); code != 0 || strings.Contains(rest, "GRANT") {
		t.Errorf("with all of it, exit code %d: %s", code, rest)
	}

	as, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	as.User = url.User(role)
	g := testenv.StartGateway(t, testenv.GatewayOptions{Database: db, DatabaseURL: as.String(), Tables: tables})
	l := g.Acquire(t, "inventory:SKU-1", 60_000)
	for _, q := range []testenv.Request{
		{Path: "/rest/inventory?sku=eq.SKU-1"},
		{Method: "PATCH", Path: "/rest/inventory?sku=eq.SKU-1", Header: l.Header(), Body: `{"available":1}`},
		{Method: "POST", Path: "/rest/rpc/take", Header: l.Header(), Body: `{"sku":"SKU-1"}`},
		{Path: "/v1/marks"}, {Path: "/v1/refusals"}, {Path: "/v1/grants?key=inventory:SKU-1"},
	} {
		if answer := g.Do(t, q); answer.Status >= 300 {
			t.Errorf("%s %s: %d %s", q.Method, q.Path, answer.Status, answer.Body)
		}
	}
	late := l.Header()
	late.Set("Fencing-Token", "9")
	if answer := g.Do(t, testenv.Request{Method: "DELETE", Path: "/rest/inventory?sku=eq.SKU-1", Header: late}); answer.Status != http.StatusPreconditionFailed {
		t.Errorf("a wrong token: %d %s", answer.Status, answer.Body)
	}
	g.Release(t, l)

	mayNot(t, as.String(), `SELECT * FROM shop.secret`, `DELETE FROM shop.orders`, `UPDATE shop.journal SET n = 1`, `TRUNCATE shop.inventory`, `DROP TABLE shop.inventory`,
		`SELECT shop.other()`, `CREATE TABLE shop.mine (id int)`, `CREATE TABLE fencegate.mine (id int)`, `DELETE FROM fencegate.marks`,
		`DELETE FROM fencegate.refusals`, `UPDATE fencegate.grants SET token = 1`, `DROP SCHEMA fencegate CASCADE`, `CREATE ROLE mine`)
}

func mayNot(t *testing.T, address string, statements ...string) {
	t.Helper()
	conn, err := pgxpool.New(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, beyond := range statements {
		if _, err := conn.Exec(t.Context(), beyond); err == nil {
			t.Errorf("the gateway's role may %s", beyond)
		}
	}
}

// dropRoles drops roles at the test's end.
func dropRoles(t *testing.T, db *testenv.Database, roles ...string) {
	t.Cleanup(func() {
		ctx := context.Background() // the test's own is over
		owner, err := pgx.Connect(ctx, db.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer owner.Close(ctx)
		for _, role := range roles {
			if _, err := owner.Exec(ctx, "DROP OWNED BY "+pgx.Identifier{role}.Sanitize()+"; DROP ROLE "+pgx.Identifier{role}.Sanitize()); err != nil {
				t.Error(err)
			}
		}
	})
}

// The gateway's own role needs nothing of what is done as others.
func TestTheRightsOfDatabaseRolesArePrinted(t *testing.T) {
	t.Parallel()
	db := testenv.Shop(t)
	role, app := "role_of_"+db.Name, "app_of_"+db.Name
	text, key := identity.NewKey(time.Time{})
	auth := "auth: required\nroles:\n  - {name: stock, tables: [{table: shop.inventory, operations: [select, update]}], locks: ['inventory:*'], database_role: " + app + "}\n" +
		"  - {name: clerk, tables: [{table: shop.orders}], locks: ['order:*']}\n" +
		fmt.Sprintf("principals: [{name: w, roles: [stock], api_keys: [{id: '%s', sha256: '%x'}]}]\n", key.ID, key.SHA256)
	tables := "tables:\n  - {name: shop.inventory, lock: 'inventory:{sku}'}\n  - {name: shop.orders, lock: 'order:{order_no}'}\n"
	redis, _ := testenv.Redis(t)
	path := configFile(t, "listen: 127.0.0.1:0\nadmin_listen: off\ndatabase: {url: '"+db.URL+"'}\nredis: {url: '"+redis+"'}\n"+auth+tables)

	out, code := gateway(t, "serve", "--config", path)
	if code == 0 || !strings.Contains(out, "roles[0].database_role: becoming") || !strings.Contains(out, "print-roles") {
		t.Errorf("without the role serve ended with %d: %s", code, out)
	}
	printed, code := gateway(t, "migrate", "--print-roles", "--role", role, "--config", path)
	for _, line := range []string{
		`CREATE ROLE "` + role + `" LOGIN NOINHERIT;`, `CREATE ROLE "` + app + `" NOLOGIN;`, "GRANT " + app + " TO " + role + ";",
		"GRANT USAGE ON SCHEMA fencegate TO " + app + ";", "GRANT SELECT, UPDATE ON shop.inventory TO " + app + ";",
	} {
		if !strings.Contains(printed, line+"\n") {
			t.Errorf("exit code %d, and %s is not in\n%s", code, line, printed)
		}
	}
	db.Exec(t, printed)
	dropRoles(t, db, app, role)
	if rest, code := gateway(t, "migrate", "--print-roles", "--role", role, "--config", path); code != 0 || strings.Contains(rest, "GRANT") {
		t.Errorf("with all of it, exit code %d: %s", code, rest)
	}

	as, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	as.User = url.User(role)
	g := testenv.StartGateway(t, testenv.GatewayOptions{Database: db, DatabaseURL: as.String(), Tables: tables, Auth: auth}).As(text)
	l := g.Acquire(t, "inventory:SKU-1", 60_000)
	for _, q := range []testenv.Request{
		{Path: "/rest/inventory?sku=eq.SKU-1"},
		{Method: "PATCH", Path: "/rest/inventory?sku=eq.SKU-1", Header: l.Header(), Body: `{"available":1}`},
	} {
		if answer := g.Do(t, q); answer.Status >= 300 {
			t.Errorf("%s %s: %d %s", q.Method, q.Path, answer.Status, answer.Body)
		}
	}
	keyed := l.Header()
	keyed.Set("Idempotency-Key", "once")
	for range 2 {
		if answer := g.Do(t, testenv.Request{Method: "PATCH", Path: "/rest/inventory?sku=eq.SKU-1", Header: keyed, Body: `{"available":2}`}); answer.Status != http.StatusNoContent {
			t.Errorf("under an idempotency key: %d %s", answer.Status, answer.Body)
		}
	}
	mayNot(t, as.String(), `SELECT * FROM shop.inventory`, `UPDATE shop.inventory SET available = 0`)
	mayNot(t, as.String()+"&options=-crole%3D"+app, `SELECT * FROM shop.orders`, `SELECT * FROM fencegate.marks`, `DELETE FROM shop.inventory`,
		`SELECT fencegate.keep_answer('w', 'once', 0, 1, '')`)
}

// Whatever is a role's name, and a type's, what is printed makes that one.
func TestOddNamesArePrintedSafely(t *testing.T) {
	t.Parallel()
	db := testenv.Shop(t)
	role := "Odd \"role\"; --\n" + db.Name
	db.Exec(t, `
		CREATE TYPE public."Odd type" AS ENUM ('a');
		CREATE TABLE shop."Order" (id text PRIMARY KEY, "select" text);
		CREATE FUNCTION shop."Take It"(sku text, kind public."Odd type" DEFAULT 'a') RETURNS integer LANGUAGE sql AS $$ SELECT 1 $$;
		CREATE PROCEDURE shop."Take It"(sku integer) LANGUAGE sql AS $$ SELECT 1 $$;
		REVOKE EXECUTE ON ALL ROUTINES IN SCHEMA shop FROM PUBLIC`)
	path := configFor(t, db.URL, "tables:\n  - {name: {schema: shop, name: Order}, lock: 'order:{id}'}\nfunctions: [{name: {schema: shop, name: Take It}, lock: 'x:{sku}'}]\n")
	printed, code := gateway(t, "migrate", "--print-roles", "--role", role, "--config", path)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, printed)
	}
	db.Exec(t, "SET search_path = shop; "+printed)
	dropRoles(t, db, role)
	if rest, code := gateway(t, "migrate", "--print-roles", "--role", role, "--config", path); code != 0 || strings.Contains(rest, "GRANT") || strings.Contains(rest, "\n"+db.Name) {
		t.Errorf("with all of it, exit code %d: %s", code, rest)
	}
}
