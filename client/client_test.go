package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/client"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestAClientIsToldWhatIsWrongWithItsConfiguration(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "gateway:8080", "ftp://gateway", "http://", "http://u:p@gateway", "http://gateway?x=y", "http://gateway/#x", "http://[::1"} {
		if _, err := client.New(client.Config{URL: address}); err == nil {
			t.Errorf("%q is taken for a gateway", address)
		}
	}
	if _, err := client.New(client.Config{URL: "http://gateway", Margin: -1}); err == nil {
		t.Error("a negative margin is taken")
	}
	c := newClient(t, "http://127.0.0.1:1")
	for _, options := range [][]client.Option{
		{client.TTL(-1)}, {client.TTL(time.Microsecond)}, {client.Wait(-1)}, {client.MaxRenewals(-1)},
		{client.TTL(short), client.Margin(short)},
	} {
		if _, err := c.Acquire(t.Context(), shelf, options...); err == nil || code(err) != "" {
			t.Errorf("such options are sent: %v", err)
		}
	}
}

func TestALeaseWritesUntilItIsReleased(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	wire := &counting{}
	l := acquire(t, newClient(t, g.URL, through(wire)), shelf, client.TTL(long))
	if l.Key() != shelf || l.Token() < 1 || l.Holder() == "" || l.Left() <= 0 || l.Left() >= long {
		t.Errorf("%v: key %q, %s left", l, l.Key(), l.Left())
	}
	if text := fmt.Sprintf("%v %+v %#v", l, l, l); strings.Contains(text, l.Holder()) {
		t.Errorf("the holder is shown: %s", text)
	}
	if err := available(t, l, 7); err != nil {
		t.Error(err)
	}
	release(t, l, true)
	sent := wire.sent.Load()
	release(t, l, true)
	err := available(t, l, 8)
	is(t, err, client.ErrReleased)
	isNot(t, err, client.ErrLost)
	is(t, l.Renew(t.Context()), client.ErrReleased)
	is(t, context.Cause(l.Context()), client.ErrReleased)
	is(t, l.Context().Err(), context.Canceled)
	if wire.sent.Load() != sent {
		t.Error("something was sent after the release")
	}
	other := acquire(t, newClient(t, g.URL), shelf)
	if other.Token() <= l.Token() {
		t.Errorf("token %d after %d", other.Token(), l.Token())
	}
}

func TestSomebodyElsesLockIsWaitedForOnlyIfAsked(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	c := newClient(t, g.URL)
	first := acquire(t, c, shelf, client.TTL(long))
	_, err := c.Acquire(t.Context(), shelf)
	is(t, err, client.ErrHeld)
	isNot(t, err, client.ErrUnavailable, client.ErrLost, client.ErrRefused, client.ErrConflict)
	if _, err := c.Acquire(t.Context(), shelf, client.Wait(50*time.Millisecond)); code(err) != "lock_held" {
		t.Errorf("after waiting: %v", err)
	}
	got := make(chan error, 1)
	go func() {
		l, err := c.Acquire(t.Context(), shelf, client.Wait(awhile))
		if err == nil {
			_, err = l.Release(t.Context())
		}
		got <- err
	}()
	release(t, first, true)
	if err := await(t, "the lock", got); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	acquire(t, c, shelf, client.TTL(long))
	cancel()
	_, err = c.Acquire(ctx, shelf, client.Wait(awhile))
	is(t, err, context.Canceled)
}

func TestAGatewayThatIsNotThereIsUnavailable(t *testing.T) {
	t.Parallel()
	c := newClient(t, "http://127.0.0.1:1", func(cfg *client.Config) { cfg.Patience = 100 * time.Millisecond })
	_, err := c.Acquire(t.Context(), shelf)
	is(t, err, client.ErrUnavailable)
	isNot(t, err, client.ErrOutcomeUnknown, client.ErrHeld, client.ErrLost)
}

func TestEveryKindOfKeyTravels(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	c := newClient(t, g.URL)
	for _, key := range []string{"inventory:Größe", "inventory:a b", "inventory:50%", "base64:aW52ZW50b3J5OkEsQg==", "inventory:\"'\\"} {
		l := acquire(t, c, key)
		if err := l.Renew(t.Context()); err != nil || l.Key() != key {
			t.Errorf("renewing %q as %q: %v", key, l.Key(), err)
		}
		release(t, l, true)
	}
}

