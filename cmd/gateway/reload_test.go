package main_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
)

const (
	readAnew    = "the configuration was read anew"
	notReadAnew = "the configuration could not be read anew; the gateway goes on with the one it has"
)

const oneTable = "tables:\n  - name: shop.inventory\n    lock: \"inventory:{sku}\"\n"

// hangUp lets g read its file as if it had been started with o, and waits for the
// times-th line that says said.
func hangUp(t *testing.T, g *testenv.Gateway, o testenv.GatewayOptions, said string, times int) {
	t.Helper()
	g.Configure(t, o)
	g.Signal(t, syscall.SIGHUP)
	g.AwaitLogs(t, said, times)
}

func statusOf(t *testing.T, g *testenv.Gateway, path string, want int) string {
	t.Helper()
	answer := g.Do(t, testenv.Request{Path: path})
	if answer.Status != want {
		t.Errorf("%s: %d, expected %d: %s", path, answer.Status, want, answer.Body)
	}
	return answer.Body
}

func metricsOf(t *testing.T, g *testenv.Gateway) string {
	t.Helper()
	resp, err := http.Get(g.AdminURL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func wantMetric(t *testing.T, g *testenv.Gateway, line string) {
	t.Helper()
	if !strings.Contains(metricsOf(t, g), "\n"+line+"\n") {
		t.Errorf("/metrics has no line %q", line)
	}
}

func TestAHangUpTakesTheConfigurationOver(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Tables: oneTable})
	statusOf(t, g, "/rest/orders", http.StatusNotFound)
	if l := g.Acquire(t, "job:1", 0); l.TTLMS > 10_000 {
		t.Errorf("a lease of %d ms", l.TTLMS)
	}
	o := g.Options
	o.Tables = "tables: [{name: shop.orders, lock: 'order:{order_no}'}]\n"
	o.Config = `limits: {max_body_bytes: 100B, max_rows: 1}
leases: {default_ttl: 1m, namespaces: [{prefix: 'short:', default_ttl: 2s}]}
audit: {keep_refusals: 48h}
statements: [{name: tell, sql: 'SELECT 7 AS n', lock: tell}]
log: {level: warn}
`
	hangUp(t, g, o, readAnew, 1)
	statusOf(t, g, "/rest/orders", http.StatusOK)
	statusOf(t, g, "/rest/inventory", http.StatusNotFound)
	for key, ttl := range map[string]int64{"job:2": 60_000, "short:1": 2_000} {
		if l := g.Acquire(t, key, 0); l.TTLMS > ttl || l.TTLMS < ttl/2 {
			t.Errorf("the lease of %s is for %d ms, not %d", key, l.TTLMS, ttl)
		}
	}
	l := g.Acquire(t, "tell", 0)
	call := testenv.Request{Method: http.MethodPost, Path: "/rest/rpc/tell", Header: l.Header(), Body: `{}`}
	if answer := g.Do(t, call); answer.Status != http.StatusOK || answer.Body != `[{"n":7}]` {
		t.Errorf("%d %s", answer.Status, answer.Body)
	}
	call.Body = "{" + strings.Repeat(" ", 100) + "}"
	if answer := g.Do(t, call); answer.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body that is too large by now: %d", answer.Status)
	}
	if requests := strings.Count(g.Log(), `"msg":"request"`); requests != 2 {
		t.Errorf("%d requests are logged, 2 were made before the level was changed:\n%s", requests, g.Log())
	}
	for _, changed := range []string{`"changed":["leases.default_ttl","leases.namespaces","limits.max_body_bytes"`, `"log.level"`} {
		if !strings.Contains(g.Log(), changed) {
			t.Errorf("the log does not tell %s:\n%s", changed, g.Log())
		}
	}
	wantMetric(t, g, "fencegate_config_last_reload_successful 1")
	wantMetric(t, g, "fencegate_ready 1")
}

