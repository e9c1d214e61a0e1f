// Package interop_test drives the gateway with the stock JavaScript client of
// PostgREST, as an application uses it that got nothing but three headers.
package interop_test

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
)

//go:embed tables.sql
var tablesSQL string

const tables = devstack.ShopTables + `  - name: shop.parts
    lock: "shelf:{shelf}"
  - name: shop.films
    lock: films
    operations: [select]
`

func TestPostgrestJS(t *testing.T) {
	t.Parallel()
	needClient(t)
	g := start(t, tablesSQL, "")
	for _, file := range []string{"fence.mjs", "insert.mjs", "upsert.mjs", "change.mjs", "filter.mjs", "read.mjs", "error.mjs"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			runCases(t, file, environment(t, g, file))
		})
	}
}

func start(t *testing.T, sql, config string) *testenv.Gateway {
	t.Helper()
	db := testenv.Shop(t)
	db.Exec(t, sql)
	return testenv.StartGateway(t, testenv.GatewayOptions{Database: db, Tables: tables, Config: config})
}

// environment tells the cases of a file where the gateway is, and gives them a
// shelf of their own and leases.
func environment(t *testing.T, g *testenv.Gateway, file string) []string {
	t.Helper()
	const ttlMS = 240_000 // the cases don't renew
	acquire := func(shelf string) testenv.Lease { return g.Acquire(t, "shelf:"+shelf, ttlMS) }
	stale := acquire(file + "/taken")
	release(t, g, stale)
	leases, err := json.Marshal(map[string]map[string]string{
		"own":    acquire(file).Headers,
		"stale":  stale.Headers,
		"newest": acquire(file + "/taken").Headers,
		"umlaut": acquire(file + "/größe").Headers,
	})
	if err != nil {
		t.Fatal(err)
	}
	return []string{"FENCEGATE_URL=" + g.URL, "FENCEGATE_SHELF=" + file, "FENCEGATE_LEASES=" + string(leases)}
}

func release(t *testing.T, g *testenv.Gateway, l testenv.Lease) {
	t.Helper()
	answer := g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/v1/leases/release", Body: l.Claim()})
	if answer.Status != http.StatusOK {
		t.Fatalf("releasing %s: %d %s", l.Key, answer.Status, answer.Body)
	}
}
