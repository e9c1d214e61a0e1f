package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
)

const routinesSQL = `
CREATE FUNCTION shop.take_stock(p_sku text, p_qty integer DEFAULT 1) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    n integer;
BEGIN
    SELECT available - p_qty INTO n FROM shop.inventory WHERE sku = p_sku;
    IF n < 0 THEN RAISE SQLSTATE 'PT409' USING MESSAGE = 'sold out', HINT = 'wait'; END IF;
    UPDATE shop.inventory SET available = n WHERE sku = p_sku;
    RETURN n;
END $$;
UPDATE shop.inventory SET available = 7 WHERE sku = 'SKU-1';
CREATE FUNCTION shop.skus_of(p_sku text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT sku FROM shop.inventory WHERE sku = p_sku $$;
CREATE FUNCTION shop.row_of(p_sku text) RETURNS shop.inventory LANGUAGE sql AS $$ SELECT * FROM shop.inventory WHERE sku = p_sku $$;
CREATE FUNCTION shop.touch(p_sku text) RETURNS void LANGUAGE sql AS $$ UPDATE shop.inventory SET description = 'TOUCHED' WHERE sku = p_sku $$;
CREATE FUNCTION shop.nothing(p_sku text) RETURNS integer LANGUAGE sql AS $$ SELECT NULL::integer $$;
CREATE FUNCTION shop.counted(p_sku text) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN nextval('shop.calls'); END $$;
CREATE FUNCTION shop.raise_status(p_sku text, p_state text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'as told' USING ERRCODE = p_state; END $$;
`

const routinesConfig = `statements:
  - name: decrement_stock
    sql: |
      UPDATE shop.inventory SET available = available - :qty
       WHERE sku = :sku AND available >= :qty
      RETURNING sku, available
    params: {sku: text, qty: integer}
    lock: "inventory:{sku}"
    expect_rows: 1
  - name: tags
    sql: SELECT :sku AS sku, :tags AS tags, :raw AS raw, :doc AS doc
    params: {sku: text, tags: "text[]", raw: bytea, doc: jsonb}
    lock: "inventory:{sku}"
functions:
  - {name: shop.take_stock, lock: "inventory:{p_sku}"}
  - {name: shop.skus_of, lock: "inventory:{p_sku}"}
  - {name: shop.row_of, lock: "inventory:{p_sku}"}
  - {name: shop.touch, lock: "inventory:{p_sku}"}
  - {name: shop.nothing, lock: "inventory:{p_sku}"}
  - {name: shop.counted, lock: "inventory:{p_sku}"}
  - {name: shop.raise_status, lock: "inventory:{p_sku}"}
`

func startRoutines(t *testing.T) *testenv.Gateway {
	t.Helper()
	return startAbove(t, routinesSQL, devstack.ShopTables+routinesConfig, "")
}

