package client_test

import (
	"testing"

	"github.com/fencegate/fencegate/client"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestALeaseIsHandedOnToAnotherProcess(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	c := newClient(t, g.URL)
	for _, key := range []string{shelf, "inventory:Größe"} {
		first := acquire(t, c, key, client.TTL(long))
		h := first.Headers() // as FENCE_KEY and so on have them
		second, err := c.Resume(t.Context(), h.Get("Lock-Key"), first.Holder(), first.Token(), client.TTL(long), client.WithoutWatchdog())
		if err != nil {
			t.Fatal(err)
		}
		if second.Left() <= 0 || second.Headers().Get("Lock-Key") != h.Get("Lock-Key") {
			t.Errorf("%v has %s left", second, second.Left())
		}
		if key == shelf {
			if err := available(t, second, 6); err != nil {
				t.Error(err)
			}
		}
		release(t, second, true)
		_, err = c.Resume(t.Context(), key, first.Holder(), first.Token())
		is(t, err, client.ErrStale, client.ErrLost)
	}
	if _, err := c.Resume(t.Context(), shelf, "", 0); err == nil {
		t.Error("nothing was resumed")
	}
}
