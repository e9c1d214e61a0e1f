package proxy_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestRenew(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: shortLeases})
	events := func(t *testing.T, key string) []refusal { return listed(t, g, "key="+key+"&limit=1000") }

	t.Run("ItSetsTheEndAndAddsNothing", func(t *testing.T) {
		l := g.Acquire(t, "renew", 60000)
		for _, c := range []struct{ ttl, want string }{{"30000", "30000"}, {"30000", "30000"}, {"300000", "300000"}, {"1000", "1000"}, {"", "10000"}} {
			answer := post(g, t, "/v1/leases/renew", claim(l, c.ttl))
			var renewed testenv.Lease
			answer.JSON(t, &renewed)
			if answer.Status != 200 || renewed.Token != l.Token || renewed.Holder != l.Holder || strconv.FormatInt(renewed.TTLMS, 10) != c.want {
				t.Errorf("%d %s", answer.Status, answer.Body)
			}
			if s := look(t, g, l.Key); !s.Live || s.RemainingMS > renewed.TTLMS || s.RemainingMS < renewed.TTLMS-900 {
				t.Errorf("%s: %+v", c.ttl, s)
			}
		}
		if answer := g.Patch(t, l, "inventory?sku=eq.SKU-1", `{"available":1}`); answer.Problem(t).Slug() != "lock_scope" {
			t.Errorf("%s", answer.Body) // alive: only the scope is wrong
		}
	})

	t.Run("OnlyTheHolderRenews", func(t *testing.T) {
		l := g.Acquire(t, "strangers", 60000)
		for code, other := range map[string]testenv.Lease{
			"holder_mismatch":   {Key: l.Key, Holder: "somebody", Token: l.Token},
			"token_not_granted": {Key: l.Key, Holder: l.Holder, Token: "2"},
		} {
			p := mustRefuse(t, post(g, t, "/v1/leases/renew", claim(other, "")), want{status: 412, slug: code})
			if p.AuditID == "" || p.PresentedToken != other.Token || p.HighWaterToken != l.Token {
				t.Errorf("%+v", p)
			}
		}
		got := events(t, "strangers")
		if len(got) != 2 || got[0].Disposition != "event" || got[0].Operation != "renew" || got[0].Table != "" {
			t.Errorf("%+v", got)
		}
	})

	t.Run("AKeyThatWasNeverGrantedIsNotRenewed", func(t *testing.T) {
		p := mustRefuse(t, post(g, t, "/v1/leases/renew", `{"key":"unknown","holder":"h","token":"1"}`), want{status: 412, slug: "token_not_granted"})
		if p.HighWaterToken != "" || look(t, g, "unknown").Live {
			t.Errorf("%+v", p)
		}
	})

	t.Run("AnExpiredLeaseIsNotRevived", func(t *testing.T) {
		l := g.Acquire(t, "expired", 100)
		awaitExpiry(t, g, l.Key)
		mustRefuse(t, post(g, t, "/v1/leases/renew", claim(l, "")), want{status: 412, slug: "lease_expired"})
		if look(t, g, l.Key).Live {
			t.Error("it lives again")
		}
		if got := events(t, l.Key); len(got) != 1 || got[0].Code != "lease_expired" || got[0].Disposition != "event" || got[0].Client != t.Name() {
			t.Errorf("%+v", got)
		}
	})

	t.Run("AReleasedLeaseIsNotRevived", func(t *testing.T) {
		l := g.Acquire(t, "released", 60000)
		post(g, t, "/v1/leases/release", claim(l, ""))
		mustRefuse(t, post(g, t, "/v1/leases/renew", claim(l, "")), want{status: 412, slug: "lease_released"})
		next := g.Acquire(t, l.Key, 60000)
		mustRefuse(t, post(g, t, "/v1/leases/renew", claim(l, "")), want{status: 412, slug: "stale_token"})
		if s := look(t, g, l.Key); !s.OfMark || s.Mark.Token != next.Token {
			t.Errorf("%+v", s)
		}
	})

	t.Run("TimesOutOfRangeAreRefused", func(t *testing.T) {
		l := g.Acquire(t, "range", 60000)
		for _, ttl := range []string{"0", "-1", "99", "300001", "9223372036854775807"} {
			mustRefuse(t, post(g, t, "/v1/leases/renew", claim(l, ttl)), want{status: 422, slug: "ttl_out_of_range"})
		}
		if s := look(t, g, l.Key); s.RemainingMS < 50000 {
			t.Errorf("%+v", s)
		}
	})
}

func TestMaximumLifetime(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{
		Config: "leases: {min_ttl: 100ms, default_ttl: 500ms, max_ttl: 1s, max_lifetime: 1s}\n",
	})
	began := time.Now()
	l := g.Acquire(t, "lifetime", 500)
	for {
		answer := post(g, t, "/v1/leases/renew", claim(l, "1000"))
		if answer.Status == http.StatusOK {
			if time.Since(began) > 10*time.Second {
				t.Fatal("it is renewed for ever")
			}
			continue
		}
		mustRefuse(t, answer, want{status: 412, slug: "lease_expired"})
		break
	}
	if lived := time.Since(began); lived < 990*time.Millisecond {
		t.Errorf("it ended after %s", lived)
	}
	awaitExpiry(t, g, l.Key)
	// A lease this short can run out while it is granted, and takes a number.
	next := g.Acquire(t, l.Key, 0)
	const granted = `SELECT count(*)::text FROM fencegate.grants WHERE event = 'granted'`
	if want := scalar[string](t, g.Database.Pool(t), granted); next.Token != want || next.Token == l.Token {
		t.Errorf("%+v is not grant %s, after %+v", next, want, l)
	}
}
