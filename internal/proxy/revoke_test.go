package proxy_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestRevoke(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	pool := g.Database.Pool(t)
	w := watch(t, g)
	revoke := func(body string) testenv.Response { return post(g, t, "/v1/leases/revoke", body) }

	t.Run("TheHolderIsCutOffAtOnce", func(t *testing.T) {
		l := g.Acquire(t, "inventory:SKU-1", 60000)
		if answer := revoke(`{"key":"inventory:SKU-1","reason":"it runs away"}`); answer.Status != http.StatusOK || answer.Body != `{"key":"inventory:SKU-1","token":"1"}` {
			t.Fatalf("%d %s", answer.Status, answer.Body)
		}
		if s := look(t, g, l.Key); s.Live || s.Mark.State != "revoked" {
			t.Errorf("%+v", s)
		}
		q := testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1", Header: l.Header(), Body: `{"available":1}`}
		w.refused(t, g, q, want{status: 412, slug: "lease_revoked"})
		mustRefuse(t, post(g, t, "/v1/leases/renew", claim(l, "")), want{status: 412, slug: "lease_revoked"})
		if next := g.Acquire(t, l.Key, 60000); next.Token != "2" {
			t.Errorf("%+v", next)
		}
		const history = `SELECT string_agg(concat_ws(' ', event, token, principal, reason), ', ' ORDER BY id) FROM fencegate.grants WHERE lock_key = 'inventory:SKU-1'`
		if got := scalar[string](t, pool, history); got != "granted 1 anyone, revoked 1 anyone it runs away, granted 2 anyone" {
			t.Error(got)
		}
	})

	t.Run("NobodyIsGrantedABlockedKey", func(t *testing.T) {
		g.Acquire(t, "blocked", 60000)
		if answer := revoke(`{"key":"blocked","reason":"r","block_ms":3600000}`); answer.Status != http.StatusOK || !strings.Contains(answer.Body, `"blocked_until":"`) {
			t.Fatalf("%d %s", answer.Status, answer.Body)
		}
		answer := g.TryAcquire(t, "blocked", 0)
		mustRefuse(t, answer, want{status: 423, slug: "lock_held"})
		if wait, err := strconv.Atoi(answer.Header.Get("Retry-After")); err != nil || wait < 3500 {
			t.Errorf("Retry-After: %q", answer.Header.Get("Retry-After"))
		}
		// A second revocation can end it.
		revoke(`{"key":"blocked","reason":"over","block_ms":0}`)
		if next := g.Acquire(t, "blocked", 0); next.Token != "2" {
			t.Errorf("%+v", next)
		}
	})

	t.Run("WhoWaitsIsGrantedItAfterTheBlock", func(t *testing.T) {
		g.Acquire(t, "patience", 60000)
		revoke(`{"key":"patience","reason":"r","block_ms":700}`)
		answer := post(g, t, "/v1/leases", `{"key":"patience","wait_ms":60000}`)
		if answer.Status != http.StatusCreated {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})

	t.Run("AReleasedKeyCanBeBlocked", func(t *testing.T) {
		post(g, t, "/v1/leases/release", g.Acquire(t, "released", 60000).Claim())
		revoke(`{"key":"released","reason":"r","block_ms":60000}`)
		mustRefuse(t, g.TryAcquire(t, "released", 0), want{status: 423, slug: "lock_held"})
	})

	for body, want := range map[string]want{
		`{"key":"never","reason":"r"}`: {status: 404, slug: "not_found", pointer: "/key"},
		`{"reason":"r"}`:               {status: 400, slug: "fencing_malformed", pointer: "/key"},
		`{"key":"a,b","reason":"r"}`:   {status: 400, slug: "fencing_malformed", pointer: "/key"},
		`{"key":"kept"}`:               {status: 400, slug: "malformed_json", pointer: "/reason"},
		`{"key":"kept","reason":" "}`:  {status: 400, slug: "malformed_json", pointer: "/reason"},
		`{"key":"kept","reason":"` + strings.Repeat("ü", 501) + `"}`: {status: 400, slug: "malformed_json", pointer: "/reason"},
		`{"key":"kept","reason":"r","block_ms":-1}`:                  {status: 422, slug: "out_of_range", pointer: "/block_ms"},
		`{"key":"kept","reason":"r","block_ms":86400001}`:            {status: 422, slug: "out_of_range", pointer: "/block_ms"},
		`{"key":"kept","reason":"r","block_ms":9223372036854775807}`: {status: 422, slug: "out_of_range", pointer: "/block_ms"},
		`{"key":"kept","reason":"r","holder":"x"}`:                   {status: 400, slug: "malformed_json", pointer: "/holder"},
	} {
		t.Run("Refused/"+body[:min(len(body), 40)], func(t *testing.T) {
			if !look(t, g, "kept").Live {
				g.Acquire(t, "kept", 60000)
			}
			mustRefuse(t, revoke(body), want)
			if !look(t, g, "kept").Live {
				t.Error("it was revoked")
			}
		})
	}
}
