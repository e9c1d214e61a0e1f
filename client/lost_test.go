package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/client"
	"github.com/fencegate/fencegate/internal/testenv"
)

// losses returns a channel that has every loss that the lease tells.
func losses(l *client.Lease) <-chan error {
	told := make(chan error, 9)
	l.OnLost(func(err error) { told <- err })
	return told
}

func TestARefusalEndsTheTrustAtOnce(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	wire := &counting{}
	l := acquire(t, newClient(t, g.URL, through(wire)), shelf, client.TTL(long))
	told := losses(l)
	giveAway(t, g, l)
	err := available(t, l, 7)
	is(t, err, client.ErrStale, client.ErrLost)
	isNot(t, err, client.ErrReleased, client.ErrUnavailable, client.ErrConflict, client.ErrRefused, client.ErrOutcomeUnknown)
	var refusal *client.Error
	if !errors.As(err, &refusal) || refusal.Refused != "lease_released" || refusal.AuditID == "" || refusal.RequestID == "" ||
		refusal.Outcome != client.OutcomeNotApplied || refusal.LockKey != shelf || refusal.PresentedToken != fmt.Sprint(l.Token()) {
		t.Errorf("%+v", refusal)
	}
	is(t, context.Cause(l.Context()), client.ErrStale)
	is(t, await(t, "OnLost", told), client.ErrStale)
	is(t, await(t, "OnLost after the loss", losses(l)), client.ErrStale)

	sent := wire.sent.Load()
	is(t, available(t, l, 8), client.ErrLost)
	is(t, l.Renew(t.Context()), client.ErrStale)
	release(t, l, false)
	release(t, l, false)
	if wire.sent.Load() != sent {
		t.Error("something was sent after the loss")
	}
	if len(told) != 0 {
		t.Errorf("a loss was told twice: %v", <-told)
	}
}

func TestALeaseThatIsNotRenewedEndsBeforeTheNextHolderBegins(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	c := newClient(t, g.URL)
	l := acquire(t, c, shelf, client.TTL(short), client.WithoutWatchdog())
	told := losses(l)
	next := acquire(t, c, shelf, client.Wait(awhile), client.TTL(long))
	is(t, l.Err(), client.ErrLost)
	isNot(t, l.Err(), client.ErrStale)
	is(t, await(t, "OnLost", told), client.ErrLost)
	release(t, l, false)
	if err := available(t, next, 5); err != nil {
		t.Error(err)
	}
}

func TestRenewKeepsALeaseWithoutWatchdog(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	l := acquire(t, newClient(t, g.URL), shelf, client.TTL(long), client.WithoutWatchdog())
	before := l.Left()
	if err := l.Renew(t.Context()); err != nil || l.Left() <= before-time.Second {
		t.Errorf("%s left after %s: %v", l.Left(), before, err)
	}
	giveAway(t, g, l)
	is(t, l.Renew(t.Context()), client.ErrStale, client.ErrLost)
}

func TestTheWatchdogRenewsSoOftenAndNoMore(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	front := testenv.NewFront(t, g)
	l := acquire(t, newClient(t, front.URL), shelf, client.TTL(3*short), client.MaxRenewals(2))
	front.Reset()
	<-l.Context().Done()
	is(t, context.Cause(l.Context()), client.ErrLost)
	if !strings.Contains(l.Err().Error(), "MaxRenewals") || front.Requests() != 2 {
		t.Errorf("after %d renewals: %v", front.Requests(), l.Err())
	}
}

func TestTheWatchdogStopsAtTheMaximumLifetime(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: "leases: {max_lifetime: 5s, max_ttl: 5s, default_ttl: 3s}\n"})
	l := acquire(t, newClient(t, g.URL), shelf)
	began := time.Now()
	<-l.Context().Done()
	if lived := time.Since(began); lived < 3*time.Second || !strings.Contains(l.Err().Error(), "maximum lifetime") {
		t.Errorf("after %s: %v", lived, l.Err())
	}
	isNot(t, l.Err(), client.ErrStale)
}