func TestAFileThatIsWrongChangesNothing(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Tables: oneTable})
	good := g.Options
	const orders = "  - {name: shop.orders, lock: 'order:{order_no}'}\n"
	times := 0
	for name, c := range map[string]struct {
		tables, config string
		says           []string
	}{
		"AMistake": {oneTable + orders, "limits: {max_rows: none}\n", []string{"gateway.yaml:10:20: limits.max_rows: must be a whole number"}},
		"ATableThatIsNotThere": {oneTable + orders + "  - {name: shop.nope, lock: x}\n", "limits: {max_rows: 1}\n",
			[]string{`gateway.yaml:10: table \"shop\".\"nope\": there is no such table`}},
		"AStatementThatPostgreSQLDoesNotTake": {oneTable + orders, "statements: [{name: bad, sql: 'SELECT nothing', lock: x}]\n",
			[]string{`gateway.yaml:10: statement \"bad\"`, "does not exist"}},
		"WhatNeedsARestart": {oneTable + orders, "log: {format: text}\naudit: {keep_refusals: 100h}\nlimits: {max_in_flight: 513}\n", []string{
			"gateway.yaml:4:", "redis.key_prefix: changed: needs a restart", "gateway.yaml:10:15: log.format: changed: needs a restart",
			"gateway.yaml:12:25: limits.max_in_flight: is more than the 512 that this gateway started with: needs a restart"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := good
			o.Tables, o.Config = c.tables, c.config
			if name == "WhatNeedsARestart" {
				o.KeyPrefix = "other:"
			}
			times++
			hangUp(t, g, o, notReadAnew, times)
			for _, says := range c.says {
				if !strings.Contains(g.Log(), says) {
					t.Errorf("the log does not say %q:\n%s", says, g.Log())
				}
			}
			statusOf(t, g, "/rest/orders", http.StatusNotFound)
			if rows := statusOf(t, g, "/rest/inventory?select=sku", http.StatusOK); !strings.Contains(rows, "SKU-2") {
				t.Errorf("another limit is in force: %s", rows)
			}
			wantMetric(t, g, "fencegate_config_last_reload_successful 0")
		})
	}
	if strings.Contains(g.Log(), readAnew) {
		t.Errorf("one of them was taken over:\n%s", g.Log())
	}
	good.Tables += orders
	hangUp(t, g, good, readAnew, 1)
	statusOf(t, g, "/rest/orders", http.StatusOK)
	wantMetric(t, g, "fencegate_config_last_reload_successful 1")
}

// What may be at work at once is counted over all configurations.
func TestALimitThatShrinksHoldsForNewRequests(t *testing.T) {
	t.Parallel()
	g := patientGateway(t, "")
	l := g.Acquire(t, "inventory:SKU-1", 60_000)
	unlock := lockRow(t, g)
	ended := make(chan testenv.Response)
	go func() { ended <- g.Patch(t, l, "inventory?sku=eq.SKU-1", `{"available":3}`) }()
	awaitBlocked(t, g)
	o := g.Options
	o.Config = strings.Replace(o.Config, patience, "limits: {request_timeout: 1m, max_in_flight: 1}\n", 1)
	hangUp(t, g, o, readAnew, 1)
	if answer := g.TryAcquire(t, "job:1", 0); answer.Status != http.StatusServiceUnavailable {
		t.Errorf("a second request beside the one from before: %d %s", answer.Status, answer.Body)
	}
	unlock()
	if answer := <-ended; answer.Status != http.StatusNoContent {
		t.Errorf("the one from before: %d %s", answer.Status, answer.Body)
	}
	if answer := g.TryAcquire(t, "job:1", 0); answer.Status != http.StatusCreated {
		t.Errorf("%d %s", answer.Status, answer.Body)
	}
	hangUp(t, g, g.Options, readAnew, 2) // back to where it started
	g.Acquire(t, "job:2", 0)
}

// patientGateway is one whose writes wait for a row as long as a test may take.
func patientGateway(t *testing.T, more string) *testenv.Gateway {
	t.Helper()
	db := testenv.Postgres(t)
	db.Exec(t, devstack.Shop)
	if !strings.Contains(more, "limits:") {
		more += patience
	}
	return testenv.StartGateway(t, testenv.GatewayOptions{Database: db, Config: fmt.Sprintf(
		"database: {url: '%s', reload_on_notify: false, lock_timeout: 40s, statement_timeout: 50s}\n", db.URL) + more})
}