func TestWrites(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	l := acquire(t, newClient(t, g.URL), "inventory:NEW", client.TTL(long))
	row := map[string]any{"sku": "NEW", "available": 3}
	check := func(expected string) func(client.Result, error) {
		return func(got client.Result, err error) {
			t.Helper()
			var rows []struct{ Available int }
			if err == nil {
				err = json.Unmarshal(got.Rows, &rows)
			}
			if say := fmt.Sprint(got.Affected, rows, got.Replayed, err); say != expected {
				t.Errorf("%s, expected %s", say, expected)
			}
		}
	}
	ctx := t.Context()
	check("1 [{3}] false <nil>")(l.Insert(ctx, "inventory", nil, row))
	check("1 [{4}] false <nil>")(l.Upsert(ctx, "inventory", nil, []any{map[string]any{"sku": "NEW", "available": 4}}))
	check("1 [{5}] false <nil>")(l.Update(ctx, "inventory", sku("NEW"), map[string]int{"available": 5}))
	check("0 [] false <nil>")(l.Update(ctx, "inventory", filter("NEW", "available", "gt.5"), map[string]int{"available": 6}))
	check("1 [{5}] false <nil>")(l.Delete(ctx, "inventory", sku("NEW")))

	_, err := l.Update(ctx, "inventory", sku("SKU-2"), row)
	is(t, err, client.ErrRefused)
	isNot(t, err, client.ErrLost, client.ErrConflict, client.ErrUnavailable)
	if code(err) != "lock_scope" {
		t.Errorf("another's row: %v", err)
	}
	_, err = l.Insert(ctx, "inventory", nil, map[string]any{"sku": "NEW", "available": -1})
	is(t, err, client.ErrRefused)
	if _, err := l.Insert(ctx, "inventory", nil, row); err != nil {
		t.Fatal(err)
	}
	_, err = l.Insert(ctx, "inventory", nil, row)
	is(t, err, client.ErrConflict)
	isNot(t, err, client.ErrRefused, client.ErrLost)
	if code(err) != "23505" || l.Err() != nil {
		t.Errorf("inserted twice: %v; the lease: %v", err, l.Err())
	}
	for _, table := range []string{"", "a/b", "a?b=c", "..%2f"} {
		if _, err := l.Delete(ctx, table, sku("NEW")); err == nil || code(err) != "" {
			t.Errorf("the table %q: %v", table, err)
		}
	}
}

func filter(name, column, condition string) map[string][]string {
	q := sku(name)
	q.Set(column, condition)
	return q
}

func TestAWriteThatIsObservedSaysSo(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Tables: "tables: [{name: shop.inventory, lock: 'inventory:{sku}', mode: observe}]\n"})
	c := newClient(t, g.URL)
	l := acquire(t, c, shelf, client.TTL(long))
	change := map[string]int{"available": 5}
	both := []client.Operation{{Op: "update", Table: "inventory", Where: map[string]any{"sku": "eq.SKU-1"}, Set: change}}
	for _, expected := range []string{"", "lease_released"} {
		if got, err := l.Update(t.Context(), "inventory", sku("SKU-1"), change); err != nil || got.Affected != 1 || got.Observed != expected {
			t.Errorf("%+v, %v, expected %q", got, err, expected)
		}
		if got, err := c.Transaction(t.Context(), both, l); err != nil || got[0].Observed != expected {
			t.Errorf("%+v, %v, expected %q", got, err, expected)
		}
		if expected == "" {
			giveAway(t, g, l)
		}
	}
}

func TestATransactionNamesTheLeaseThatWasRefused(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	c := newClient(t, g.URL)
	one, two := acquire(t, c, shelf, client.TTL(long)), acquire(t, c, "inventory:SKU-2", client.TTL(long))
	exactly := int64(1)
	less := func(name string) client.Operation {
		return client.Operation{Op: "update", Table: "inventory", Where: map[string]any{"sku": "eq." + name},
			Increment: map[string]int{"available": -1}, ExpectRows: &exactly, Returning: []string{"available"}}
	}
	both := []client.Operation{less("SKU-1"), less("SKU-2")}
	got, err := c.Transaction(t.Context(), both, one, two)
	if err != nil || len(got) != 2 || string(got[1].Rows) != `[{"available":3}]` {
		t.Fatalf("%+v, %v", got, err)
	}
	giveAway(t, g, two)
	_, err = c.Transaction(t.Context(), both, one, two)
	is(t, err, client.ErrStale, client.ErrLost)
	is(t, two.Err(), client.ErrStale)
	if one.Err() != nil {
		t.Errorf("the other lease: %v", one.Err())
	}
	_, err = c.Transaction(t.Context(), both, one, two)
	is(t, err, client.ErrLost)
	if told := "nothing was sent"; !strings.Contains(err.Error(), told) {
		t.Errorf("%v: not %q", err, told)
	}
	if _, err := c.Transaction(t.Context(), both); err == nil {
		t.Error("a transaction without a lease was sent")
	}
}

// giveAway releases the lease behind its back.
func giveAway(t testing.TB, g *testenv.Gateway, l *client.Lease) {
	t.Helper()
	body := fmt.Sprintf(`{"key":%q,"holder":%q,"token":"%d"}`, l.Key(), l.Holder(), l.Token())
	if a := g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/v1/leases/release", Body: body}); a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
}
