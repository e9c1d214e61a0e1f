package main_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

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
	if code != 0 || !strings.Contains(printed, "CREATE ROLE \""+role+"\" LOGIN;\n") {
		t.Fatalf("exit code %d: %s", code, printed)
	}
	if again, _ := gateway(t, "migrate", "--print-roles", "--role", role, "--config", path); again != printed {
		t.Errorf("printing changed something:\n%s\nwas\n%s", again, printed)
	}
	db.Exec(t, printed)
	t.Cleanup(func() {
		owner, err := pgx.Connect(context.Background(), db.URL) // the test's own context is over
		if err != nil {
			t.Fatal(err)
		}
		defer owner.Close(context.Background())
		if _, err := owner.Exec(context.Background(), `DROP OWNED BY "`+role+`"; DROP ROLE "`+role+`"`); err != nil {
			t.Error(err)
		}
	})
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

	conn, err := pgxpool.New(t.Context(), as.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, beyond := range []string{
		`SELECT * FROM shop.secret`, `DELETE FROM shop.orders`, `UPDATE shop.journal SET n = 1`, `TRUNCATE shop.inventory`, `DROP TABLE shop.inventory`,
		`SELECT shop.other()`, `CREATE TABLE shop.mine (id int)`, `CREATE TABLE fencegate.mine (id int)`, `DELETE FROM fencegate.marks`,
		`DELETE FROM fencegate.refusals`, `UPDATE fencegate.grants SET token = 1`, `DROP SCHEMA fencegate CASCADE`, `CREATE ROLE mine`,
	} {
		if _, err := conn.Exec(t.Context(), beyond); err == nil {
			t.Errorf("the gateway's role may %s", beyond)
		}
	}
}
