package guard_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
)

const routines = `statements:
  - {name: take, lock: "inventory:{sku}", params: {sku: text}, sql: "UPDATE shop.inventory SET available = available - 1 WHERE sku = :sku RETURNING available"}
  - {name: take_all, lock: "inventory:{sku}", params: {sku: text}, sql: "UPDATE shop.inventory SET available = available - 1 WHERE :sku <> '' RETURNING available"}
`

func TestTheGatewaysWritesPassEveryGuard(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	db.Exec(t, devstack.Shop)
	p := &place{Database: db}
	p.protect(t, "inventory", "inventory:{sku}", false)
	p.protect(t, "orders", "order:{order_no}", false)
	g := testenv.StartGateway(t, testenv.GatewayOptions{Database: db, Config: routines})
	l := g.Acquire(t, "inventory:SKU-1", 60_000)
	order := g.Acquire(t, "order:2026-0001", 60_000)
	locks := `"locks":[{"key":"` + l.Key + `","holder":"` + l.Holder + `","token":"` + l.Token + `"},{"key":"` + order.Key + `","holder":"` + order.Holder + `","token":"` + order.Token + `"}]`
	for _, r := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"PATCH", "/rest/inventory?sku=eq.SKU-1", `{"available":5}`, 204, ""},
		{"DELETE", "/rest/inventory?sku=eq.SKU-1", "", 204, ""},
		{"POST", "/rest/inventory", `{"sku":"SKU-1","available":5}`, 201, ""},
		{"POST", "/rest/rpc/take", `{"sku":"SKU-1"}`, 200, ""},
		{"POST", "/rest/rpc/take_all", `{"sku":"SKU-1"}`, 403, "unfenced_write"},
		{"POST", "/v1/transactions", `{` + locks + `,"operations":[{"op":"update","table":"inventory","where":{"sku":"eq.SKU-1"},"set":{"available":3}},{"op":"update","table":"orders","where":{"order_no":"eq.2026-0001"},"set":{"paid":true}}]}`, 200, ""},
	} {
		header := l.Header()
		if strings.HasPrefix(r.path, "/v1") {
			header = http.Header{}
		}
		answer := g.Do(t, testenv.Request{Method: r.method, Path: r.path, Header: header, Body: r.body})
		if answer.Status != r.status || !strings.Contains(string(answer.Body), r.code) {
			t.Errorf("%s %s: %d %s", r.method, r.path, answer.Status, answer.Body)
		}
	}
	if got := p.look(t, `SELECT available || ' ' || paid FROM shop.inventory, shop.orders WHERE sku = 'SKU-1'`); got != "3 true" {
		t.Error(got)
	}
}

// A gateway that observes does not make a guard that enforces let anything through.
func TestAGuardDecidesForObservedTablesByItself(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	db.Exec(t, devstack.Shop)
	g := testenv.StartGateway(t, testenv.GatewayOptions{Database: db, Tables: "tables:\n  - {name: shop.inventory, lock: \"inventory:{sku}\", mode: observe}\n"})
	p := &place{Database: db}
	old := g.Acquire(t, "inventory:SKU-1", 60_000)
	g.Release(t, old)
	held := g.Acquire(t, "inventory:SKU-2", 60_000)
	for _, observe := range []bool{false, true} {
		p.protect(t, "inventory", "inventory:{sku}", observe)
		unfenced := http.StatusForbidden
		if observe {
			unfenced = http.StatusNoContent
		}
		for name, c := range map[string]struct {
			header http.Header
			sku    string
			status int
		}{
			"WithoutALock": {nil, "SKU-1", unfenced},
			"Released":     {old.Header(), "SKU-1", unfenced},
			"OutOfScope":   {held.Header(), "SKU-1", unfenced},
			"Held":         {held.Header(), "SKU-2", http.StatusNoContent},
		} {
			answer := g.Do(t, testenv.Request{Method: "PATCH", Path: "/rest/inventory?sku=eq." + c.sku, Header: c.header, Body: `{"available":1}`})
			if answer.Status != c.status || c.status == http.StatusForbidden && !strings.Contains(string(answer.Body), "refused by its guard") {
				t.Errorf("%s, guard observes %v: %d %s", name, observe, answer.Status, answer.Body)
			}
		}
	}
	if got := p.look(t, `SELECT count(*) || ' ' || (SELECT count(*) FROM fencegate.refusals WHERE code <> 'unfenced_write') FROM fencegate.refusals WHERE code = 'unfenced_write'`); got != "3 3" {
		t.Errorf("on record are %s", got)
	}
}
