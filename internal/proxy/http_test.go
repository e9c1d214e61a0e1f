package proxy_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fencegate/fencegate"
	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestHTTP(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	l := g.Acquire(t, "inventory:SKU-1", 60000)
	w := watch(t, g)
	const row = `{"available":7}`
	patch := func(h http.Header) testenv.Request {
		return testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1", Header: h, Body: row, Broken: true}
	}

	for _, path := range []string{
		"/", "/rest", "/rest/", "/rest//inventory", "//rest/inventory", "/rest/inventory/", "/rest/inventory/1", "/REST/inventory",
		"/v1", "/v1/", "/v1/leases/", "/v1/lease", "/v2/leases", "/v1/leases/adopt", "/v1/leases/announce",
		"/v1/refusals/1/2", "/metrics", "/livez", "/debug/pprof/", "/openapi.json", "/favicon.ico",
		"/rest/../v1/leases", "/rest/%2e%2e/v1/leases", "/rest/inventory/..", "/%ff", "/%00", "/rest%2Finventory",
	} {
		t.Run("NothingIsThere"+path, func(t *testing.T) {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete} {
				w.refused(t, g, testenv.Request{Method: method, Path: path, Header: l.Header(), Body: `{}`, Broken: true},
					want{status: 404, slug: "not_found"})
			}
		})
	}

	for _, name := range []string{
		"Inventory", "INVENTORY", "inventory%20", "%20inventory", "inventory%00", "%00", "%22inventory%22", "%2569nventory", "inventory%2F", "shop.inventory",
		"%22shop%22.inventory", "pg_catalog.pg_authid", "pg_authid", "pg_class", "information_schema.tables", "marks", "refusals",
		"fencegate.marks", "..", "%2e%2e%2f", "inventory;drop", "inventory%3Bselect", "inventory,orders", "inventory'", "*", "%ff", "rpc",
		"inventory%0A", "inv%C3%A9ntory", strings.Repeat("x", 5000),
	} {
		if name == ".." || name == "%2e%2e%2f" {
			continue // not a table's place: see above
		}
		t.Run("NoSuchTable/"+name[:min(len(name), 30)], func(t *testing.T) {
			unknown := want{status: 404, slug: "unknown_table", code: "PGRST205"}
			w.refused(t, g, testenv.Request{Path: "/rest/" + name, Broken: true}, unknown)
			for _, method := range []string{http.MethodPost, http.MethodPatch, http.MethodDelete} {
				w.refused(t, g, testenv.Request{Method: method, Path: "/rest/" + name + "?sku=eq.SKU-1", Header: l.Header(), Body: row, Broken: true}, unknown)
			}
		})
	}

	t.Run("ATablesNameIsDecodedOnce", func(t *testing.T) {
		if answer := g.Do(t, testenv.Request{Path: "/rest/%69nventory?sku=eq.SKU-1"}); answer.Status != http.StatusOK {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})

	for path, allow := range map[string]string{
		"/rest/inventory":    "GET, HEAD, POST, PATCH, PUT, DELETE",
		"/rest/nope":         "GET, HEAD, POST, PATCH, PUT, DELETE",
		"/v1/transactions":   "POST",
		"/rest/rpc/now":      "GET, HEAD, POST",
		"/v1/leases":         "GET, HEAD, POST",
		"/v1/leases/renew":   "POST",
		"/v1/leases/release": "POST",
		"/v1/refusals":       "GET, HEAD",
		"/v1/refusals/1":     "GET, HEAD",
		"/v1/marks":          "GET, HEAD",
		"/openapi.yaml":      "GET, HEAD",
	} {
		t.Run("AMethodThatIsNotThereIs405"+path, func(t *testing.T) {
			for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "FOO", "get", "PROPFIND"} {
				if slices.Contains(strings.Split(allow, ", "), method) {
					continue
				}
				answer := wire(t, g, method+" "+path, "Content-Length: 0")
				known := !slices.Contains([]string{"FOO", "get", "PROPFIND"}, method)
				if got := answer.Header.Get("Allow"); answer.Status != 405 || known && got != allow {
					t.Errorf("%s: %d, Allow %q", method, answer.Status, got)
				}
				if method != "HEAD" {
					mustRefuse(t, answer, want{status: 405, slug: "method_not_allowed"})
				}
				w.unchanged(t)
			}
		})
	}

	t.Run("TheGatewayIsNoProxy", func(t *testing.T) {
		mustRefuse(t, wire(t, g, "CONNECT example.org:80"), want{status: 421, slug: "misdirected_request"})
		mustRefuse(t, wire(t, g, "GET http://example.org/"), want{status: 421, slug: "misdirected_request"})
		mustRefuse(t, wire(t, g, "GET http://localhost/"), want{status: 404, slug: "not_found"})
	})

	t.Run("NoHeaderChangesTheMethod", func(t *testing.T) {
		for _, name := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
			answer := g.Do(t, testenv.Request{Path: "/rest/inventory?sku=eq.SKU-1", Header: with(l, name, "DELETE")})
			if answer.Status != http.StatusOK {
				t.Errorf("%s: %d %s", name, answer.Status, answer.Body)
			}
			w.refused(t, g, testenv.Request{Method: http.MethodPost, Path: "/rest/inventory?sku=eq.SKU-1", Header: with(l, name, "DELETE"), Broken: true},
				want{status: 400, slug: "malformed_query"})
		}
		w.refused(t, g, testenv.Request{Method: http.MethodPost, Path: "/rest/inventory?_method=DELETE", Header: l.Header(), Body: row},
			want{status: 400, slug: "malformed_query", parameter: "_method"})
	})

	t.Run("ARequestIDIsEchoed", func(t *testing.T) {
		for _, id := range []string{"a", "6f1c2a9e-0d53-4b0e-9a39-0d6f5a1c7e11", "svc:job.7_x", strings.Repeat("x", 128)} {
			for _, header := range []string{"Request-Id", "X-Request-Id"} {
				for _, q := range []testenv.Request{{Path: "/rest/inventory"}, {Path: "/nope"}, {Path: "/v1/marks"}} {
					q.Header = http.Header{header: {id}}
					if answer := g.Do(t, q); answer.Header.Get("Request-Id") != id {
						t.Errorf("%s %s: %q came back as %q", header, q.Path, id, answer.Header.Get("Request-Id"))
					}
				}
			}
		}
	})

	t.Run("ARequestIDThatIsNotPlainIsReplaced", func(t *testing.T) {
		minted := regexp.MustCompile(`^[0-9a-f]{24}$`)
		seen := map[string]bool{}
		for _, id := range []string{"", " ", "two words", `"quoted"`, "<script>", "a,b", "é", "\xff", `{"json":1}`, "a\tb", "../..", strings.Repeat("x", 129)} {
			answer := g.Do(t, testenv.Request{Path: "/nope", Header: http.Header{"Request-Id": {id}}})
			got := mustRefuse(t, answer, want{status: 404, slug: "not_found"}).RequestID
			if !minted.MatchString(got) || seen[got] {
				t.Errorf("%q became %q", id, got)
			}
			seen[got] = true
		}
	})

	t.Run("WhatCantBeProducedIsRefusedBeforeItIsWritten", func(t *testing.T) {
		for _, accept := range []string{"text/csv", "text/html", "application/vnd.pgrst.object+json;nulls=stripped", "application/vnd.pgrst.array+json;nulls=stripped",
			"application/geo+json", "text/*", "nonsense", "application/octet-stream, text/csv", "\xff", "application/x-ndjson"} {
			p := want{status: 406, slug: "not_acceptable", code: "PGRST107", parameter: "Accept"}
			for _, prefer := range []string{"return=minimal", "return=representation"} {
				w.refused(t, g, patch(with(l, "Accept", accept, "Prefer", prefer)), p)
				w.refused(t, g, testenv.Request{Method: http.MethodPost, Path: "/rest/inventory", Header: with(l, "Accept", accept, "Prefer", prefer), Body: `{"sku":"SKU-1"}`}, p)
				w.refused(t, g, testenv.Request{Method: http.MethodDelete, Path: "/rest/inventory?sku=eq.SKU-1", Header: with(l, "Accept", accept, "Prefer", prefer)}, p)
			}
			mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/inventory", Header: http.Header{"Accept": {accept}}}), p)
			if !strings.Contains(accept, "text/csv") && accept != "application/x-ndjson" { // exports
				mustRefuse(t, g.Do(t, testenv.Request{Path: "/v1/refusals", Header: http.Header{"Accept": {accept}}}), p)
			}
		}
		for _, accept := range []string{"", "*/*", "application/json", "application/*;q=0.1", "APPLICATION/JSON; charset=utf-8", "text/csv, application/json;q=0.5"} {
			answer := g.Do(t, testenv.Request{Path: "/rest/inventory", Header: http.Header{"Accept": {accept}}})
			if answer.Status != http.StatusOK {
				t.Errorf("%q: %d %s", accept, answer.Status, answer.Body)
			}
		}
	})

	t.Run("SchemasThatAreNotConfiguredAreRefused", func(t *testing.T) {
		for _, schema := range []string{"fencegate", "pg_catalog", "public", "information_schema", "SHOP", `"shop"`, "shop,public", "\xff"} {
			p := want{status: 406, slug: "unknown_schema", code: "PGRST106", parameter: "Accept-Profile"}
			for _, table := range []string{"inventory", "marks", "pg_authid"} {
				mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/" + table, Header: http.Header{"Accept-Profile": {schema}}}), p)
			}
			p.parameter = "Content-Profile"
			w.refused(t, g, patch(with(l, "Content-Profile", schema)), p)
			w.refused(t, g, testenv.Request{Method: http.MethodPost, Path: "/rest/marks", Header: with(l, "Content-Profile", schema), Body: `{"token":1}`}, p)
			w.refused(t, g, testenv.Request{Method: http.MethodDelete, Path: "/rest/marks?lock_key=eq.x", Header: with(l, "Content-Profile", schema)}, p)
		}
		answer := g.Do(t, testenv.Request{Path: "/rest/inventory?limit=1", Header: http.Header{"Accept-Profile": {"shop"}}})
		if answer.Status != http.StatusOK {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
		w.refused(t, g, patch(with(l, "Content-Profile", "shop", "Content-Profile", "shop")), want{status: 400, slug: "malformed_query", parameter: "Content-Profile"})
	})

	t.Run("BytesThatAreNotUTF8AreNoReasonToFail", func(t *testing.T) {
		mustRefuse(t, wire(t, g, "GET /rest/inventory?\xff=eq.1"), want{status: 400, slug: "malformed_query"})
		mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/inventory", Header: http.Header{"Prefer": {"handling=strict, \xff"}}}),
			want{status: 400, slug: "invalid_preference"})
		mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/inventory", Header: http.Header{"Prefer": {"count=\xff"}}}),
			want{status: 400, slug: "invalid_preference"})
		w.refused(t, g, patch(with(l, "Content-Type", "text/\xff")), want{status: 415, slug: "unsupported_media_type"})
	})

	t.Run("HeadersThatAreTooLongAreRefused", func(t *testing.T) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, g.URL+"/rest/inventory?sku=eq.SKU-1", nil)
		if err != nil {
			t.Fatal(err)
		}
		h := l.Header()
		h.Set("Lock-Key", strings.Repeat("k", 40<<10))
		req.Header = h
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if w.unchanged(t); resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%d", resp.StatusCode)
		}
		h = l.Header()
		h.Set("Lock-Key", strings.Repeat("k", 20<<10))
		w.refused(t, g, patch(h), want{status: 400, slug: "fencing_malformed", parameter: "Lock-Key"})
	})

	t.Run("PathsThatAreNotPathsAreRefused", func(t *testing.T) {
		for _, path := range []string{"/rest/%zz", "/rest/%", "/rest/%6", "/rest/\x7f"} {
			if answer := wire(t, g, "GET "+path); answer.Status != http.StatusBadRequest {
				t.Errorf("%q: %d %s", path, answer.Status, answer.Body)
			}
		}
	})

	t.Run("TheContractIsServed", func(t *testing.T) {
		answer := g.Do(t, testenv.Request{Path: "/openapi.yaml"})
		if answer.Status != http.StatusOK || answer.Body != string(fencegate.Contract) {
			t.Errorf("%d, %d bytes", answer.Status, len(answer.Body))
		}
	})
}

