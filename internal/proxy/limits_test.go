package proxy_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestReadersDoNotStarveAHolder(t *testing.T) {
	t.Parallel()
	g := startOn(t, `CREATE TABLE shop.shut (id integer)`, devstack.ShopTables+"  - {name: shop.shut, lock: shut}\n",
		"limits: {max_in_flight: 16}\n")
	l := g.Acquire(t, "inventory:SKU-1", 60_000)
	old := g.Acquire(t, "inventory:SKU-2", 60_000)
	g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/v1/leases/release", Body: old.Claim()})
	pool := g.Database.Pool(t)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `LOCK TABLE shop.shut IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	for range 40 {
		readers.Go(func() { g.Try(t, t.Context(), testenv.Request{Path: "/rest/shut"}) })
	}
	for waiting := 0; waiting < 8; {
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE relation = 'shop.shut'::regclass AND NOT granted`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	// Now every connection for reads, and every slot, is taken.
	if answer := g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/v1/leases/renew", Body: l.Claim()}); answer.Status != http.StatusOK {
		t.Errorf("renew: %d %s", answer.Status, answer.Body)
	}
	if answer := g.Patch(t, l, "inventory?sku=eq.SKU-1", `{"available":1}`); answer.Status != http.StatusNoContent {
		t.Errorf("write: %d %s", answer.Status, answer.Body)
	}
	p := g.Patch(t, old, "inventory?sku=eq.SKU-2", `{"available":1}`).Problem(t)
	if p.Slug() != "lease_released" || p.AuditID == "" || p.AuditFailed {
		t.Errorf("late write: %+v", p)
	}
	if answer := g.TryAcquire(t, "inventory:SKU-2", 0); answer.Status != http.StatusCreated {
		t.Errorf("acquire: %d %s", answer.Status, answer.Body)
	}
	if waiting := tx.Rollback(t.Context()); waiting != nil {
		t.Fatal(waiting)
	}
	readers.Wait()
}

func TestSlowSendersHoldNoSlot(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: "limits: {max_in_flight: 2}\n"})
	for range 10 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(g.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /v1/leases HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	}
	began := time.Now()
	l := g.Acquire(t, "inventory:SKU-1", 60_000)
	if answer := g.Patch(t, l, "inventory?sku=eq.SKU-1", `{"available":1}`); answer.Status != http.StatusNoContent {
		t.Errorf("%d %s", answer.Status, answer.Body)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestAnswerTooLarge(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: "limits: {max_answer_bytes: 1KiB}\n"})
	l := g.Acquire(t, "inventory:SKU-1", 60_000)
	w := watch(t, g)
	long := `{"description":"` + strings.Repeat("x", 1000) + `"}`
	w.refused(t, g, testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1",
		Header: with(l, "Prefer", "return=representation"), Body: long}, want{status: 413, slug: "answer_too_large"})
	if answer := g.Patch(t, l, "inventory?sku=eq.SKU-1", long); answer.Status != http.StatusNoContent {
		t.Fatalf("%d %s", answer.Status, answer.Body)
	}
	mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/inventory"}), want{status: 413, slug: "answer_too_large"})
	if answer := g.Do(t, testenv.Request{Path: "/rest/inventory?select=sku"}); answer.Status != http.StatusOK {
		t.Errorf("%d %s", answer.Status, answer.Body)
	}
}

func TestOrderIsBounded(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	for _, order := range []string{"sku,sku.desc", "sku," + strings.Repeat("nosuch,", 40)} {
		mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/inventory?order=" + order}),
			want{status: 400, slug: "malformed_query", parameter: "order"})
	}
}

func TestADatabaseThatIsNotUTF8KeepsItsText(t *testing.T) {
	t.Parallel()
	server := testenv.OwnPostgres(t)
	g := testenv.StartGateway(t, testenv.GatewayOptions{
		Database: testenv.LatinDatabase(t, server, devstack.Shop),
	})
	l := g.Acquire(t, "base64:aW52ZW50b3J5OkvDpHNl", 60_000) // inventory:Käse
	answer := g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/rest/inventory?select=sku,description",
		Header: with(l, "Prefer", "return=representation"), Body: `{"sku":"Käse","description":"Zürich"}`})
	if answer.Status != http.StatusCreated || answer.Body != `[{"sku":"Käse","description":"Zürich"}]` {
		t.Fatalf("%d %s", answer.Status, answer.Body)
	}
	var characters int
	if err := g.Database.Pool(t).QueryRow(t.Context(), `SELECT length(description) FROM shop.inventory WHERE sku LIKE 'K_se'`).Scan(&characters); err != nil || characters != 6 {
		t.Errorf("%d characters are stored, %v", characters, err)
	}
	mustRefuse(t, g.Patch(t, l, "inventory?sku=eq.K%C3%A4se", `{"description":"日本"}`), want{status: 422, slug: "invalid_value"})
}

func TestOnlyLoopbackNamesAreAnswered(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	for host, status := range map[string]int{
		"localhost": 200, "localhost:8080": 200, "127.0.0.1": 200, "127.9.9.9:1": 200, "[::1]:8080": 200, "[::1]": 200,
		"evil.example": 421, "localhost.evil.example": 421, "10.0.0.1:8080": 421, "[fe80::1]": 421,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.URL+"/v1/marks", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("Host %q: %d, expected %d", host, resp.StatusCode, status)
		}
	}
}
