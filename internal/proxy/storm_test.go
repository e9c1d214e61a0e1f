package proxy_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

const napSQL = doorsSQL + `
CREATE FUNCTION shop.nap(sku text) RETURNS integer LANGUAGE sql AS $$ SELECT 1 FROM pg_sleep(0.05) $$;
`

const napRoutines = doorsRoutines + `  - {name: shop.nap, lock: "stock:{sku}"}
`

func TestOnePrincipalsStormLeavesTheOthersTheirTurn(t *testing.T) {
	t.Parallel()
	const places, storm = 2, 40
	config := fmt.Sprintf("limits: {max_in_flight: %d}\ndatabase: {url: %%s, reload_on_notify: false, pool_size: %d}\n", 2*storm, places)
	p := startStorm(t, config)
	mine := p.as("second").Acquire(t, "stock:live", 300_000)
	var leases []testenv.Lease
	for n := range storm {
		leases = append(leases, p.as("worker").Acquire(t, fmt.Sprintf("stock:%d", n), 300_000))
	}
	// Each of the storm calls again as long as the other's writes are not done.
	var calls, met atomic.Int64
	var done atomic.Bool
	var all sync.WaitGroup
	full := make(chan struct{})
	for n, l := range leases {
		all.Go(func() {
			for first := true; first || !done.Load(); first = false {
				answer := p.as("worker").Do(t, testenv.Request{Method: "POST", Path: "/rest/rpc/nap", Header: l.Header(), Body: fmt.Sprintf(`{"sku":"%d"}`, n)})
				if answer.Status != http.StatusOK {
					t.Errorf("a call of the storm: %d %s", answer.Status, answer.Body)
				}
				if calls.Add(1) == storm {
					close(full)
				}
			}
		})
	}
	<-full
	const writes = 10
	for range writes {
		before := calls.Load()
		answer := p.as("second").Do(t, testenv.Request{Method: "PATCH", Path: "/rest/stock?sku=eq.live", Header: mine.Header(), Body: `{"n":1}`})
		if answer.Status != http.StatusNoContent {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
		met.Add(calls.Load() - before)
	}
	done.Store(true)
	all.Wait()
	// In line behind the storm, each write would let all of it pass.
	if got := met.Load() / writes; got > storm/4 {
		t.Errorf("a write met %d calls of the storm of %d on %d connections", got, storm, places)
	}
}

func TestOnePrincipalHasNotAllThatIsInFlight(t *testing.T) {
	t.Parallel()
	p := startStorm(t, "limits: {max_in_flight: 4}\ndatabase: {url: %s, reload_on_notify: false}\n")
	mine := p.as("second").Acquire(t, "stock:live", 300_000)
	var leases []testenv.Lease
	for n := range 6 {
		leases = append(leases, p.as("worker").Acquire(t, fmt.Sprintf("stock:%d", n), 300_000))
	}
	var refused, served atomic.Int64
	var all sync.WaitGroup
	for n, l := range leases {
		all.Go(func() {
			for served.Load() < 50 && refused.Load() == 0 {
				answer := p.as("worker").Do(t, testenv.Request{Method: "POST", Path: "/rest/rpc/nap", Header: l.Header(), Body: fmt.Sprintf(`{"sku":"%d"}`, n)})
				switch answer.Status {
				case http.StatusOK:
					served.Add(1)
				case http.StatusTooManyRequests:
					mustRefuse(t, answer, want{status: 429, slug: "too_many_in_flight"})
					refused.Add(1)
				default:
					t.Errorf("%d %s", answer.Status, answer.Body)
				}
			}
		})
	}
	for range 10 {
		answer := p.as("second").Do(t, testenv.Request{Method: "PATCH", Path: "/rest/stock?sku=eq.live", Header: mine.Header(), Body: `{"n":1}`})
		if answer.Status != http.StatusNoContent {
			t.Errorf("somebody else, while one has their half: %d %s", answer.Status, answer.Body)
		}
	}
	all.Wait()
	if refused.Load() == 0 {
		t.Errorf("six at a time passed where one principal may have two; %d were served", served.Load())
	}
}
