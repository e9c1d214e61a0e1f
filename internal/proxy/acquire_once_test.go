package proxy_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestAnAcquireSentAgainIsAnsweredAlike(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: shortLeases})
	pool := g.Database.Pool(t)
	once := func(key, body string) testenv.Response {
		return g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/v1/leases", Header: http.Header{"Idempotency-Key": {key}}, Body: body})
	}
	granted := func(t *testing.T, key, body string) (l testenv.Lease) {
		t.Helper()
		answer := once(key, body)
		if answer.Status != http.StatusCreated || answer.Header.Get("Idempotency-Replayed") != "" {
			t.Fatalf("%d %s", answer.Status, answer.Body)
		}
		answer.JSON(t, &l)
		return l
	}

	t.Run("WithTheSameGrantAndTheTimeLeft", func(t *testing.T) {
		first := granted(t, "one", `{"key":"one","ttl_ms":60000,"client":"a"}`)
		before := grants(t, pool)
		answer := once(`"one"`, `{"client":"a","ttl_ms":60000,"key":"base64:b25l","wait_ms":5}`)
		var again testenv.Lease
		answer.JSON(t, &again)
		if answer.Status != http.StatusCreated || answer.Header.Get("Idempotency-Replayed") != "true" || again.Holder != first.Holder ||
			again.Token != first.Token || again.TTLMS > first.TTLMS || again.TTLMS < 1 || answer.Header.Get("Fencing-Token") != first.Token {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
		if after := grants(t, pool); after != before {
			t.Errorf("%d grants, %d before", after, before)
		}
	})

	t.Run("AnotherRequestUnderTheKeyIsRefused", func(t *testing.T) {
		granted(t, "reused", `{"key":"reused"}`)
		for _, body := range []string{`{"key":"reused 2"}`, `{"key":"reused","ttl_ms":5000}`, `{"keys":["reused","reused 3"]}`, `{"key":"reused","client":"another"}`} {
			mustRefuse(t, once("reused", body), want{status: 422, slug: "idempotency_key_reused", parameter: "Idempotency-Key"})
		}
		if l := g.Acquire(t, "reused 2", 0); l.Token != "1" {
			t.Errorf("%+v", l)
		}
	})

	t.Run("AGrantThatIsWorthNothingNowIsSaidToBe", func(t *testing.T) {
		released := granted(t, "released", `{"key":"released"}`)
		post(g, t, "/v1/leases/release", released.Claim())
		mustRefuse(t, once("released", `{"key":"released"}`), want{status: 412, slug: "lease_released"})

		granted(t, "expired", `{"key":"expired","ttl_ms":100}`)
		awaitExpiry(t, g, "expired")
		mustRefuse(t, once("expired", `{"key":"expired","ttl_ms":100}`), want{status: 412, slug: "lease_expired"})
		g.Acquire(t, "expired", 0)
		p := mustRefuse(t, once("expired", `{"key":"expired","ttl_ms":100}`), want{status: 412, slug: "stale_token"})
		if p.PresentedToken != "1" || p.HighWaterToken != "2" {
			t.Errorf("%+v", p)
		}
	})

	t.Run("ARefusedOneDoesNotUseTheKeyUp", func(t *testing.T) {
		held := g.Acquire(t, "held", 60000)
		mustRefuse(t, once("held", `{"key":"held"}`), want{status: 423, slug: "lock_held"})
		post(g, t, "/v1/leases/release", held.Claim())
		if l := granted(t, "held", `{"key":"held"}`); l.Token != "2" {
			t.Errorf("%+v", l)
		}
	})

	t.Run("AtTheSameTimeAllAreOne", func(t *testing.T) {
		tokens := make([]string, 10)
		var workers sync.WaitGroup
		for i := range tokens {
			workers.Go(func() {
				var set leaseSet
				once("crowd", `{"keys":["crowd 1","crowd 2"],"ttl_ms":60000,"wait_ms":60000}`).JSON(t, &set)
				for _, l := range set.Leases {
					tokens[i] += l.Token + l.Holder
				}
			})
		}
		workers.Wait()
		for _, token := range tokens {
			if token == "" || token != tokens[0] {
				t.Errorf("%q beside %q", token, tokens[0])
			}
		}
	})

	t.Run("TheKeyMustBeOne", func(t *testing.T) {
		for _, key := range []string{"", "two words", "ü"} {
			mustRefuse(t, once(key, `{"key":"malformed"}`), want{status: 400, slug: "idempotency_key_malformed", parameter: "Idempotency-Key"})
		}
	})
}
