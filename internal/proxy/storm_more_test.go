package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/testenv"
)

// locked begins a transaction that holds what it locks until the test's end.
func locked(t *testing.T, g *testenv.Gateway, sql string) pgx.Tx {
	t.Helper()
	tx, err := g.Database.Pool(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback(t.Context()) })
	if _, err := tx.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
	return tx
}

// meanwhile lets a storm of n go round until act, which is called once each has been
// answered or stands in line, has been done ten times. It returns how many answers of
// the storm one act met.
func meanwhile(t *testing.T, n int, storm func(n int), act func(n int)) int64 {
	t.Helper()
	var calls, met atomic.Int64
	var done atomic.Bool
	var all sync.WaitGroup
	began := make(chan struct{})
	for one := range n {
		all.Go(func() {
			for !done.Load() {
				storm(one)
				if calls.Add(1) == int64(n) {
					close(began)
				}
			}
		})
	}
	<-began
	const acts = 10
	for one := range acts {
		before := calls.Load()
		act(one)
		met.Add(calls.Load() - before)
	}
	done.Store(true)
	all.Wait()
	return met.Load() / acts
}

func TestMarksThatCannotBeMovedLeaveOthersTheirTurn(t *testing.T) {
	t.Parallel()
	const storm = 40
	p := startStorm(t, "database: {url: %s, reload_on_notify: false, lock_timeout: 200ms}\n")
	var leases []testenv.Lease
	for n := range storm {
		leases = append(leases, p.as("worker").Acquire(t, fmt.Sprintf("stock:%d", n), 300_000))
	}
	locked(t, p.Gateway, `SELECT 1 FROM fencegate.marks FOR UPDATE`)
	met := meanwhile(t, storm, func(n int) {
		answer := p.as("worker").Do(t, testenv.Request{Method: http.MethodPost, Path: "/v1/leases/release", Body: leases[n].Claim()})
		if answer.Status != http.StatusServiceUnavailable {
			t.Errorf("a release that waits: %d %s", answer.Status, answer.Body)
		}
	}, func(n int) {
		if answer := p.as("second").TryAcquire(t, fmt.Sprintf("stock:second-%d", n), 300_000); answer.Status != http.StatusCreated {
			t.Errorf("somebody else: %d %s", answer.Status, answer.Body)
		}
	})
	// In line behind the storm, each would meet nearly all of it.
	if met > storm/2 {
		t.Errorf("a grant met %d answers of a storm of %d", met, storm)
	}
}

func TestSlowLooksAtRecordsLeaveOthersTheirTurn(t *testing.T) {
	t.Parallel()
	const storm = 40
	p := startStorm(t, "database: {url: %s, reload_on_notify: false, lock_timeout: 200ms, read_pool_size: 2}\n")
	locked(t, p.Gateway, `LOCK TABLE fencegate.refusals IN ACCESS EXCLUSIVE MODE`)
	paths := []string{"/v1/refusals", "/v1/refusals/1", "/v1/refusals/report"}
	met := meanwhile(t, storm, func(n int) {
		answer := p.as("operator").Do(t, testenv.Request{Path: paths[n%len(paths)]})
		if answer.Status != http.StatusServiceUnavailable {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	}, func(int) {
		if answer := p.as("second").Do(t, testenv.Request{Path: "/rest/stock"}); answer.Status != http.StatusOK {
			t.Errorf("somebody else: %d %s", answer.Status, answer.Body)
		}
	})
	if met > storm/4 {
		t.Errorf("a read met %d looks at the records of a storm of %d", met, storm)
	}
}

func TestAStormOfWrongKeysNeitherKeepsOthersOutNorFillsTheLog(t *testing.T) {
	t.Parallel()
	const storm, each = 8, 100
	p := startStorm(t, "database: {url: %s, reload_on_notify: false}\n")
	mine := p.as("second").Acquire(t, "stock:live", 300_000)
	began := time.Now()
	var all sync.WaitGroup
	for range storm {
		all.Go(func() {
			for range each {
				mustRefuse(t, p.as("wrong").Do(t, testenv.Request{Path: "/rest/stock"}), want{status: 401, slug: "unauthenticated"})
			}
		})
	}
	const writes = 20
	for range writes {
		answer := p.as("second").Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/stock?sku=eq.live", Header: mine.Header(), Body: `{"n":1}`})
		if answer.Status != http.StatusNoContent {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	}
	all.Wait()
	most := 100 + 10*(1+int(time.Since(began).Seconds()))
	for _, line := range []string{`"msg":"a request was not authenticated"`, `"status":401`} {
		if told := strings.Count(p.Log(), line); told > most || told == 0 {
			t.Errorf("%d lines of %d have %s", told, storm*each, line)
		}
	}
	p.AwaitLogs(t, "request", 1+writes) // of the others, and of some
}
