package main_test

import (
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
)

const routines = `
CREATE FUNCTION shop.take(p_sku text, p_qty integer DEFAULT 1) RETURNS integer LANGUAGE sql AS
  'UPDATE shop.inventory SET available = available - p_qty WHERE sku = p_sku RETURNING available';
CREATE FUNCTION shop.take_twice(a integer) RETURNS integer LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION shop.take_twice(a text) RETURNS integer LANGUAGE sql AS 'SELECT 1';
`

// registered is a section of statements with one of this text, whose first line
// is line 18 of a file of configFor with devstack.ShopTables.
func registered(sql string) string {
	return "statements:\n  - name: one\n    lock: x\n    params: {sku: text}\n    sql: |\n      " + strings.ReplaceAll(sql, "\n", "\n      ") + "\n"
}

func TestServeRefusesAStatementThatPostgreSQLDoesNotTake(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	db.Exec(t, devstack.Shop+routines)
	for name, c := range map[string]struct{ more, says string }{
		"AnUnknownColumn": {registered("SELECT available FROM shop.inventory\n WHERE sku = :sku\n   AND größe = 1"),
			`gateway.yaml:14: statement "one": on line 20, column "größe" does not exist (SQLSTATE 42703)`},
		"AnUnknownColumnWithAHint": {registered("SELECT availabel FROM shop.inventory WHERE sku = :sku"),
			`on line 18, column "availabel" does not exist; Perhaps you meant to reference the column "inventory.available" (SQLSTATE 42703)`},
		"AMistakeInGrammar":    {registered("SELECT :sku\nFRM shop.inventory"), `on line 19, syntax error at or near "shop"`},
		"AStatementInQuotes":   {"statements: [{name: one, lock: x, sql: \"SELECT 1 AS a,\\n x\"}]\n", `gateway.yaml:13: statement "one": in its line 2, column "x" does not exist`},
		"AParenthesisTooMany":  {registered("SELECT 1 AS a, :sku AS b) SELECT * FROM w, (SELECT 2 AS c"), `on line 18, syntax error at or near ")"`},
		"ATypeThatDoesNotFit":  {registered("SELECT 1 + :sku AS a"), "on line 18, operator does not exist: integer + text"},
		"NoReturning":          {registered("DELETE FROM shop.inventory WHERE sku = :sku"), "it gives no rows; an INSERT, UPDATE or DELETE needs a RETURNING clause"},
		"NoColumns":            {registered("SELECT FROM shop.inventory WHERE sku = :sku"), "it gives no rows"},
		"AnotherKindOfThing":   {registered("EXPLAIN SELECT :sku AS a"), "by itself it is right"},
		"OneNameForTwoColumns": {registered("SELECT 1 AS a, :sku AS a"), `two of its columns are called "a"; name one of them with AS`},
		"AWriteInsideItsWith":  {registered("WITH d AS (DELETE FROM shop.inventory WHERE sku = :sku RETURNING sku)\nSELECT sku FROM d"), "on line 18, WITH clause containing a data-modifying statement must be at the top level (SQLSTATE 0A000); by itself it is right"},
		"AnUnknownType":        {strings.Replace(registered("SELECT :sku AS a"), "text", "txt", 1), `gateway.yaml:14: statement "one": parameter "sku": there is no type "txt"`},
		"AnUnknownFunction":    {"functions: [{name: shop.nope, lock: x}]\n", `gateway.yaml:13: function "shop"."nope": there is no such function`},
		"AnOverloadedFunction": {"functions: [{name: shop.take_twice, lock: x}]\n", "take_twice(a integer), take_twice(a text)"},
		"AFunctionWithoutAKey": {"functions: [{name: shop.take, lock: 'x:{sku}'}]\n", `there is no parameter "sku"`},
		"TwoMistakesFirst":     {registered("SELECT a, :sku") + "  - {name: two, lock: x, sql: SELECT b}\n", `statement "one": on line 18, column "a" does not exist`},
		"TwoMistakesSecond":    {registered("SELECT a, :sku") + "  - {name: two, lock: x, sql: SELECT b}\n", `gateway.yaml:19: statement "two": on line 19, column "b" does not exist`},
		"ASmallFenceColumn":    {"    fence_column: quantity\n", `fence_column: column "quantity" is integer; only bigint`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := configFor(t, db.URL, devstack.ShopTables+c.more)
			out, code := gateway(t, "serve", "--config", path)
			if out = strings.ReplaceAll(out, path, "gateway.yaml"); code != 1 || !strings.Contains(out, c.says) {
				t.Errorf("exit code %d, expected 1 and %q: %s", code, c.says, out)
			}
		})
	}
}

func TestServeStartsWithStatementsAndFunctionsThatAreRight(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	db.Exec(t, devstack.Shop+routines)
	testenv.StartGateway(t, testenv.GatewayOptions{Database: db, Config: registered("UPDATE shop.inventory SET description = 'a:b'\n WHERE sku = :sku RETURNING 1;") +
		"functions: [{name: shop.take, lock: 'inventory:{p_sku}'}]\n"})
}
