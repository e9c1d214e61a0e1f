package interop_test

import "testing"

// callsSQL makes the functions of calls.mjs, one of each kind that PostgREST
// answers in another way.
const callsSQL = `
CREATE FUNCTION shop.shop_sum(p_shelf text, p_from integer, p_to integer) RETURNS bigint
LANGUAGE sql STABLE
RETURN (SELECT sum(quantity) FROM shop.parts WHERE shelf = p_shelf AND no BETWEEN p_from AND p_to);

CREATE FUNCTION shop.shop_list(p_shelf text, p_from integer, p_to integer) RETURNS TABLE (no integer, quantity integer)
LANGUAGE sql STABLE
BEGIN ATOMIC
  SELECT p.no, p.quantity FROM shop.parts AS p WHERE p.shelf = p_shelf AND p.no BETWEEN p_from AND p_to ORDER BY p.no;
END;

CREATE FUNCTION shop.shop_clear(p_shelf text, p_from integer, p_to integer) RETURNS void
LANGUAGE sql
BEGIN ATOMIC
  DELETE FROM shop.parts WHERE shelf = p_shelf AND no BETWEEN p_from AND p_to;
END;

CREATE FUNCTION shop.shop_fail(p_shelf text) RETURNS void
LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not today'; END $$;
`

const callsConfig = `statements:
  - name: take_parts
    sql: |
      UPDATE shop.parts
         SET quantity = quantity - :amount
       WHERE shelf = :shelf
         AND no = :no
         AND quantity > :amount
      RETURNING quantity
    params: {shelf: text, no: integer, amount: integer}
    lock: shelf:{shelf}
    expect_rows: 1
functions:
  - {name: shop.shop_sum, lock: "shelf:{p_shelf}"}
  - {name: shop.shop_list, lock: "shelf:{p_shelf}"}
  - {name: shop.shop_clear, lock: "shelf:{p_shelf}"}
  - {name: shop.shop_fail, lock: "shelf:{p_shelf}"}
`

func TestPostgrestJSCalls(t *testing.T) {
	t.Parallel()
	needClient(t)
	g := start(t, tablesSQL+callsSQL, callsConfig)
	runCases(t, "calls.mjs", environment(t, g, "calls.mjs"))
}