func TestCalls(t *testing.T) {
	t.Parallel()
	g := startRoutines(t)
	l := g.Acquire(t, "inventory:SKU-1", 60000)
	call := func(name, body string, more ...string) testenv.Request {
		return testenv.Request{Method: http.MethodPost, Path: "/rest/rpc/" + name, Header: with(l, more...), Body: body, Broken: !strings.HasPrefix(body, "{")}
	}
	w := watch(t, g)

	for name, c := range map[string]struct {
		request testenv.Request
		want    want
	}{
		"TooFewRows":              {call("decrement_stock", `{"sku":"SKU-1","qty":1000}`), want{status: 409, slug: "too_few_rows", code: "FG008"}},
		"AnotherKey":              {call("decrement_stock", `{"sku":"SKU-2","qty":1}`), want{status: 403, slug: "lock_scope"}},
		"AnotherKeyOfAFunction":   {call("take_stock", `{"p_sku":"SKU-2"}`), want{status: 403, slug: "lock_scope"}},
		"NoKey":                   {call("decrement_stock", `{"sku":null,"qty":1}`), want{status: 403, slug: "lock_scope"}},
		"AMissingParameter":       {call("decrement_stock", `{"sku":"SKU-1"}`), want{status: 404, slug: "missing_parameter", code: "PGRST202", column: "qty"}},
		"AnUnknownParameter":      {call("decrement_stock", `{"sku":"SKU-1","qty":1,"x":1}`), want{status: 404, slug: "unknown_parameter", code: "PGRST202", column: "x"}},
		"AParameterInAnotherCase": {call("take_stock", `{"P_SKU":"SKU-1"}`), want{status: 404, slug: "unknown_parameter"}},
		"AParameterTwice":         {call("take_stock", `{"p_sku":"SKU-1","p_sku":"SKU-2"}`), want{status: 400, slug: "malformed_json"}},
		"AWrongType":              {call("decrement_stock", `{"sku":"SKU-1","qty":"many"}`), want{status: 422, slug: "invalid_value", code: "22P02"}},
		"TooLargeForTheType":      {call("decrement_stock", `{"sku":"SKU-1","qty":2147483648}`), want{status: 422, slug: "invalid_value"}},
		"SQLInAParameter":         {call("decrement_stock", `{"sku":"SKU-1' OR true --","qty":1}`), want{status: 403, slug: "lock_scope"}},
		"AnArray":                 {call("take_stock", `[{"p_sku":"SKU-1"}]`), want{status: 400, slug: "malformed_json"}},
		"NoBody":                  {call("take_stock", ``), want{status: 400, slug: "malformed_json"}},
		"AFilter":                 {call("take_stock?p_sku=eq.SKU-1", `{"p_sku":"SKU-1"}`), want{status: 400, slug: "malformed_query"}},
		"AnUnknownRoutine":        {call("nope", `{}`), want{status: 404, slug: "unknown_routine", code: "PGRST202"}},
		"AFunctionNotExposed":     {call("pg_sleep", `{"seconds":1}`), want{status: 404, slug: "unknown_routine"}},
		"AnotherSchema":           {call("take_stock", `{"p_sku":"SKU-1"}`, "Content-Profile", "pg_catalog"), want{status: 406, slug: "unknown_schema"}},
		"AStatusOfItsOwn":         {call("take_stock", `{"p_sku":"SKU-1","p_qty":1000}`), want{status: 409, slug: "raised_by_database", code: "PT409"}},
		"ARaisedError":            {call("raise_status", `{"p_sku":"SKU-1","p_state":"P0001"}`), want{status: 422, slug: "raised_by_database", code: "P0001"}},
		"The412IsTheFences":       {call("raise_status", `{"p_sku":"SKU-1","p_state":"PT412"}`), want{status: 422, slug: "raised_by_database", code: "PT412"}},
		"NoStatusAtAll":           {call("raise_status", `{"p_sku":"SKU-1","p_state":"PT200"}`), want{status: 422, slug: "raised_by_database"}},
		"AStateOfItsOwn":          {call("raise_status", `{"p_sku":"SKU-1","p_state":"45000"}`), want{status: 422, slug: "raised_by_database", code: "45000"}},
		"AForgedRefusal":          {call("raise_status", `{"p_sku":"SKU-1","p_state":"FG001"}`), want{status: 500, slug: "internal"}},
		"AForgedTrial":            {call("raise_status", `{"p_sku":"SKU-1","p_state":"FG009"}`), want{status: 500, slug: "internal"}},
	} {
		t.Run(name, func(t *testing.T) { w.refused(t, g, c.request, c.want) })
	}

	t.Run("UnderAnotherKeyItDoesNotEvenBegin", func(t *testing.T) {
		exec(t, g, `CREATE SEQUENCE shop.calls`)
		mustRefuse(t, g.Do(t, call("counted", `{"p_sku":"SKU-2"}`)), want{status: 403, slug: "lock_scope"})
		if called := scalar[bool](t, w.pool, `SELECT is_called FROM shop.calls`); called {
			t.Error("it was run before its key was compared")
		}
		if answer := g.Do(t, call("counted", `{"p_sku":"SKU-1"}`)); answer.Status != 200 || !scalar[bool](t, w.pool, `SELECT is_called FROM shop.calls`) {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})

	t.Run("NoLockIs428", func(t *testing.T) {
		w.refused(t, g, testenv.Request{Method: http.MethodPost, Path: "/rest/rpc/take_stock", Body: `{"p_sku":"SKU-1"}`}, want{status: 428, slug: "fencing_required"})
	})

	t.Run("ALateCallerIsRefusedAndRecorded", func(t *testing.T) {
		old := g.Acquire(t, "inventory:SKU-3", 60000)
		g.Release(t, old)
		for name, body := range map[string]string{"decrement_stock": `{"sku":"SKU-3","qty":1}`, "take_stock": `{"p_sku":"SKU-3"}`} {
			p := w.refused(t, g, testenv.Request{Method: http.MethodPost, Path: "/rest/rpc/" + name, Header: old.Header(), Body: body}, want{status: 412, slug: "lease_released"})
			record := g.Do(t, testenv.Request{Path: "/v1/refusals/" + p.AuditID})
			if !strings.Contains(record.Body, `"operation":"call"`) || !strings.Contains(record.Body, name) {
				t.Errorf("%s", record.Body)
			}
		}
	})

	t.Run("ATrialIsTakenBack", func(t *testing.T) {
		if answer := g.Do(t, call("take_stock", `{"p_sku":"SKU-1"}`, "Prefer", "tx=rollback")); answer.Status != 200 || answer.Body != "6" {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
		w.unchanged(t)
	})

	for _, c := range []struct {
		name, body, accept string
		status             int
		want               string
	}{
		{"decrement_stock", `{"sku":"SKU-1","qty":2}`, "", 200, `[{"sku":"SKU-1","available":5}]`},
		{"decrement_stock", `{"sku":"SKU-1","qty":1}`, object, 200, `{"sku":"SKU-1","available":4}`},
		{"tags", `{"sku":"SKU-1","tags":["a","b,c",null],"raw":"base64:AP8=","doc":{"n":12345678901234567890.10}}`, "", 200,
			`[{"sku":"SKU-1","tags":["a","b,c",null],"raw":"\\x00ff","doc":{"n": 12345678901234567890.10}}]`},
		{"tags", `{"sku":"SKU-1","tags":null,"raw":null,"doc":null}`, "", 200, `[{"sku":"SKU-1","tags":null,"raw":null,"doc":null}]`},
		{"take_stock", `{"p_sku":"SKU-1"}`, "", 200, `3`},
		{"take_stock", `{"p_qty":2,"p_sku":"SKU-1"}`, "", 200, `1`},
		{"skus_of", `{"p_sku":"SKU-1"}`, "", 200, `["SKU-1"]`},
		{"nothing", `{"p_sku":"SKU-1"}`, "", 200, `null`},
		{"touch", `{"p_sku":"SKU-1"}`, "", 204, ``},
	} {
		t.Run("Answers/"+c.name+c.body, func(t *testing.T) {
			h := l.Header()
			if c.accept != "" {
				h.Set("Accept", c.accept)
			}
			answer := g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/rest/rpc/" + c.name, Header: h, Body: c.body})
			if answer.Status != c.status || answer.Body != c.want || answer.Header.Get("Fencing-Token") != l.Token {
				t.Errorf("%d %v %s", answer.Status, answer.Header, answer.Body)
			}
		})
	}

	t.Run("ARowIsAnObject", func(t *testing.T) {
		answer := g.Do(t, call("row_of", `{"p_sku":"SKU-1"}`))
		if answer.Status != 200 || !strings.HasPrefix(answer.Body, `{"sku":"SKU-1"`) || !strings.Contains(answer.Body, `"TOUCHED"`) {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})

	t.Run("WhatOnlyReadsNeedsNoLock", func(t *testing.T) {
		w := watch(t, g)
		for path, want := range map[string]string{
			"skus_of?p_sku=SKU-2": `["SKU-2"]`, "nothing?p_sku=x": `null`,
			"tags?sku=a%20b&tags={x,y}&raw=%5Cx00&doc={}": `[{"sku":"a b","tags":["x","y"],"raw":"\\x00","doc":{}}]`,
		} {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				answer := g.Do(t, testenv.Request{Method: method, Path: "/rest/rpc/" + path})
				if method == http.MethodHead {
					want = ""
				}
				if answer.Status != 200 || answer.Body != want || answer.Header.Get("Content-Range") != "0-0/*" {
					t.Errorf("%s %s: %d %v %s", method, path, answer.Status, answer.Header, answer.Body)
				}
			}
		}
		get := func(path string) testenv.Response {
			return g.Do(t, testenv.Request{Path: "/rest/rpc/" + path, Broken: true})
		}
		mustRefuse(t, get("take_stock?p_sku=SKU-1"), want{status: 405, slug: "routine_writes", code: "25006"})
		mustRefuse(t, get("decrement_stock?sku=SKU-1&qty=1"), want{status: 405, slug: "routine_writes"})
		mustRefuse(t, get("skus_of"), want{status: 404, slug: "missing_parameter", column: "p_sku"})
		mustRefuse(t, get("skus_of?p_sku=a&p_sku=b"), want{status: 400, slug: "malformed_query", parameter: "p_sku"})
		mustRefuse(t, get("skus_of?p_sku=a&select=x"), want{status: 404, slug: "unknown_parameter", column: "select"})
		mustRefuse(t, get("nope"), want{status: 404, slug: "unknown_routine"})
		w.unchanged(t)
	})

	t.Run("ARepeatIsAnsweredAsBefore", func(t *testing.T) {
		for attempt := range 2 {
			answer := g.Do(t, call("take_stock", `{"p_sku":"SKU-1","p_qty":-5}`, "Idempotency-Key", "refill"))
			if answer.Status != 200 || answer.Body != "6" || (answer.Header.Get("Idempotency-Replayed") == "true") != (attempt == 1) {
				t.Errorf("%d %v %s", answer.Status, answer.Header, answer.Body)
			}
		}
	})

	t.Run("PartOfATransaction", func(t *testing.T) {
		two := g.Acquire(t, "inventory:SKU-2", 60000)
		const ops = `{"op":"call","name":"decrement_stock","params":{"sku":"SKU-1","qty":1}},{"op":"call","name":"take_stock","params":{"p_sku":"SKU-2"}},
			{"op":"call","name":"touch","params":{"p_sku":"SKU-2"}},{"op":"update","table":"inventory","where":{"sku":"eq.SKU-2"},"increment":{"available":10}}`
		answer := g.Do(t, run(transaction([]testenv.Lease{l, two}, ops)))
		if answer.Status != 200 || !strings.Contains(answer.Body, `"operations":[{"affected":1,"rows":[{"sku":"SKU-1","available":5}]},{"affected":1,"rows":[3]},{"affected":1},{"affected":1}]`) {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
		w := watch(t, g)
		for op, want := range map[string]want{
			`{"op":"call","name":"decrement_stock","params":{"sku":"SKU-2","qty":100}}`:               {status: 409, slug: "too_few_rows"},
			`{"op":"call","name":"decrement_stock","params":{"sku":"SKU-3","qty":1}}`:                 {status: 403, slug: "lock_scope"},
			`{"op":"call","name":"decrement_stock","params":{"sku":"SKU-1","qty":1},"max_rows":0}`:    {status: 409, slug: "max_affected_exceeded"},
			`{"op":"call","name":"decrement_stock","params":{"sku":"SKU-1"}}`:                         {status: 404, slug: "missing_parameter", pointer: "/operations/1"},
			`{"op":"call","name":"decrement_stock"}`:                                                  {status: 404, slug: "missing_parameter"},
			`{"op":"call","name":"nope","params":{}}`:                                                 {status: 404, slug: "unknown_routine", pointer: "/operations/1/name"},
			`{"op":"call","params":{}}`:                                                               {status: 400, slug: "malformed_operation", pointer: "/operations/1/name"},
			`{"op":"call","name":"touch","table":"inventory","params":{"p_sku":"SKU-1"}}`:             {status: 400, slug: "malformed_operation", pointer: "/operations/1/table"},
			`{"op":"call","name":"touch","params":["SKU-1"]}`:                                         {status: 400, slug: "malformed_json", pointer: "/operations/1/params"},
			`{"op":"update","name":"touch","table":"inventory","where":{},"set":{"warehouse":"MUC"}}`: {status: 400, slug: "malformed_operation", pointer: "/operations/1/name"},
		} {
			w.refused(t, g, run(transaction([]testenv.Lease{l, two}, `{"op":"call","name":"touch","params":{"p_sku":"SKU-1"}},`+op)), want)
		}
	})
}
