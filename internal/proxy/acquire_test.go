package proxy_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

type leaseSet struct{ Leases []testenv.Lease }

func acquireAll(t *testing.T, g *testenv.Gateway, body string) (set leaseSet) {
	t.Helper()
	answer := post(g, t, "/v1/leases", body)
	if answer.Status != http.StatusCreated {
		t.Fatalf("%d %s", answer.Status, answer.Body)
	}
	answer.JSON(t, &set)
	return set
}

func TestAcquireOfSeveralKeys(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	pool := g.Database.Pool(t)

	t.Run("AllAreGrantedInTheOrderAskedFor", func(t *testing.T) {
		set := acquireAll(t, g, `{"keys":["inventory:SKU-2","inventory:SKU-1"],"ttl_ms":60000}`)
		if len(set.Leases) != 2 || set.Leases[0].Key != "inventory:SKU-2" || set.Leases[1].Key != "inventory:SKU-1" ||
			set.Leases[0].Holder == set.Leases[1].Holder {
			t.Fatalf("%+v", set)
		}
		answer := g.Do(t, run(transaction(set.Leases,
			`{"op":"update","table":"inventory","where":{"sku":"eq.SKU-1"},"set":{"available":1}},
			 {"op":"update","table":"inventory","where":{"sku":"eq.SKU-2"},"set":{"available":2}}`)))
		if answer.Status != http.StatusOK {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})

	t.Run("OneInAnArrayIsAnArray", func(t *testing.T) {
		if set := acquireAll(t, g, `{"keys":["alone"]}`); len(set.Leases) != 1 || set.Leases[0].Token != "1" {
			t.Errorf("%+v", set)
		}
	})

	t.Run("OneThatIsHeldKeepsAllFree", func(t *testing.T) {
		g.Acquire(t, "b", 60000)
		before := grants(t, pool)
		for _, keys := range []string{`"a","b","c"`, `"c","b","a"`, `"b"`, `"c","b"`} {
			p := mustRefuse(t, post(g, t, "/v1/leases", `{"keys":[`+keys+`]}`), want{status: 423, slug: "lock_held"})
			if p.LockKey != "b" {
				t.Errorf("%q is named", p.LockKey)
			}
		}
		if after := grants(t, pool); after != before {
			t.Errorf("%d grants, %d before", after, before)
		}
		for _, key := range []string{"a", "c"} {
			if l := g.Acquire(t, key, 0); l.Token != "1" {
				t.Errorf("%+v", l)
			}
		}
	})

	t.Run("OppositeOrdersEnd", func(t *testing.T) {
		var workers sync.WaitGroup
		for n := range 12 {
			keys := []string{`"x"`, `"y"`, `"z"`}
			if n%2 == 1 {
				slices.Reverse(keys)
			}
			workers.Go(func() {
				body := fmt.Sprintf(`{"keys":[%s,%s,%s],"wait_ms":60000,"ttl_ms":60000}`, keys[0], keys[1], keys[2])
				answer, err := g.Try(t, t.Context(), testenv.Request{Method: http.MethodPost, Path: "/v1/leases", Body: body})
				if err != nil || answer.Status != http.StatusCreated {
					t.Errorf("%d %s, %v", answer.Status, answer.Body, err)
					return
				}
				var set leaseSet
				answer.JSON(t, &set)
				for _, l := range set.Leases {
					if answer := post(g, t, "/v1/leases/release", l.Claim()); answer.Body != `{"released":true}` {
						t.Errorf("%d %s", answer.Status, answer.Body)
					}
				}
			})
		}
		workers.Wait()
	})
}

func TestNamespacesHaveTermsOfTheirOwn(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: `
leases:
  max_ttl: 1m
  namespaces:
    - {prefix: "report:", min_ttl: 5s, default_ttl: 2m, max_ttl: 10m, max_lifetime: 6h}
    - {prefix: "report:daily:", max_ttl: 30s}
`})
	for body, ttl := range map[string]int64{
		`{"key":"report:1"}`:                               120_000,
		`{"key":"report:2","ttl_ms":600000}`:               600_000,
		`{"key":"report:daily:1"}`:                         10_000,
		`{"key":"report"}`:                                 10_000,
		`{"key":"plain","ttl_ms":60000}`:                   60_000,
		`{"keys":["report:3","plain:3"]}`:                  10_000,
		`{"keys":["report:4","report:5"]}`:                 120_000,
		`{"keys":["report:6","plain:6"],"ttl_ms":60000}`:   60_000,
		`{"keys":["report:daily:7"],"ttl_ms":30000}`:       30_000,
		`{"key":"base64:cmVwb3J0OjM4","client":"encoded"}`: 120_000,
	} {
		answer := post(g, t, "/v1/leases", body)
		var l struct {
			testenv.Lease
			leaseSet
		}
		answer.JSON(t, &l)
		if answer.Status != http.StatusCreated || append(l.Leases, l.Lease)[0].TTLMS != ttl {
			t.Errorf("%s: %d %s", body, answer.Status, answer.Body)
		}
	}
	for _, body := range []string{
		`{"key":"report:9","ttl_ms":4999}`, `{"key":"report:9","ttl_ms":600001}`, `{"key":"report:daily:9","ttl_ms":30001}`,
		`{"key":"plain:9","ttl_ms":60001}`, `{"keys":["report:9","plain:9"],"ttl_ms":60001}`, `{"keys":["report:9","plain:9"],"ttl_ms":4000}`,
	} {
		mustRefuse(t, post(g, t, "/v1/leases", body), want{status: 422, slug: "ttl_out_of_range", pointer: "/ttl_ms"})
	}
	l := g.Acquire(t, "report:10", 5000)
	mustRefuse(t, post(g, t, "/v1/leases/renew", claim(l, "600001")), want{status: 422, slug: "ttl_out_of_range", pointer: "/ttl_ms"})
	var renewed struct {
		TTL      int64 `json:"ttl_ms"`
		Lifetime int64 `json:"max_lifetime_ms"`
	}
	post(g, t, "/v1/leases/renew", claim(l, "600000")).JSON(t, &renewed)
	if renewed.TTL != 600_000 || renewed.Lifetime != 6*3600_000 {
		t.Errorf("%+v", renewed)
	}
}
