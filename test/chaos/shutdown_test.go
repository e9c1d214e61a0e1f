package chaos_test

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

const stopping = "stopping: finishing what is in flight"

func TestSIGTERMLetsABlockedWriteFinish(t *testing.T) {
	t.Parallel()
	p := build(t, options{})
	sku, key := p.item(t, "A")
	l := p.Acquire(t, key, 60000)
	lock := p.lockRow(t, sku)
	answer := later(t, p.Gateway, setRequest(l, sku, 1))
	lock.waiter(t)

	p.Signal(t, syscall.SIGTERM)
	p.AwaitLog(t, stopping)
	awaitReady(t, p.Gateway, http.StatusServiceUnavailable)
	awaitRefusal(t, p.URL)
	select {
	case got := <-answer:
		t.Fatalf("answered %d %v although the row is locked", got.Status, got.err)
	default:
	}
	lock.free()
	got := <-answer
	must(t, got.err)
	wantStatus(t, got.Response, 204)
	if code := p.Wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p.wantRow(t, sku, 1, 1)
}

// awaitRefusal returns once nobody can connect any more.
func awaitRefusal(t *testing.T, url string) {
	t.Helper()
	for {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		if err == nil { // else it was closed while this waited to be accepted
			conn.Close()
		}
	}
}

func TestASecondSIGTERMEndsTheGatewayAtOnce(t *testing.T) {
	t.Parallel()
	p := build(t, options{})
	sku, key := p.item(t, "A")
	l := p.Acquire(t, key, 60000)
	lock := p.lockRow(t, sku)
	answer := later(t, p.Gateway, setRequest(l, sku, 1))
	lock.waiter(t)
	p.Signal(t, syscall.SIGTERM)
	p.AwaitLog(t, stopping)
	awaitReady(t, p.Gateway, http.StatusServiceUnavailable)
	awaitRefusal(t, p.URL)
	got := signalled(t, p, answer)
	if got.err == nil {
		t.Errorf("answered %d", got.Status)
	}
	if code := p.Wait(); code != 3 {
		t.Errorf("exit code %d", code)
	}
	lock.free()
	p.pg.Settle()
	if written := one[int](t, p.sql, `SELECT count(*) FROM shop.journal`); written > 1 {
		t.Errorf("written %d times", written)
	}
}

// signalled sends SIGTERM until the request gets its answer or loses its
// connection. One that comes within microseconds of the first may still be taken
// for the same.
func signalled(t *testing.T, p *plant, answer <-chan reply) reply {
	t.Helper()
	for {
		p.Signal(indifferent{t}, syscall.SIGTERM)
		resp, err := http.Get(p.AdminURL + "/livez")
		if err != nil {
			return <-answer
		}
		resp.Body.Close()
	}
}

// indifferent is for signals to a process that may have ended.
type indifferent struct{ testing.TB }

func (indifferent) Fatal(...any) {}

func TestSIGTERMWaitsForTheRecordOfARefusal(t *testing.T) {
	t.Parallel()
	p := build(t, options{})
	sku, key := p.item(t, "A")
	old := p.stale(t, key)
	wantProblem(t, set(t, p.Gateway, old, sku, 1), 412, "stale_token")
	for name, arm := range map[string]func(func() bool){
		"before it is sent":      func(hook func() bool) { before(p.pg, theRecord, hook) },
		"before it is confirmed": func(hook func() bool) { answered(p.pg, theRecord, hook) },
	} {
		t.Run(name, func(t *testing.T) {
			g := p.twin(t, p.pg.URL())
			wantProblem(t, set(t, g, old, sku, 1), 412, "stale_token") // warm
			records := one[int](t, p.sql, `SELECT count(*) FROM fencegate.refusals`)
			p.pg.Reset()
			held, hook := newHold(t)
			arm(hook)
			answer := later(t, g, setRequest(old, sku, 1))
			<-held.reached
			g.Signal(t, syscall.SIGTERM)
			g.AwaitLog(t, stopping)
			awaitRefusal(t, g.URL)
			close(held.free)
			got := <-answer
			must(t, got.err)
			problem := wantProblem(t, got.Response, 412, "stale_token")
			if code := g.Wait(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if n := one[int](t, p.sql, `SELECT count(*) FROM fencegate.refusals`) - records; n != 1 {
				t.Errorf("%d records", n)
			}
			if n := one[int](t, p.sql, `SELECT count(*) FROM fencegate.refusals WHERE id = $1::text::bigint`, problem.AuditID); n != 1 {
				t.Errorf("no record %s", problem.AuditID)
			}
		})
	}
}
