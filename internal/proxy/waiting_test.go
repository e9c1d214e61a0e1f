package proxy_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

// told makes the gateway log every acquire that waits.
const told = "log: {level: debug}\n"

const itWaits = "an acquire waits"

func acquireWaiting(key string, wait time.Duration) testenv.Request {
	return testenv.Request{Method: http.MethodPost, Path: "/v1/leases", Body: fmt.Sprintf(`{"key":%q,"ttl_ms":60000,"wait_ms":%d}`, key, wait.Milliseconds())}
}

func TestAnAcquireWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: told})
	held := g.Acquire(t, "line", 60000)
	order := make(chan string, 5)
	var waiters sync.WaitGroup
	for n := range cap(order) {
		waiters.Go(func() {
			answer, err := g.Try(t, t.Context(), acquireWaiting("line", time.Minute))
			if err != nil || answer.Status != http.StatusCreated {
				t.Errorf("%d %s, %v", answer.Status, answer.Body, err)
				return
			}
			var l testenv.Lease
			answer.JSON(t, &l)
			order <- fmt.Sprint(n, " got ", l.Token)
			post(g, t, "/v1/leases/release", l.Claim())
		})
		g.AwaitLogs(t, itWaits, n+1)
	}
	post(g, t, "/v1/leases/release", held.Claim())
	waiters.Wait()
	for n := range cap(order) {
		if got, want := <-order, fmt.Sprint(n, " got ", n+2); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

func TestAReleaseAtAnotherGatewayIsHeardOf(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: told})
	other := g.Again(t)
	const rounds = 8
	began := time.Now()
	for n := range rounds {
		held := g.Acquire(t, "shared", 60000)
		var waiter sync.WaitGroup
		waiter.Go(func() {
			answer, err := other.Try(t, t.Context(), acquireWaiting("shared", time.Minute))
			if err != nil || answer.Status != http.StatusCreated {
				t.Errorf("%d %s, %v", answer.Status, answer.Body, err)
				return
			}
			var l testenv.Lease
			answer.JSON(t, &l)
			post(other, t, "/v1/leases/release", l.Claim())
		})
		other.AwaitLogs(t, itWaits, n+1)
		post(g, t, "/v1/leases/release", held.Claim())
		waiter.Wait()
	}
	// Who hears nothing looks again after a second on average, half of one at least.
	if took := time.Since(began); took > rounds*time.Second/2 {
		t.Errorf("%d rounds took %s", rounds, took)
	}
}

func TestAnAcquireMayWaitLongerThanARequest(t *testing.T) {
	t.Parallel()
	db := testenv.Shop(t)
	g := testenv.StartGateway(t, testenv.GatewayOptions{Database: db, Config: told + fmt.Sprintf(
		"database: {url: '%s', statement_timeout: 900ms, lock_timeout: 800ms}\nlimits: {request_timeout: 1s, max_in_flight: 1}\n", db.URL)})
	g.Acquire(t, "long", 3000)
	waited := make(chan testenv.Response)
	go func() {
		answer, _ := g.Try(t, t.Context(), acquireWaiting("long", time.Minute))
		waited <- answer
	}()
	g.AwaitLogs(t, itWaits, 1)
	// It has given its slot, the only one, to others.
	l := g.Acquire(t, "inventory:SKU-1", 60000)
	if answer := g.Patch(t, l, "inventory?sku=eq.SKU-1", `{"available":1}`); answer.Status != http.StatusNoContent {
		t.Errorf("%d %s", answer.Status, answer.Body)
	}
	if answer := <-waited; answer.Status != http.StatusCreated {
		t.Errorf("%d %s", answer.Status, answer.Body)
	}
}

func TestAWaitEnds(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: told})
	held := g.Acquire(t, "end", 300_000)

	t.Run("WhenItsTimeIsOver", func(t *testing.T) {
		began := time.Now()
		answer := g.Do(t, acquireWaiting("end", 300*time.Millisecond))
		mustRefuse(t, answer, want{status: 423, slug: "lock_held"})
		if took := time.Since(began); took < 300*time.Millisecond {
			t.Errorf("after %s", took)
		}
	})

	t.Run("WhenItsCallerIsGone", func(t *testing.T) {
		ctx, hangUp := context.WithCancel(t.Context())
		var gone sync.WaitGroup
		gone.Go(func() {
			if answer, err := g.Try(t, ctx, acquireWaiting("end", time.Minute)); err == nil {
				t.Errorf("%d %s", answer.Status, answer.Body)
			}
		})
		g.AwaitLogs(t, itWaits, 2)
		hangUp()
		gone.Wait()
		post(g, t, "/v1/leases/release", held.Claim())
		answer := g.Do(t, acquireWaiting("end", 30*time.Second))
		if answer.Status != http.StatusCreated || answer.Header.Get("Fencing-Token") != "2" {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})

	t.Run("WhenTheGatewayGoesDown", func(t *testing.T) {
		waits := strings.Count(g.Log(), itWaits)
		var waiter sync.WaitGroup
		waiter.Go(func() {
			answer, err := g.Try(t, t.Context(), acquireWaiting("end", time.Minute))
			if err != nil || answer.Status != http.StatusLocked {
				t.Errorf("%d %s, %v", answer.Status, answer.Body, err)
			}
		})
		g.AwaitLogs(t, itWaits, waits+1)
		g.Signal(t, syscall.SIGTERM)
		waiter.Wait()
		if code := g.Wait(); code != 0 || strings.Contains(g.Log(), "still in flight") {
			t.Errorf("exit code %d:\n%s", code, g.Log())
		}
	})
}