// The other end of the wire takes everything and answers nothing, as a
// partition or a hanging proxy does.
func TestTrustEndsInTimeWhenEveryRenewalIsSwallowed(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	front := testenv.NewFront(t, g)
	wire := &counting{}
	c := newClient(t, front.URL, through(wire))
	asked := time.Now()
	l := acquire(t, c, shelf, client.TTL(3*short), client.Margin(short/2)) // a busy machine wakes this test late
	front.BlackHole()
	told := losses(l)
	<-l.Context().Done()
	if passed := time.Since(asked); passed > 3*short {
		t.Errorf("the context was cancelled %s after a lease of %s was asked for", passed, 3*short)
	}
	is(t, context.Cause(l.Context()), client.ErrLost)
	is(t, await(t, "OnLost", told), client.ErrLost)
	if sent := wire.sent.Load(); sent < 3 {
		t.Errorf("only %d renewals were tried", sent-1)
	}
	sent := wire.sent.Load()
	is(t, available(t, l, 1), client.ErrLost)
	if wire.sent.Load() != sent {
		t.Error("a write was sent after the loss")
	}
	front.Mend(t)
}

func TestALateRenewalIsInTime(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	front := testenv.NewFront(t, g)
	lost := make(chan struct{}, 2)
	drop := func() bool { lost <- struct{}{}; return false }
	kept := make(chan struct{}, 1)
	l := acquire(t, newClient(t, front.URL), shelf, client.TTL(3*short))
	front.Reset()
	front.OnRequest(1, drop)
	front.OnReply(1, drop) // of the second attempt
	front.OnReply(2, func() bool { kept <- struct{}{}; return true })
	await(t, "a renewal that never arrives", lost)
	await(t, "a renewal whose answer is lost", lost)
	await(t, "the third attempt's answer", kept)
	if err := available(t, l, 9); err != nil || l.Err() != nil {
		t.Errorf("%v, the lease: %v", err, l.Err())
	}
}

// The deadline has passed when the answer comes: it revives nothing.
func TestAnAnswerAfterTheDeadlineRevivesNothing(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	front := testenv.NewFront(t, g)
	l := acquire(t, newClient(t, front.URL), shelf, client.TTL(short), client.WithoutWatchdog())
	front.Reset()
	front.OnReply(1, func() bool { <-l.Context().Done(); return true })
	is(t, l.Renew(context.Background()), client.ErrLost)
	is(t, l.Err(), client.ErrLost)
}

// Counted from the request, little or nothing of such a lease would be left.
func TestAGrantThatWasLongOnItsWayIsConfirmed(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	front := testenv.NewFront(t, g)
	c := newClient(t, front.URL)
	hold := func(d time.Duration) {
		front.Reset()
		front.OnReply(1, func() bool { <-time.After(d); return true })
	}
	hold(short)
	l := acquire(t, c, shelf, client.TTL(3*short), client.WithoutWatchdog())
	if left := l.Left(); left < 2*short || front.Requests() != 2 {
		t.Errorf("%s left after %d requests", left, front.Requests())
	}
	release(t, l, true)
	hold(short)
	_, err := c.Acquire(t.Context(), shelf, client.TTL(short/2))
	is(t, err, client.ErrLost)
}

func TestTrustSurvivesARestartOfTheGateway(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	front := testenv.NewFront(t, g)
	l := acquire(t, newClient(t, front.URL), shelf, client.TTL(awhile/2))
	tried := make(chan struct{}, 1)
	g.Kill(t)
	again := g.Again(t)
	front.Reset()
	front.OnReply(1, func() bool { tried <- struct{}{}; return true })
	front.LeadTo(t, again)
	await(t, "a renewal at the new gateway", tried)
	if err := available(t, l, 3); err != nil {
		t.Error(err)
	}
	if l.Err() != nil {
		t.Error(l.Err())
	}
}

