package proxy_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/testenv"
)

// blocked is a gateway with few connections and an open transaction of somebody
// else's on row SKU-1, which every write to it waits for.
func blocked(t *testing.T, timeouts, requests string) (*testenv.Gateway, pgx.Tx) {
	db := testenv.Shop(t)
	g := testenv.StartGateway(t, testenv.GatewayOptions{Database: db, Config: fmt.Sprintf(
		"database: {url: '%s', pool_size: 3, %s}\nlimits: {request_timeout: %s}\n", db.URL, timeouts, requests)})
	tx, err := db.Pool(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback(t.Context()) })
	if _, err := tx.Exec(t.Context(), `SELECT FROM shop.inventory WHERE sku = 'SKU-1' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	return g, tx
}

func TestWritesUnderOneKeyLeaveConnectionsToOthers(t *testing.T) {
	t.Parallel()
	g, tx := blocked(t, "lock_timeout: 30s, statement_timeout: 40s", "60s")
	busy, free := g.Acquire(t, "inventory:SKU-1", 120_000), g.Acquire(t, "inventory:SKU-2", 120_000)
	var crowd sync.WaitGroup
	for range 30 {
		crowd.Go(func() {
			q := testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1", Header: busy.Header(), Body: `{"available":1}`}
			if answer, err := g.Try(t, t.Context(), q); err != nil || answer.Status != http.StatusNoContent {
				t.Errorf("%d %s, %v", answer.Status, answer.Body, err)
			}
		})
	}
	const waiting = `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'fencegate' AND datname = current_database() AND wait_event_type = 'Lock'`
	pool := g.Database.Pool(t)
	for scalar[int](t, pool, waiting) < 2 {
	}
	for range 20 {
		if answer := g.Patch(t, free, "inventory?sku=eq.SKU-2", `{"available":1}`); answer.Status != http.StatusNoContent {
			t.Errorf("under another key: %d %s", answer.Status, answer.Body)
		}
	}
	if n := scalar[int](t, pool, waiting); n != 2 {
		t.Errorf("%d connections wait, not 2", n)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	crowd.Wait()
}

func TestAWriteThatHasNoTurnInTimeIsNotApplied(t *testing.T) {
	t.Parallel()
	g, tx := blocked(t, "lock_timeout: 1400ms, statement_timeout: 2500ms", "3s")
	l := g.Acquire(t, "inventory:SKU-1", 120_000)
	slugs := make(chan string, 6)
	for range cap(slugs) {
		go func() {
			q := testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1", Header: l.Header(), Body: `{"available":77}`}
			answer, err := g.Try(t, t.Context(), q)
			if err != nil || answer.Status != http.StatusServiceUnavailable {
				t.Errorf("%d %s, %v", answer.Status, answer.Body, err)
			}
			slugs <- answer.Problem(t).Slug()
		}()
	}
	got := map[string]int{}
	for range cap(slugs) {
		got[<-slugs]++
	}
	if got["overloaded"] == 0 || got["row_locked"] < 2 || got["overloaded"]+got["row_locked"] != cap(slugs) {
		t.Errorf("%v: two reach the row, the others have no turn", got)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if answer := g.Patch(t, l, "inventory?sku=eq.SKU-1&available=neq.77", `{"available":5}`); answer.Status != http.StatusNoContent {
		t.Errorf("%d %s", answer.Status, answer.Body)
	}
}
