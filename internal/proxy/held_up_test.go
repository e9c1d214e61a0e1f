package proxy_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

const somebodyWaits = `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`

func once(key, body string) testenv.Request {
	return testenv.Request{Method: http.MethodPost, Path: "/v1/leases", Header: http.Header{"Idempotency-Key": {key}}, Body: body}
}

// Behind those who wait, it would wait for its own lease to run out.
func TestAnAcquireSentAgainMeetsItsOwnGrantThoughOthersWait(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: told})
	const body = `{"key":"mine","ttl_ms":60000,"wait_ms":2000}`
	var first, again testenv.Lease
	g.Do(t, once("lost", body)).JSON(t, &first)
	ctx, cancel := context.WithCancel(t.Context())
	other := make(chan struct{})
	go func() {
		defer close(other)
		g.Try(t, ctx, acquireWaiting("mine", time.Minute))
	}()
	defer func() { cancel(); <-other }()
	g.AwaitLogs(t, itWaits, 1)
	answer := g.Do(t, once("lost", body))
	if answer.Status != http.StatusCreated {
		t.Fatalf("%d %s", answer.Status, answer.Body)
	}
	if answer.JSON(t, &again); again.Holder != first.Holder {
		t.Errorf("%+v, not %+v", again, first)
	}
}

// The first attempt is answered with 503, come again.
func TestAnAcquireThatCameTooLateDoesNotUseItsKeyUp(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: shortLeases})
	g.Acquire(t, "late", 100)
	awaitExpiry(t, g, "late")
	tx, err := g.Database.Pool(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `SELECT FROM fencegate.marks WHERE lock_key = 'late' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	const body = `{"key":"late","ttl_ms":100}`
	first := make(chan testenv.Response, 1)
	go func() {
		answer, _ := g.Try(t, t.Context(), once("late", body))
		first <- answer
	}()
	pool := g.Database.Pool(t)
	for !scalar[bool](t, pool, somebodyWaits) {
	}
	awaitExpiry(t, g, "late")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if answer := <-first; answer.Status != http.StatusServiceUnavailable {
		t.Fatalf("%d %s", answer.Status, answer.Body)
	}
	if answer := g.Do(t, once("late", body)); answer.Status != http.StatusCreated {
		t.Errorf("sent again: %d %s", answer.Status, answer.Body)
	}
}

func TestKeysThatAreFreeStayFreeWhileAnotherIsWaitedFor(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: told})
	g.Acquire(t, "b", 60000)
	ctx, cancel := context.WithCancel(t.Context())
	const crowd = 30
	ended := make(chan struct{}, crowd)
	for range crowd {
		go func() {
			g.Try(t, ctx, testenv.Request{Method: http.MethodPost, Path: "/v1/leases", Body: `{"keys":["a","b"],"ttl_ms":60000,"wait_ms":60000}`})
			ended <- struct{}{}
		}()
	}
	defer func() {
		cancel()
		for range crowd {
			<-ended
		}
	}()
	for range 200 {
		answer := g.TryAcquire(t, "a", 60000)
		if answer.Status != http.StatusCreated {
			t.Fatalf("%d %s, Retry-After %s", answer.Status, answer.Body, answer.Header.Get("Retry-After"))
		}
		var l testenv.Lease
		answer.JSON(t, &l)
		post(g, t, "/v1/leases/release", l.Claim())
	}
}

// Without an Idempotency-Key it is.
func TestALateWriterThatHangsUpIsOnRecord(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	late := g.Acquire(t, "inventory:SKU-1", 60000)
	post(g, t, "/v1/leases/release", late.Claim())
	pool := g.Database.Pool(t)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `LOCK TABLE fencegate.answers IN EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	header := late.Header()
	header.Set("Idempotency-Key", "late")
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		g.Try(t, ctx, testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1", Header: header, Body: `{"available":1}`})
	}()
	for !scalar[bool](t, pool, somebodyWaits) {
	}
	cancel()
	<-gone
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.AwaitLogs(t, "request", 3) // acquire, release, and this one
	if n := scalar[int](t, pool, `SELECT count(*) FROM fencegate.refusals WHERE disposition = 'refused'`); n != 1 {
		t.Errorf("%d records", n)
	}
}
