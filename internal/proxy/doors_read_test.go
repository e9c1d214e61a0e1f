package proxy_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/testenv"
)

// Whatever of this is called writes: a function of a row can be named like a
// column, and a view can call what it likes.
const leaksSQL = `
CREATE TABLE shop.leaked (at timestamptz DEFAULT now());
CREATE SEQUENCE shop.counter;
CREATE FUNCTION shop.leak() RETURNS integer LANGUAGE sql VOLATILE AS $$ INSERT INTO shop.leaked DEFAULT VALUES; SELECT 1 $$;
CREATE FUNCTION shop.leak(shop.stock) RETURNS integer LANGUAGE sql VOLATILE AS $$ SELECT shop.leak() $$;
CREATE FUNCTION shop.leak(text) RETURNS integer LANGUAGE sql VOLATILE AS $$ SELECT shop.leak() $$;
CREATE DOMAIN shop.leaking AS text CHECK (shop.leak(VALUE) = 1);
CREATE VIEW shop.leaky AS SELECT 'live' AS sku, shop.leak() AS n;
CREATE VIEW shop.counting AS SELECT 'live' AS sku, nextval('shop.counter') AS n;
`

const leaksTables = `  - {name: shop.leaky, lock: "leaky:{sku}", operations: [select]}
  - {name: shop.counting, lock: "leaky:{sku}", operations: [select]}
`

// readings are requests of every route that reads.
func readings() map[string][]string {
	rows := []string{"stock", "stock?sku=eq.live", "stock?select=n&order=n&limit=1&offset=1", "leaky", "leaky?n=eq.1", "counting", "leaked"}
	for _, called := range []string{
		"leak", "leak(sku)", "leak()", "shop.leak", "n.leak", "sku.leak", "sku->leak", "shop.leak(sku)", "leak(stock)", "stock.leak", "stock", "t", "t.*",
		"n::leaking", "n::shop.leaking", "sku::leaking", "n::regclass::leaking", "nextval('shop.counter')", "(SELECT leak())", "n,leak()", `"leak"(sku)`, "x:leak",
		"n;SELECT leak()", "n,(INSERT INTO leaked DEFAULT VALUES)", "set_config('transaction_read_only','off',true)", "lo_create(0)", "ctid", "tableoid", "xmin",
	} {
		value := url.QueryEscape(called)
		rows = append(rows, "stock?select="+value, "stock?order="+value, "stock?"+value+"=eq.1", "stock?or=("+value+".eq.1)", "stock?sku=eq."+value,
			"stock?n=eq(any).{"+value+"}", "stock?sku=fts("+value+").x", "stock?limit="+value, "stock?columns="+value, "stock?on_conflict="+value, value)
	}
	table := make([]string, len(rows))
	for i, row := range rows {
		table[i] = "/rest/" + row
	}
	calls := []string{"raise?sku=live", "lift?sku=live", "lift_all?sku=live", "hidden?sku=live", "leak", "stock?sku=live", "raise?sku=live&order=n", "count_all?sku=live"}
	for i, call := range calls {
		calls[i] = "/rest/rpc/" + call
	}
	paths := map[string][]string{
		"/rest/rpc/{name}":    calls,
		"/rest/{table}":       table,
		"/v1/leases":          {"/v1/leases?key=stock:live", "/v1/leases?key=stock:never", "/v1/leases", "/v1/leases?prefix=stock:&limit=1&cursor=a"},
		"/v1/refusals":        {"/v1/refusals", "/v1/refusals?key=stock:live&limit=1", "/v1/refusals?code='", "/v1/refusals?disposition=admitted", "/v1/refusals?disposition='"},
		"/v1/refusals/report": {"/v1/refusals/report", "/v1/refusals/report?since=2000-01-01T00:00:00Z", "/v1/refusals/report?since=x"},
		"/v1/refusals/{id}":   {"/v1/refusals/1", "/v1/refusals/2", "/v1/refusals/x"},
		"/v1/grants":          {"/v1/grants?key=stock:live", "/v1/grants?key='", "/v1/grants"},
		"/v1/marks":           {"/v1/marks", "/v1/marks?prefix=stock:", "/v1/marks?cursor='"},
		"/openapi.yaml":       {"/openapi.yaml"},
	}
	readings := map[string][]string{
		"HEAD /v1/refusals/stream": {"/v1/refusals/stream"},
		"GET /v1/refusals/stream":  {"/v1/refusals/stream?key=,"}, // others don't end: TestRefusalsAreFollowedAsTheyCome
	}
	for path, requests := range paths {
		readings["GET "+path], readings["HEAD "+path] = requests, requests
	}
	return readings
}

func TestReadingChangesNothing(t *testing.T) {
	t.Parallel()
	g := startAbove(t, doorsSQL+leaksSQL, doorsTables+leaksTables+doorsRoutines, "")
	l := g.Acquire(t, "stock:live", 300_000)
	other := door{route: deleteRows, query: theRow}
	if answer := g.Do(t, other.ask("stock", "there", "", l)); answer.Status != http.StatusForbidden {
		t.Fatalf("%d %s", answer.Status, answer.Body) // there is a record to read
	}
	pool := g.Database.Pool(t)
	before := everything(t, pool)
	var requests []testenv.Request
	for route, paths := range readings() {
		method, _, _ := strings.Cut(route, " ")
		for _, path := range paths {
			// With all that a write would need, it still is a read.
			requests = append(requests, testenv.Request{Method: method, Path: path, Header: with(l, "Idempotency-Key", "read"), Broken: true})
		}
	}
	atOnce(t, g, requests, func(q testenv.Request, answer testenv.Response) {
		if answer.Status >= 500 {
			t.Errorf("%s %s: %d %s", q.Method, q.Path, answer.Status, answer.Body)
		}
	})
	wouldWrite := want{status: 422, slug: "not_possible_here", code: "25006"}
	mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/leaky"}), wouldWrite)
	mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/counting"}), wouldWrite)
	mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/rpc/raise?sku=live"}), want{status: 405, slug: "routine_writes"})
	if answer := g.Do(t, testenv.Request{Path: "/rest/rpc/count_all?sku=live"}); answer.Status != 200 {
		t.Errorf("%d %s", answer.Status, answer.Body)
	}
	if now := everything(t, pool); now != before {
		t.Errorf("something was written:\n%s\nnot\n%s", now, before)
	}
	exec(t, g, `SELECT n FROM shop.leaky`)
	if everything(t, pool) == before {
		t.Error("what writes is not noticed")
	}
}

// everything is what the tables and sequences of the shop and of the gateway
// hold.
func everything(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	return scalar[string](t, pool, `
		SELECT string_agg(format('%s: %s', c.oid::regclass, query_to_xml(format('SELECT (x.*)::text AS row FROM (SELECT * FROM %s) AS x ORDER BY 1', c.oid::regclass), true, true, '')),
		                  '' ORDER BY c.oid)
		  FROM pg_class AS c
		 WHERE relnamespace IN ('shop'::regnamespace, 'fencegate'::regnamespace)
		   AND relkind IN ('r', 'p', 'S')`)
}
