package proxy_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

// Each of those acquires waits for its key's mark, as for a slow write in flight.
func TestARenewalDoesNotWaitForGrantsOfOtherKeys(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: shortLeases})
	const crowd = 24
	key := func(n int) string { return fmt.Sprintf("slow:%d", n) }
	for n := range crowd {
		g.Acquire(t, key(n), 100)
	}
	for n := range crowd {
		awaitExpiry(t, g, key(n))
	}
	me := g.Acquire(t, "me", 60000)
	pool := g.Database.Pool(t)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM fencegate.marks WHERE lock_key LIKE 'slow:%' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	var acquires sync.WaitGroup
	for n := range crowd {
		acquires.Go(func() {
			g.Try(t, t.Context(), testenv.Request{Method: http.MethodPost, Path: "/v1/leases", Body: fmt.Sprintf(`{"key":%q,"ttl_ms":60000}`, key(n))})
		})
	}
	for scalar[int](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) < 8 {
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	answer, err := g.Try(t, ctx, testenv.Request{Method: http.MethodPost, Path: "/v1/leases/renew", Body: me.Claim()})
	if err != nil || answer.Status != http.StatusOK {
		t.Errorf("%d %s, %v", answer.Status, answer.Body, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	acquires.Wait()
}
