package chaos_test

import (
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestAGatewayFrozenBetweenLeaseCheckAndCommitIsRefusedWhenItGoesOn(t *testing.T) {
	t.Parallel()
	p := build(t, options{})
	other := p.twin(t, p.db.URL)
	leases := p.leases(t)
	for _, c := range []struct {
		sku string
		at  func(hook func() bool)
	}{
		// The lease was live, the gateway has not seen it yet.
		{"checked", func(hook func() bool) { p.redis.OnReply(1, hook) }},
		// The write is on its way.
		{"sent", func(hook func() bool) { before(p.pg, theUpdate, hook) }},
	} {
		t.Run(c.sku, func(t *testing.T) {
			sku, key := p.item(t, c.sku)
			l := p.Acquire(t, key, 500)
			p.pg.Reset()
			p.redis.Reset()
			held, hook := newHold(t)
			c.at(func() bool { p.Signal(t, syscall.SIGSTOP); return hook() })
			answer := later(t, p.Gateway, setRequest(l, sku, 1))
			<-held.reached
			next, err := leases.takeOver(t, other, key, 60000)
			must(t, err)
			wantStatus(t, set(t, other, next, sku, 2), 204)
			p.Signal(t, syscall.SIGCONT)
			close(held.free)

			got := <-answer
			must(t, got.err)
			wantProblem(t, got.Response, 412, "stale_token")
			p.wantRow(t, sku, 2, 1)
			if n := one[int](t, p.sql, `SELECT count(*) FROM fencegate.refusals WHERE lock_key = $1`, key); n != 1 {
				t.Errorf("%d records", n)
			}
		})
	}
}

func TestACrowdOfStaleWritersIsRecordedOneByOneAndLiveOnesSucceed(t *testing.T) {
	t.Parallel()
	const live, stale = 20, 300
	p := build(t, options{})
	var items []testenv.Lease
	var old [live]testenv.Lease
	for n := range live {
		_, key := p.item(t, fmt.Sprint("L", n))
		old[n] = p.Acquire(t, key, 60000)
		release(t, p.Gateway, old[n])
		items = append(items, p.Acquire(t, key, 60000))
	}
	var crowd sync.WaitGroup
	begin := make(chan struct{})
	answers := make(chan testenv.Response, stale)
	for n := range stale {
		crowd.Go(func() {
			<-begin
			answers <- p.insist(t, setRequest(old[n%live], fmt.Sprint("L", n%live), 99))
		})
	}
	for n, l := range items {
		crowd.Go(func() {
			<-begin
			for value := 1; value <= 3; value++ {
				wantStatus(t, p.insist(t, setRequest(l, fmt.Sprint("L", n), value)), 204)
			}
		})
	}
	close(begin)
	crowd.Wait()
	close(answers)
	ids := map[string]bool{}
	for answer := range answers {
		problem := wantProblem(t, answer, 412, "stale_token")
		if problem.AuditID == "" || ids[problem.AuditID] {
			t.Errorf("audit id %q is missing or given twice", problem.AuditID)
		}
		ids[problem.AuditID] = true
		const query = `SELECT count(*) FROM fencegate.refusals WHERE id = $1::text::bigint AND request_id = $2 AND lock_key = $3`
		if n := one[int](t, p.sql, query, problem.AuditID, problem.RequestID, problem.LockKey); n != 1 {
			t.Errorf("record %s is not the one of request %s", problem.AuditID, problem.RequestID)
		}
	}
	if n := one[int](t, p.sql, `SELECT count(*) FROM fencegate.refusals`); n != stale {
		t.Errorf("%d records of %d refusals", n, stale)
	}
	for n := range live {
		p.wantRow(t, fmt.Sprint("L", n), 3, 3)
	}
}

// insist resends what the gateway, on a busy machine, had no time for.
func (p *plant) insist(t *testing.T, q testenv.Request) testenv.Response {
	for {
		answer, err := p.Try(t, t.Context(), q)
		if err != nil {
			t.Error(err)
			return answer
		}
		if answer.Status != http.StatusServiceUnavailable {
			return answer
		}
		t.Logf("busy: %s", answer.Problem(t).Code)
	}
}
