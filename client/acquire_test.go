package client_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/fencegate/fencegate/client"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestAnAcquireWhoseAnswerIsLostMeetsItsOwnGrant(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	front := testenv.NewFront(t, g)
	c := newClient(t, front.URL, func(cfg *client.Config) { cfg.Timeout = 2 * short })
	lose := func() { front.Reset(); front.OnReply(1, func() bool { return false }) }
	lose()
	l := acquire(t, c, shelf, client.TTL(long))
	if l.Token() != 1 || front.Requests() != 2 {
		t.Errorf("token %d after %d requests", l.Token(), front.Requests())
	}
	if err := available(t, l, 7); err != nil {
		t.Error(err)
	}
	release(t, l, true)
	lose() // for longer than the lease: what was granted is over when it is asked for
	if l = acquire(t, c, shelf, client.TTL(short)); l.Token() != 3 {
		t.Errorf("token %d after one that ran out", l.Token())
	}
}

func TestWaitersAreServedByARelease(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	front := testenv.NewFront(t, g)
	c := newClient(t, front.URL)
	first := acquire(t, c, shelf, client.TTL(long))
	front.Reset()
	waiting, got := make(chan struct{}, 1), make(chan *client.Lease, 1)
	front.OnRequest(1, func() bool { waiting <- struct{}{}; return true })
	go func() {
		l, err := c.Acquire(t.Context(), shelf, client.Wait(awhile), client.TTL(short))
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	await(t, "the waiter's request", waiting)
	release(t, first, true)
	l := await(t, "the lease", got)
	// However long it waited, all of the lease is there.
	if l.Left() < short/2 {
		t.Errorf("%s left of a lease of %s", l.Left(), short)
	}
	release(t, l, true)
}

func TestSeveralLocksAreTakenTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	c := newClient(t, g.URL)
	keys := []string{"inventory:SKU-2", shelf}
	leases, err := c.AcquireAll(t.Context(), keys, client.TTL(long))
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range leases {
		if l.Key() != keys[i] || l.Err() != nil {
			t.Errorf("lease %d is %v: %v", i, l, l.Err())
		}
	}
	op := func(name string) client.Operation {
		return client.Operation{Op: "update", Table: "inventory", Where: map[string]any{"sku": "eq." + name}, Set: map[string]int{"available": 1}}
	}
	if got, err := c.Transaction(t.Context(), []client.Operation{op("SKU-1"), op("SKU-2")}, leases...); err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	release(t, leases[1], true)
	_, err = c.AcquireAll(t.Context(), keys)
	is(t, err, client.ErrHeld)
	acquire(t, c, shelf) // which was left free
	release(t, leases[0], true)
	for _, none := range [][]string{nil, {}, {""}, {shelf, ""}} {
		if _, err := c.AcquireAll(t.Context(), none); err == nil || code(err) != "" {
			t.Errorf("%q was asked for: %v", none, err)
		}
	}
	one, err := c.AcquireAll(t.Context(), []string{"order:1"})
	if err != nil || len(one) != 1 || one[0].Key() != "order:1" {
		t.Fatalf("%v, %v", one, err)
	}
	release(t, one[0], true)
}

func TestARevokedWorkerStopsAtItsNextRenewal(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	c := newClient(t, g.URL)
	l := acquire(t, c, shelf, client.TTL(3*time.Second))
	body := fmt.Sprintf(`{"key":%q,"reason":"it loops","block_ms":60000}`, shelf)
	if a := g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/v1/leases/revoke", Body: body}); a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	<-l.Context().Done()
	is(t, l.Err(), client.ErrStale)
	if code(l.Err()) != "lease_revoked" {
		t.Error(l.Err())
	}
	_, err := c.Acquire(t.Context(), shelf)
	is(t, err, client.ErrHeld)
}