func TestOperations(t *testing.T) {
	t.Parallel()
	const tables = `tables:
  - {name: shop.inventory, lock: "inventory:{sku}", operations: [select]}
  - {name: shop.orders, lock: "order:{order_no}", operations: [insert, update]}
`
	g := testenv.StartGateway(t, testenv.GatewayOptions{Tables: tables})
	l := g.Acquire(t, "inventory:SKU-1", 60000)
	w := watch(t, g)
	denied := want{status: 403, slug: "forbidden", code: "42501"}
	for _, q := range []testenv.Request{
		{Method: http.MethodPost, Path: "/rest/inventory", Body: `{"sku":"SKU-1"}`},
		{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1", Body: `{"available":1}`},
		{Method: http.MethodDelete, Path: "/rest/inventory?sku=eq.SKU-1"},
		{Method: http.MethodDelete, Path: "/rest/orders?order_no=eq.2026-0001"},
		{Method: http.MethodGet, Path: "/rest/orders"},
	} {
		t.Run("WhatIsNotConfiguredIsDenied/"+q.Method+q.Path, func(t *testing.T) {
			q.Header = l.Header()
			w.refused(t, g, q, denied)
		})
	}
	t.Run("WhatIsNotATableIsNotThere", func(t *testing.T) {
		mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/order_lines"}), want{status: 404, slug: "unknown_table"})
	})
	t.Run("WhatIsConfiguredWorks", func(t *testing.T) {
		if answer := g.Do(t, testenv.Request{Path: "/rest/inventory"}); answer.Status != http.StatusOK {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	const sql = `CREATE SCHEMA other; CREATE TABLE other.inventory (sku text PRIMARY KEY, available integer);
		INSERT INTO other.inventory VALUES ('SKU-1', 100)`
	tables := devstack.ShopTables + "  - {name: other.inventory, lock: \"other:{sku}\"}\n"
	g := startOn(t, sql, tables, "")
	shop, other := g.Acquire(t, "inventory:SKU-1", 60000), g.Acquire(t, "other:SKU-1", 60000)
	read := func(schema string) string {
		return g.Do(t, testenv.Request{Path: "/rest/inventory?select=available&sku=eq.SKU-1", Header: http.Header{"Accept-Profile": {schema}}}).Body
	}
	patch := func(l testenv.Lease, schema string) testenv.Response {
		return g.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1", Header: with(l, "Content-Profile", schema), Body: `{"available":55}`})
	}

	t.Run("AProfileChoosesTheSchema", func(t *testing.T) {
		if got := read("shop") + read("other") + read(""); got != `[{"available":10}][{"available":100}][{"available":10}]` {
			t.Error(got)
		}
	})
	t.Run("EachTableHasItsOwnLock", func(t *testing.T) {
		mustRefuse(t, patch(shop, "other"), want{status: 403, slug: "lock_scope"})
		mustRefuse(t, patch(other, "shop"), want{status: 403, slug: "lock_scope"})
		mustRefuse(t, patch(other, ""), want{status: 403, slug: "lock_scope"})
		if answer := patch(other, "other"); answer.Status != http.StatusNoContent {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
		if got := read("shop") + read("other"); got != `[{"available":10}][{"available":55}]` {
			t.Error(got)
		}
	})
}
