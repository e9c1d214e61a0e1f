package chaos_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestWithoutPostgresNothingIsAnsweredButUnavailableUntilItIsBack(t *testing.T) {
	t.Parallel()
	server := testenv.OwnPostgres(t)
	p := build(t, options{GatewayOptions: testenv.GatewayOptions{Database: testenv.OwnDatabase(t, server)}})
	sku, key := p.item(t, "A")
	_, other := p.item(t, "B")
	l, old := p.Acquire(t, key, 60000), p.stale(t, other)
	awaitReady(t, p.Gateway, http.StatusOK)

	must(t, server.Kill())
	// The connection that was open may have to find out first, which leaves an
	// outcome open that a reader of the answer has to take for open.
	if first := set(t, p.Gateway, l, sku, 1); first.Status != http.StatusGatewayTimeout {
		wantProblem(t, first, 503, "database_unavailable")
	}
	for name, q := range map[string]testenv.Request{
		"write":   setRequest(l, sku, 1),
		"refusal": setRequest(old, "B", 1),
		"acquire": acquireRequest("inventory:C", 60000),
		"renew":   renewRequest(l),
		"read":    {Path: "/rest/inventory?sku=eq.A"},
	} {
		t.Run(name, func(t *testing.T) {
			wantProblem(t, p.Do(t, q), 503, "database_unavailable")
		})
	}
	awaitReady(t, p.Gateway, http.StatusServiceUnavailable)

	must(t, server.Restart(t.Context()))
	awaitReady(t, p.Gateway, http.StatusOK)
	p.sql.Reset()
	p.wantRow(t, sku, 0, 0)
	wantStatus(t, set(t, p.Gateway, l, sku, 2), 204)
	wantProblem(t, set(t, p.Gateway, old, "B", 1), 412, "stale_token")
	wantStatus(t, p.TryAcquire(t, "inventory:C", 60000), 201)
	p.wantRow(t, sku, 2, 1)
	p.wantRow(t, "B", 0, 0)
}

func TestPostgresDyingUnderAWriteLeavesItWholeOrAbsent(t *testing.T) {
	t.Parallel()
	server := testenv.OwnPostgres(t)
	p := build(t, options{GatewayOptions: testenv.GatewayOptions{Database: testenv.OwnDatabase(t, server)}})
	for _, c := range []struct {
		sku     string
		arm     func(hook func() bool)
		written int
	}{
		{"before-the-request", func(hook func() bool) { before(p.pg, theUpdate, hook) }, 0},
		{"before-the-reply", func(hook func() bool) { answered(p.pg, theUpdate, hook) }, 1},
	} {
		t.Run(c.sku, func(t *testing.T) {
			sku, key := p.item(t, c.sku)
			l := p.Acquire(t, key, 60000)
			p.pg.Reset()
			c.arm(func() bool { server.Kill(); return false })
			answer := set(t, p.Gateway, l, sku, 5)
			if c.written == 1 || answer.Status == http.StatusGatewayTimeout {
				wantProblem(t, answer, 504, "outcome_unknown")
			} else {
				wantProblem(t, answer, 503, "database_unavailable")
			}
			must(t, server.Restart(t.Context()))
			p.sql.Reset()
			p.wantRow(t, sku, 5*c.written, c.written)
			wantStatus(t, try(t, p.Gateway, setRequest(l, sku, 6), 204), 204)
			p.wantRow(t, sku, 6, c.written+1)
		})
	}
}

func TestAWriteWhoseCommitIsNotConfirmedHasAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	p := build(t, options{GatewayOptions: testenv.GatewayOptions{Config: tight(4)}})
	sku, key := p.item(t, "A")
	l := p.Acquire(t, key, 60000)
	for n, swallow := range []func(){
		func() { answered(p.pg, theUpdate, func() bool { return false }) },
		p.pg.DropReplies,
	} {
		named := func(available int) testenv.Request {
			q := setRequest(l, sku, available)
			q.Header.Set("Idempotency-Key", fmt.Sprint("set-", available))
			return q
		}
		wantStatus(t, p.Do(t, named(2*n)), 204) // a connection that is not idle for long, statements prepared
		p.pg.Reset()
		swallow()
		began := time.Now()
		q := named(2*n + 1)
		wantProblem(t, p.Do(t, q), 504, "outcome_unknown")
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %s with a request_timeout of 1s", took)
		}
		p.wantRow(t, sku, 2*n+1, 2*n+2)
		p.pg.Mend(t)
		if again := try(t, p.Gateway, q, 204); again.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("sent again it was not replayed: %v", again.Header)
		}
		p.wantRow(t, sku, 2*n+1, 2*n+2)
	}
	wantStatus(t, try(t, p.Gateway, setRequest(l, sku, 9), 204), 204)
	p.wantRow(t, sku, 9, 5)
}

