package chaos_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
)

// pingAfter is how long a connection may be idle before the pool asks whether
// it still lives, which is a round trip more.
const pingAfter = time.Second

func TestAWarmWriteCostsOneRoundTripToEachServer(t *testing.T) {
	t.Parallel()
	p := build(t, options{})
	sku, key := p.item(t, "A")
	old := p.stale(t, key)
	l := p.Acquire(t, key, 60000)
	n := 0
	post := func(path, body string) func() testenv.Response {
		return func() testenv.Response {
			return p.Do(t, testenv.Request{Method: http.MethodPost, Path: path, Body: body})
		}
	}
	for _, act := range []struct {
		name            string
		status          int
		postgres, redis int // at most; exactly for the first
		do              func() testenv.Response
	}{
		{"patch", 204, 1, 1, func() testenv.Response { n++; return set(t, p.Gateway, l, sku, n) }},
		{"renew", 200, 1, 1, post("/v1/leases/renew", l.Claim())},
		{"stale refusal", 412, 2, 1, func() testenv.Response { return set(t, p.Gateway, old, sku, 0) }},
		{"acquire", 201, 2, 2, func() testenv.Response { n++; return p.TryAcquire(t, fmt.Sprint("inventory:B", n), 60000) }},
		{"held", 423, 1, 1, post("/v1/leases", `{"key":"`+key+`"}`)},
		{"late release", 200, 2, 0, post("/v1/leases/release", old.Claim())},
		{"release", 200, 1, 1, post("/v1/leases/release", l.Claim())},
	} {
		postgres, redis := p.cost(t, act.status, act.do)
		t.Logf("%s: %d round trips to PostgreSQL, %d to Redis", act.name, postgres, redis)
		if postgres > act.postgres || redis > act.redis {
			t.Errorf("%s: %d + %d round trips, at most %d + %d are due", act.name, postgres, redis, act.postgres, act.redis)
		}
		if act.name == "patch" && (postgres != 1 || redis != 1) {
			t.Errorf("a write costs %d + %d round trips", postgres, redis)
		}
	}
}

// cost counts what do sends when everything is warm: connections open and not
// idle for long, statements prepared, scripts known.
func (p *plant) cost(t *testing.T, status int, do func() testenv.Response) (postgres, redis int) {
	t.Helper()
	wantStatus(t, do(), status)
	for {
		wantStatus(t, do(), status)
		p.pg.Reset()
		p.redis.Reset()
		began := time.Now()
		wantStatus(t, do(), status)
		if time.Since(began) < pingAfter/2 { // else the pool may have pinged
			return p.pg.RoundTrips(), p.redis.RoundTrips()
		}
	}
}

func TestAnObservedWriteCostsOneRoundTripAsWell(t *testing.T) {
	t.Parallel()
	p := build(t, options{GatewayOptions: testenv.GatewayOptions{Tables: strings.Replace(devstack.ShopTables, `"inventory:{sku}"`, "inventory:{sku}\n    mode: observe", 1)}})
	sku, key := p.item(t, "A")
	old := p.stale(t, key)
	l := p.Acquire(t, key, 60000)
	patch := func(h http.Header) func() testenv.Response {
		return func() testenv.Response {
			return p.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq." + sku, Header: h, Body: `{"available":1}`})
		}
	}
	for _, act := range []struct {
		name            string
		postgres, redis int
		h               http.Header
	}{
		{"its holder", 1, 1, l.Header()},
		{"no lock", 1, 0, nil},
		{"a stale one", 2, 1, old.Header()}, // the mark is asked in between, as for a refusal
	} {
		if postgres, redis := p.cost(t, http.StatusNoContent, patch(act.h)); postgres != act.postgres || redis != act.redis {
			t.Errorf("%s: %d + %d round trips, not %d + %d", act.name, postgres, redis, act.postgres, act.redis)
		}
	}
}
