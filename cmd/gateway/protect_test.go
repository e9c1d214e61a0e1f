package main_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestProtectPrintsAppliesListsAndRemoves(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	db.Exec(t, devstack.Shop)
	config := configFor(t, db.URL, devstack.ShopTables)
	conn, err := pgx.Connect(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(t.Context()) })
	expect := func(code int, says string, args ...string) string {
		t.Helper()
		out, got := gateway(t, append([]string{"protect", "--config", config}, args...)...)
		if got != code || !strings.Contains(out, says) {
			t.Errorf("protect %v: exit code %d, expected %d and %q: %s", args, got, code, says, out)
		}
		return out
	}
	write := func(refused bool) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), `UPDATE shop.inventory SET available = 1`); (err != nil) != refused {
			t.Errorf("a write ended with %v", err)
		}
	}
	printed := expect(0, "CREATE OR REPLACE TRIGGER fencegate_guard AFTER", "shop.inventory")
	write(false)
	if _, err := conn.PgConn().Exec(t.Context(), printed).ReadAll(); err != nil {
		t.Fatalf("what it prints does not run: %v\n%s", err, printed)
	}
	write(true)
	expect(0, "guarded, observing", "shop.inventory", "--observe", "--apply")
	write(false)
	expect(0, "unfenced writes are refused", "shop.inventory", "--apply")
	expect(0, "unfenced writes are refused", "shop.inventory", "--apply")
	write(true)
	expect(0, "enforce  inventory:{sku}  in place", "--list")
	db.Exec(t, `ALTER TABLE shop.inventory RENAME TO stock`)
	expect(0, "the configuration does not have its table", "--list")
	expect(1, "no such table", "shop.stock")
	expect(0, "guard removed", "shop.stock", "--remove", "--apply")
	db.Exec(t, `ALTER TABLE shop.stock RENAME TO inventory`)
	write(false)
	expect(0, "has no guard", "shop.inventory", "--remove")
	expect(0, "guarded", "shop.order_lines", "--apply")
	db.Exec(t, `DROP TABLE shop.order_lines`)
	expect(0, "its table is gone", "--list")
	expect(0, "guarded", "shop.inventory", "--apply")
	if list := expect(0, "in place", "--list"); strings.Contains(list, "gone") {
		t.Error(list)
	}
	for _, args := range [][]string{{}, {"--list", "shop.inventory"}, {"shop.inventory", "--remove", "--observe"}} {
		expect(1, "say either a table", args...)
	}
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `LOCK TABLE shop.inventory IN ROW EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	expect(1, "nothing was changed: a transaction has held a lock", "shop.inventory", "--apply")
}

func TestProtectNamesTheRightsThatAreMissing(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	db.Exec(t, devstack.Shop+`
		CREATE VIEW shop.cups AS SELECT * FROM shop.inventory;
		DO $$ BEGIN CREATE ROLE protect_nobody LOGIN; EXCEPTION WHEN OTHERS THEN NULL; END $$;
		GRANT USAGE ON SCHEMA shop, fencegate TO protect_nobody;
		GRANT SELECT ON ALL TABLES IN SCHEMA shop, fencegate TO protect_nobody;`)
	config := configFor(t, strings.Replace(db.URL, "postgres@", "protect_nobody@", 1), devstack.ShopTables+"  - {name: shop.cups, lock: \"inventory:{sku}\"}\n")
	out, code := gateway(t, "protect", "shop.inventory", "--apply", "--config", config)
	if code != 1 || !strings.Contains(out, `may not make functions in schema fencegate as its owner "postgres"`) || !strings.Contains(out, "may not change the triggers of shop.inventory") {
		t.Errorf("exit code %d: %s", code, out)
	}
	out, code = gateway(t, "protect", "shop.inventory", "--config", config)
	if code != 0 || !strings.HasPrefix(out, `-- role "protect_nobody" may not`) || !strings.Contains(out, "\nBEGIN;") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if out, code = gateway(t, "protect", "shop.cups", "--config", config); code != 1 || !strings.Contains(out, "shop.cups is a view") {
		t.Errorf("exit code %d: %s", code, out)
	}
}