func TestTheHolderGoesToNoOtherHost(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	seen := make(chan http.Header, 1)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header }))
	t.Cleanup(other.Close)
	target, err := url.Parse(g.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			http.Redirect(w, r, other.URL+"/rest/inventory", http.StatusTemporaryRedirect)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	l := acquire(t, newClient(t, front.URL), shelf, client.TTL(long))
	follower := &http.Client{Transport: &client.Transport{Lease: l}}
	for _, address := range []string{front.URL, other.URL} {
		resp := send(t, follower, address)
		if got := await(t, "the other host's request", seen); got.Get("Lock-Holder") != "" || got.Get("Lock-Key") != "" || got.Get("Fencing-Token") != "" {
			t.Errorf("by %s the other host was sent %v", address, got)
		}
		resp.Body.Close()
	}
	resp := send(t, l.HTTPClient(), front.URL)
	resp.Body.Close()
	if resp.StatusCode != http.StatusTemporaryRedirect || len(seen) != 0 {
		t.Errorf("the lease's own client followed: %d", resp.StatusCode)
	}
	_, err = l.Delete(t.Context(), "inventory", sku("SKU-1"))
	if err == nil || len(seen) != 0 {
		t.Errorf("a redirected write: %v", err)
	}
}

func send(t *testing.T, c *http.Client, address string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, address+"/rest/inventory?sku=eq.SKU-1", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func TestAWriteWhoseAnswerIsLostIsAppliedOnce(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	front := testenv.NewFront(t, g)
	c := newClient(t, front.URL, func(cfg *client.Config) { cfg.Timeout = 2 * time.Second })
	l := acquire(t, c, shelf, client.TTL(long))
	less := []client.Operation{{Op: "update", Table: "inventory", Where: map[string]any{"sku": "eq.SKU-1"},
		Increment: map[string]int{"available": -1}, Returning: []string{"available"}}}
	front.Reset()
	front.OnReply(1, func() bool { return false })
	got, err := c.Transaction(t.Context(), less, l)
	if err != nil || len(got) != 1 || !got[0].Replayed || string(got[0].Rows) != `[{"available":9}]` {
		t.Errorf("%+v, %v", got, err)
	}
	front.DropReplies()
	impatient := newClient(t, front.URL, func(cfg *client.Config) { cfg.Timeout, cfg.Patience = time.Second, time.Second })
	_, err = impatient.Transaction(t.Context(), less, l)
	is(t, err, client.ErrOutcomeUnknown, client.ErrUnavailable)
	isNot(t, err, client.ErrLost)
	front.Mend(t)
	told := (*client.Error)(nil)
	if !errors.As(err, &told) || told.IdempotencyKey == "" {
		t.Fatalf("no key to ask with: %v", err)
	}
	got, err = c.Transaction(client.Once(t.Context(), told.IdempotencyKey), less, l)
	if err != nil || string(got[0].Rows) != `[{"available":8}]` {
		t.Errorf("asked again: %+v, %v", got, err)
	}
}

func TestACancelledWorkerStillGivesItsLockBack(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	c := newClient(t, g.URL)
	ctx, cancel := context.WithCancel(t.Context())
	l, err := c.Acquire(ctx, shelf, client.TTL(long))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	is(t, l.Context().Err(), context.Canceled)
	if l.Err() != nil {
		t.Errorf("the lease itself: %v", l.Err())
	}
	if ours, err := l.Release(ctx); err != nil || !ours {
		t.Errorf("%t, %v", ours, err)
	}
	acquire(t, c, shelf)
}

// Not parallel: it looks at the goroutines of the whole program.
func TestNoGoroutineIsLeftBehind(t *testing.T) {
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	c := newClient(t, g.URL)
	for i := range 5 {
		key := fmt.Sprintf("inventory:%d", i)
		release(t, acquire(t, c, key, client.TTL(long)), true)
		lost := acquire(t, c, key, client.TTL(long))
		giveAway(t, g, lost)
		is(t, lost.Renew(t.Context()), client.ErrStale)
	}
	c.CloseIdleConnections()
	for deadline := time.Now().Add(awhile); ; {
		var all strings.Builder
		if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(all.String(), "client.(*Lease)") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still there:\n%s", all.String())
		}
	}
}