const patience = "limits: {request_timeout: 1m}\n"

// lockRow keeps writes to SKU-1 waiting in the database.
func lockRow(t *testing.T, g *testenv.Gateway) (unlock func()) {
	t.Helper()
	tx, err := g.Database.Pool(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT 1 FROM shop.inventory WHERE sku = 'SKU-1' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// awaitBlocked returns once a session of the database waits for a lock.
func awaitBlocked(t *testing.T, g *testenv.Gateway) {
	t.Helper()
	for pool, waiting := g.Database.Pool(t), 0; waiting == 0; {
		const query = `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`
		if err := pool.QueryRow(t.Context(), query).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAWriteUnderWayEndsUnderTheConfigurationItBeganWith(t *testing.T) {
	t.Parallel()
	g := patientGateway(t, "")
	l := g.Acquire(t, "inventory:SKU-1", 60_000)
	unlock := lockRow(t, g)
	ended := make(chan testenv.Response)
	go func() { ended <- g.Patch(t, l, "inventory?sku=eq.SKU-1", `{"available":3}`) }()
	awaitBlocked(t, g)
	o := g.Options
	o.Tables = "tables: [{name: shop.orders, lock: 'order:{order_no}'}]\n"
	hangUp(t, g, o, readAnew, 1)
	statusOf(t, g, "/rest/inventory", http.StatusNotFound)
	unlock()
	if answer := <-ended; answer.Status != http.StatusNoContent {
		t.Errorf("%d %s", answer.Status, answer.Body)
	}
	if answer := g.Patch(t, l, "inventory?sku=eq.SKU-1", `{"available":4}`); answer.Status != http.StatusNotFound {
		t.Errorf("a write that began later: %d %s", answer.Status, answer.Body)
	}
}

func TestNoRequestIsLostToAReload(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	var stop atomic.Bool
	var done atomic.Int64
	var workers sync.WaitGroup
	for n := range 4 {
		l := g.Acquire(t, fmt.Sprintf("order:W-%d", n), 300_000)
		workers.Go(func() {
			for i := 0; !stop.Load(); i++ {
				body := fmt.Sprintf(`{"order_no":"W-%d","customer":"6f1c2a9e-0d53-4b0e-9a39-0d6f5a1c7e11","total":%d}`, n, i)
				answer := g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/rest/orders?on_conflict=order_no", Body: body,
					Header: withPrefer(l, "resolution=merge-duplicates")})
				if answer.Status >= 300 {
					t.Errorf("%d %s", answer.Status, answer.Body)
				}
				done.Add(1)
			}
		})
	}
	for n := range 10 {
		o := g.Options
		o.Config = fmt.Sprintf("limits: {max_rows: %d, max_connections: %d}\n", 100+n, 1000+n)
		before := done.Load()
		hangUp(t, g, o, readAnew, n+1)
		for done.Load() < before+20 && !t.Failed() {
			statusOf(t, g, "/rest/orders?select=order_no", http.StatusOK)
		}
	}
	stop.Store(true)
	workers.Wait()
}

func withPrefer(l testenv.Lease, prefer string) http.Header {
	h := l.Header()
	h.Set("Prefer", prefer)
	return h
}

func TestAPasswordInAFileIsTakenOver(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	options, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	admin := redis.NewClient(options)
	defer admin.Close()
	set := func(password string) {
		t.Helper()
		if err := admin.ConfigSet(t.Context(), "requirepass", password).Err(); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set("first")
	write("first")
	g := testenv.StartGateway(t, testenv.GatewayOptions{
		LockService: fmt.Sprintf("redis: {url: '%s', password_file: '%s'}\n", server.URL(), file)})
	g.Acquire(t, "job:1", 0)
	write("wrong")
	hangUp(t, g, g.Options, notReadAnew, 1)
	g.Acquire(t, "job:2", 0)
	set("second")
	write("second")
	hangUp(t, g, g.Options, readAnew, 1)
	if err := admin.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	g.Acquire(t, "job:3", 0)
	for _, secret := range []string{"first", "wrong", "second"} {
		if strings.Contains(g.Log(), `"`+secret) {
			t.Errorf("the log has the password %s", secret)
		}
	}
}
