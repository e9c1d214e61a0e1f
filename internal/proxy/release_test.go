package proxy_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestRelease(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: shortLeases})
	w := watch(t, g)
	release := func(t *testing.T, l testenv.Lease) string {
		t.Helper()
		answer := post(g, t, "/v1/leases/release", claim(l, ""))
		if answer.Status != http.StatusOK {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
		return answer.Body
	}

	t.Run("NothingIsAdmittedAfterwards", func(t *testing.T) {
		l := g.Acquire(t, "inventory:SKU-1", 60000)
		if got := release(t, l); got != `{"released":true}` {
			t.Error(got)
		}
		q := testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1", Header: l.Header(), Body: `{"available":1}`}
		p := w.refused(t, g, q, want{status: 412, slug: "lease_released"})
		if p.HighWaterToken != l.Token || p.AuditID == "" {
			t.Errorf("%+v", p)
		}
		if s := look(t, g, l.Key); s.Live || s.Mark.State != "released" {
			t.Errorf("%+v", s)
		}
	})

	t.Run("TwiceIsOnce", func(t *testing.T) {
		l := g.Acquire(t, "twice", 60000)
		if got := release(t, l) + release(t, l); got != `{"released":true}{"reason":"already_released","released":true}` {
			t.Error(got)
		}
	})

	t.Run("TheNextOneNeedNotWait", func(t *testing.T) {
		l := g.Acquire(t, "next", 60000)
		release(t, l)
		if next := g.Acquire(t, "next", 60000); next.Token != "2" {
			t.Errorf("%+v", next)
		}
	})

	t.Run("AStrangersReleaseChangesNothing", func(t *testing.T) {
		old := g.Acquire(t, "stranger", 60000)
		release(t, old)
		l := g.Acquire(t, "stranger", 60000)
		for reason, other := range map[string]testenv.Lease{
			"holder_mismatch":   {Key: l.Key, Holder: "somebody", Token: l.Token},
			"stale_token":       old,
			"token_not_granted": {Key: l.Key, Holder: l.Holder, Token: "3"},
		} {
			if got := release(t, other); got != `{"reason":"`+reason+`","released":false}` {
				t.Errorf("%s: %s", reason, got)
			}
			events := listed(t, g, "key=stranger&code="+reason)
			if len(events) != 1 || events[0].Disposition != "event" || events[0].Operation != "release" {
				t.Errorf("%s: %+v", reason, events)
			}
		}
		if got := release(t, testenv.Lease{Key: "never", Holder: "h", Token: "1"}); got != `{"reason":"token_not_granted","released":false}` {
			t.Error(got)
		}
		if s := look(t, g, l.Key); !s.Live || !s.OfMark || s.Mark.State != "held" {
			t.Errorf("%+v", s)
		}
	})

	t.Run("AnExpiredLeaseCanBeClosed", func(t *testing.T) {
		l := g.Acquire(t, "late", 100)
		awaitExpiry(t, g, l.Key)
		if got := release(t, l); got != `{"released":true}` {
			t.Error(got)
		}
	})

	for body, want := range map[string]want{
		`{"key":"k","holder":"h"}`:                          {status: 400, slug: "fencing_malformed", pointer: "/token"},
		`{"key":"k","token":"1"}`:                           {status: 400, slug: "fencing_malformed", pointer: "/holder"},
		`{"holder":"h","token":"1"}`:                        {status: 400, slug: "fencing_malformed", pointer: "/key"},
		`{"key":"k","holder":"h","token":1}`:                {status: 400, slug: "malformed_json", pointer: "/token"},
		`{"key":"k","holder":"h","token":"01"}`:             {status: 400, slug: "fencing_malformed", pointer: "/token"},
		`{"key":"k","holder":"h,i","token":"1"}`:            {status: 400, slug: "fencing_malformed", pointer: "/holder"},
		`{"key":"k","holder":"h","token":"1","force":true}`: {status: 400, slug: "malformed_json", pointer: "/force"},
		`{"key":"k","holder":"h","token":"1","reason":"x"}`: {status: 400, slug: "malformed_json", pointer: "/reason"},
		`{"key":"k","holder":"h","token":"1","token":"2"}`:  {status: 400, slug: "malformed_json", pointer: "/token"},
	} {
		t.Run("Refused/"+body, func(t *testing.T) {
			for _, path := range []string{"/v1/leases/release", "/v1/leases/renew"} {
				mustRefuse(t, post(g, t, path, body), want)
			}
		})
	}
}

// The story that all of this is for.
func TestALateWriterIsRefused(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: shortLeases})
	w := watch(t, g)
	paused := g.Acquire(t, "inventory:SKU-1", 100)
	late := testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1", Header: with(paused, "Request-Id", "late-1"), Body: `{"available":99}`}

	awaitExpiry(t, g, paused.Key)
	t.Run("ALeaseThatRanOutWritesNothing", func(t *testing.T) {
		w.refused(t, g, late, want{status: 412, slug: "lease_expired"})
	})

	next := g.Acquire(t, "inventory:SKU-1", 60000)
	t.Run("TheNextTokenIsHigher", func(t *testing.T) {
		if before, _ := strconv.Atoi(paused.Token); next.Token != strconv.Itoa(before+1) || paused.Holder == next.Holder {
			t.Errorf("%+v and %+v", paused, next)
		}
	})

	for _, q := range []testenv.Request{
		late,
		{Method: http.MethodPost, Path: "/rest/inventory", Header: late.Header, Body: `{"sku":"SKU-1"}`},
		{Method: http.MethodDelete, Path: "/rest/inventory?sku=eq.SKU-1", Header: late.Header},
		{Method: http.MethodDelete, Path: "/rest/inventory?sku=eq.SKU-2", Header: late.Header}, // stale before out of scope
	} {
		t.Run("TheOldTokenWritesNothing/"+q.Method, func(t *testing.T) {
			answer := g.Do(t, q)
			p := mustRefuse(t, answer, want{status: 412, slug: "stale_token"})
			w.unchanged(t)
			if answer.Header.Get("Fencing-Refused") != "stale_token" || p.HighWaterToken != next.Token || p.PresentedToken != paused.Token ||
				p.LockKey != paused.Key || p.AuditID == "" || p.Retryable {
				t.Errorf("%v %s", answer.Header, answer.Body)
			}
			var record refusal
			g.Do(t, testenv.Request{Path: "/v1/refusals/" + p.AuditID}).JSON(t, &record)
			if record.Code != "stale_token" || record.Disposition != "refused" || record.Mark != next.Token || record.Token != paused.Token ||
				record.RequestID != "late-1" || record.Table != "shop.inventory" || record.Client != t.Name()[:len("TestALateWriterIsRefused")] {
				t.Errorf("%+v", record)
			}
			if strings.Contains(answer.Body, next.Holder) {
				t.Error("the refusal gives the next holder away")
			}
		})
	}

	t.Run("TheNewHolderWrites", func(t *testing.T) {
		if answer := g.Patch(t, next, "inventory?sku=eq.SKU-1", `{"available":7}`); answer.Status != http.StatusNoContent {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
		if got := scalar[int](t, w.pool, `SELECT available FROM shop.inventory WHERE sku = 'SKU-1'`); got != 7 {
			t.Errorf("available is %d", got)
		}
	})
}