func TestAWriteThatPostgresEndsIsNotApplied(t *testing.T) {
	t.Parallel()
	p := build(t, options{GatewayOptions: testenv.GatewayOptions{Config: tight(4)}})

	t.Run("its backend was terminated", func(t *testing.T) {
		// With the usual limits: it is not to run into one, nor is the write after it,
		// which may have to wait for a new connection.
		p := build(t, options{})
		sku, key := p.item(t, "A")
		l := p.Acquire(t, key, 60000)
		lock := p.lockRow(t, sku)
		answer := later(t, p.Gateway, setRequest(l, sku, 1))
		one[bool](t, p.sql, `SELECT pg_terminate_backend($1)`, lock.waiter(t))
		got := <-answer
		must(t, got.err)
		wantProblem(t, got.Response, 503, "database_unavailable")
		lock.free()
		p.wantRow(t, sku, 0, 0)
		wantStatus(t, set(t, p.Gateway, l, sku, 2), 204)
	})
	t.Run("it waited too long for a row", func(t *testing.T) {
		sku, key := p.item(t, "B")
		l := p.Acquire(t, key, 60000)
		lock := p.lockRow(t, sku)
		wantProblem(t, set(t, p.Gateway, l, sku, 1), 503, "row_locked")
		lock.free()
		p.wantRow(t, sku, 0, 0)
		wantStatus(t, set(t, p.Gateway, l, sku, 2), 204)
	})
	t.Run("it waited too long for another write under its key", func(t *testing.T) {
		sku, key := p.item(t, "C")
		l := p.Acquire(t, key, 60000)
		tx, err := p.sql.Begin(t.Context())
		must(t, err)
		_, err = tx.Exec(t.Context(), `SELECT fencegate.admit(ARRAY[$1], ARRAY[$2], ARRAY[$3::bigint], false)`, l.Key, l.Holder, token(t, l))
		must(t, err)
		wantProblem(t, set(t, p.Gateway, l, sku, 1), 503, "row_locked")
		must(t, tx.Rollback(t.Context()))
		p.wantRow(t, sku, 0, 0)
		wantStatus(t, set(t, p.Gateway, l, sku, 2), 204)
	})
	t.Run("it took too long", func(t *testing.T) {
		sku, key := p.item(t, "D")
		l := p.Acquire(t, key, 60000)
		slow := p.Patch(t, l, "inventory?sku=eq."+sku, `{"available":1,"description":"slow"}`)
		wantProblem(t, slow, 504, "statement_timeout")
		p.wantRow(t, sku, 0, 0)
		wantStatus(t, set(t, p.Gateway, l, sku, 2), 204)
	})
}

func TestAConnectionIsGoodForMoreAfterARequestThatTookItsWholeTime(t *testing.T) {
	t.Parallel()
	p := build(t, options{GatewayOptions: testenv.GatewayOptions{Config: tight(4)}})
	sku, key := p.item(t, "A")
	l := p.Acquire(t, key, 60000)
	wantStatus(t, set(t, p.Gateway, l, sku, 1), 204)
	p.pg.Reset()
	held, hook := newHold(t)
	p.pg.OnReply(1, hook)
	long := later(t, p.Gateway, setRequest(l, sku, 2))
	<-held.reached
	if got := <-long; got.err != nil || got.Status < 500 {
		t.Fatalf("%v, %v", got.Status, got.err)
	}
	close(held.free)
	wantStatus(t, try(t, p.Gateway, setRequest(l, sku, 3), 204), 204)
	p.wantRow(t, sku, 3, 3)
}

func TestAPoolWithoutConnectionsIsOverloadNotFailure(t *testing.T) {
	t.Parallel()
	p := build(t, options{GatewayOptions: testenv.GatewayOptions{Config: tight(1)}})
	sku, key := p.item(t, "A")
	_, other := p.item(t, "B")
	l, holding := p.Acquire(t, key, 60000), p.Acquire(t, other, 60000)
	for name, c := range map[string]struct{ warm, long, q testenv.Request }{
		"write": {setRequest(holding, "B", 0), setRequest(holding, "B", 0), setRequest(l, sku, 1)},
		"read":  {testenv.Request{Path: "/rest/inventory"}, testenv.Request{Path: "/rest/inventory?sku=eq.B"}, testenv.Request{Path: "/rest/inventory?sku=eq.A"}},
	} {
		t.Run(name, func(t *testing.T) {
			p.warm(t, c.warm) // the one connection is there
			p.pg.Reset()
			held, hook := newHold(t)
			p.pg.OnReply(1, hook)
			long := later(t, p.Gateway, c.long)
			<-held.reached
			p.pg.BlackHole() // when the first gives up, its place is of no use either
			answer := p.Do(t, c.q)
			close(held.free)
			<-long
			p.pg.Mend(t)
			wantProblem(t, answer, 503, "overloaded")
		})
	}
	p.wantRow(t, sku, 0, 0)
	wantStatus(t, try(t, p.Gateway, setRequest(l, sku, 1), 204), 204)
}

// warm sends q until it is answered well.
func (p *plant) warm(t *testing.T, q testenv.Request) {
	t.Helper()
	for p.Do(t, q).Status >= 300 {
		t.Log("not yet")
	}
}
