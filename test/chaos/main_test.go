// Package chaos_test breaks what stands around a gateway: its servers, the
// wires to them, the gateway itself, at the worst moments, and holds what is
// left against the invariants.
package chaos_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "4") // most of the time they wait for a timeout or an expiry
	code := m.Run()
	testenv.Stop()
	os.Exit(code)
}

// journal leaves a second row for each change of an inventory row, so that a
// half write shows. The description "slow" makes a change take its time.
const journal = `
CREATE TABLE shop.journal (id bigint GENERATED ALWAYS AS IDENTITY, sku text NOT NULL, available integer NOT NULL);
CREATE FUNCTION shop.write_journal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.description = 'slow' THEN
        PERFORM pg_sleep(60);
    END IF;
    INSERT INTO shop.journal (sku, available) VALUES (NEW.sku, NEW.available);
    RETURN NEW;
END $$;
CREATE TRIGGER write_journal AFTER UPDATE ON shop.inventory
    FOR EACH ROW EXECUTE FUNCTION shop.write_journal();
`

// limits are short enough for a test to run into.
const limits = `
database: {url: '%s', pool_size: %d, read_pool_size: %d, lock_timeout: 400ms, statement_timeout: 800ms, reload_on_notify: false}
limits: {request_timeout: 1s}
`

// plant is a gateway with what a test looks at and breaks.
type plant struct {
	*testenv.Gateway
	db         *testenv.Database
	sql        *pgxpool.Pool // a way to the database that nothing breaks
	pg, redis  *testenv.Wire // nil: the gateway goes straight there
	redisURL   string        // of the server itself
	leasesName string        // prefix of its leases
}

// options is what build needs beyond the gateway's own.
type options struct {
	testenv.GatewayOptions
	setup string // SQL, after the shop and the journal
}

// build starts a gateway, over wires to both its servers, on the shop with the
// journal.
func build(t *testing.T, o options) *plant {
	t.Helper()
	shared, prefix := testenv.Redis(t)
	p := &plant{db: o.Database, redisURL: o.RedisURL, leasesName: prefix}
	if p.db == nil {
		p.db = testenv.Postgres(t)
	}
	if p.redisURL == "" {
		p.redisURL = shared
	}
	p.db.Exec(t, devstack.Shop+journal+o.setup)
	p.sql = p.db.Pool(t)
	p.start(t, o.GatewayOptions)
	return p
}

// sibling starts another gateway on the same servers, over wires of its own.
func (p *plant) sibling(t *testing.T) *plant {
	t.Helper()
	s := &plant{db: p.db, redisURL: p.redisURL, leasesName: p.leasesName, sql: p.sql}
	s.start(t, testenv.GatewayOptions{Tables: p.Options.Tables})
	return s
}

func (p *plant) start(t *testing.T, o testenv.GatewayOptions) {
	t.Helper()
	p.pg, p.redis = testenv.NewWire(t, cmp.Or(o.DatabaseURL, p.db.URL)), testenv.NewWire(t, p.redisURL)
	o.Database, o.DatabaseURL, o.RedisURL, o.KeyPrefix = p.db, p.pg.URL(), p.redis.URL(), p.leasesName
	o.Config = strings.Replace(o.Config, "%s", o.DatabaseURL, 1)
	p.Gateway = testenv.StartGateway(t, o)
}

// twin starts another gateway on the same servers, by way of databaseURL. What
// it sends to Redis meets no wire.
func (p *plant) twin(t *testing.T, databaseURL string) *testenv.Gateway {
	t.Helper()
	return testenv.StartGateway(t, testenv.GatewayOptions{
		Database: p.db, DatabaseURL: databaseURL, RedisURL: p.redisURL, KeyPrefix: p.leasesName,
	})
}

func tight(poolSize int) string {
	return strings.ReplaceAll(limits, "%d", fmt.Sprint(poolSize))
}

// item makes an inventory row and returns its sku and lock key.
func (p *plant) item(t testing.TB, sku string) (string, string) {
	t.Helper()
	if _, err := p.sql.Exec(t.Context(), `INSERT INTO shop.inventory (sku) VALUES ($1)`, sku); err != nil {
		t.Fatal(err)
	}
	return sku, "inventory:" + sku
}

// stale returns a claim that another one of the same key has overtaken.
func (p *plant) stale(t testing.TB, key string) testenv.Lease {
	t.Helper()
	old := p.Acquire(t, key, 60000)
	release(t, p.Gateway, old)
	release(t, p.Gateway, p.Acquire(t, key, 60000))
	return old
}

// set writes available to sku under l.
func set(t testing.TB, g *testenv.Gateway, l testenv.Lease, sku string, available int) testenv.Response {
	t.Helper()
	return g.Patch(t, l, "inventory?sku=eq."+sku, fmt.Sprintf(`{"available":%d}`, available))
}

func setRequest(l testenv.Lease, sku string, available int) testenv.Request {
	return testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq." + sku, Header: l.Header(),
		Body: fmt.Sprintf(`{"available":%d}`, available)}
}

func release(t testing.TB, g *testenv.Gateway, l testenv.Lease) {
	t.Helper()
	answer := g.Do(t, releaseRequest(l))
	if answer.Status != http.StatusOK {
		t.Fatalf("releasing: %d %s", answer.Status, answer.Body)
	}
}

func releaseRequest(l testenv.Lease) testenv.Request {
	return testenv.Request{Method: http.MethodPost, Path: "/v1/leases/release", Body: l.Claim()}
}

func acquireRequest(key string, ttlMS int) testenv.Request {
	body, _ := json.Marshal(map[string]any{"key": key, "ttl_ms": ttlMS})
	return testenv.Request{Method: http.MethodPost, Path: "/v1/leases", Body: string(body)}
}

// reply is an answer, or none, that a request in the background got.
type reply struct {
	testenv.Response
	err error
}

// later sends a request in the background.
func later(t testing.TB, g *testenv.Gateway, q testenv.Request) <-chan reply {
	answers := make(chan reply, 1)
	go func() {
		answer, err := g.Try(t, t.Context(), q)
		answers <- reply{answer, err}
	}()
	return answers
}

// hold is a message that is held up on a wire.
type hold struct {
	reached, free chan struct{}
}

// newHold returns a hold and the hook that makes one of its message: until free
// is closed, or the test has failed.
func newHold(t testing.TB) (hold, func() bool) {
	h := hold{make(chan struct{}), make(chan struct{})}
	return h, func() bool {
		close(h.reached)
		select {
		case <-h.free:
		case <-t.Context().Done():
		}
		return true
	}
}

func wantStatus(t testing.TB, answer testenv.Response, status int) {
	t.Helper()
	if answer.Status != status {
		t.Errorf("status %d, want %d: %s", answer.Status, status, answer.Body)
	}
}

// wantProblem checks status, code and what the answer says about the outcome.
func wantProblem(t testing.TB, answer testenv.Response, status int, code string) testenv.Problem {
	t.Helper()
	p := answer.Problem(t)
	if answer.Status != status || p.Slug() != code {
		t.Errorf("answer %d %s, want %d %s: %s", answer.Status, p.Slug(), status, code, answer.Body)
	}
	if want := outcomeOf(code); p.Outcome != want {
		t.Errorf("%s: outcome %q, want %q", code, p.Outcome, want)
	}
	if status == http.StatusServiceUnavailable && answer.Header.Get("Retry-After") == "" {
		t.Errorf("%s without Retry-After", code)
	}
	refused := answer.Header.Get("Fencing-Refused")
	if want := status == http.StatusPreconditionFailed; (refused == code) != want {
		t.Errorf("%s with Fencing-Refused %q", code, refused)
	}
	return p
}

func outcomeOf(code string) string {
	if code == "outcome_unknown" {
		return "unknown"
	}
	return "not_applied"
}

// wantRow checks that sku has available and, by the journal, how it got there:
// written times changes, the last of which set it.
func (p *plant) wantRow(t testing.TB, sku string, available, written int) {
	t.Helper()
	got := one[int](t, p.sql, `SELECT available FROM shop.inventory WHERE sku = $1`, sku)
	entries := one[int](t, p.sql, `SELECT count(*) FROM shop.journal WHERE sku = $1`, sku)
	if got != available || entries != written {
		t.Errorf("%s has %d after %d changes, want %d after %d", sku, got, entries, available, written)
	}
}

// wantOrderedGrants checks I1 and I2 on everything that was ever granted.
func wantOrderedGrants(t testing.TB, sql *pgxpool.Pool) {
	t.Helper()
	const fallen = `
		SELECT count(*) FROM (
			SELECT token, lag(token) OVER (PARTITION BY lock_key ORDER BY id) AS before
			  FROM fencegate.grants WHERE event = 'granted') AS g
		 WHERE token <= before`
	if n := one[int](t, sql, fallen); n != 0 {
		t.Errorf("%d grants did not raise their key's token", n)
	}
	const shared = `
		SELECT count(*) FROM (
			SELECT FROM fencegate.grants GROUP BY lock_key, token
			HAVING count(DISTINCT holder_digest) > 1 OR count(*) FILTER (WHERE event = 'granted') <> 1) AS g`
	if n := one[int](t, sql, shared); n != 0 {
		t.Errorf("%d tokens were not granted to exactly one holder", n)
	}
}

func one[T any](t testing.TB, sql *pgxpool.Pool, query string, args ...any) T {
	t.Helper()
	var value T
	if err := sql.QueryRow(t.Context(), query, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

// rowLock is somebody's transaction, apart from the gateway, that locks a row.
type rowLock struct {
	pid  int
	sql  *pgxpool.Pool
	free func()
}

func (p *plant) lockRow(t *testing.T, sku string) *rowLock {
	t.Helper()
	tx, err := p.sql.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := &rowLock{sql: p.sql, free: func() { tx.Rollback(context.WithoutCancel(t.Context())) }}
	t.Cleanup(l.free)
	const query = `SELECT pg_backend_pid() FROM shop.inventory WHERE sku = $1 FOR UPDATE`
	if err := tx.QueryRow(t.Context(), query, sku).Scan(&l.pid); err != nil {
		t.Fatal(err)
	}
	return l
}

// waiter returns the backend that waits for the lock, once one does.
func (l *rowLock) waiter(t testing.TB) int {
	t.Helper()
	const query = `SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))`
	for {
		if pid := one[int](t, l.sql, query, l.pid); pid != 0 {
			return pid
		}
	}
}

// leases is the lock service as it is.
type leases struct {
	*redis.Client
	prefix string
}

func (p *plant) leases(t testing.TB) leases {
	t.Helper()
	options, err := redis.ParseURL(p.redisURL)
	if err != nil {
		t.Fatal(err)
	}
	options.ReadTimeout = -1 // BLPOP waits as long as it is told
	c := redis.NewClient(options)
	t.Cleanup(func() { c.Close() })
	return leases{c, p.leasesName}
}

// freed wakes one who waits in expired.
func (l leases) freed(ctx context.Context, key string) error {
	return l.RPush(ctx, l.prefix+"freed:"+key, 1).Err()
}

// expired returns when nobody has the key any more, by Redis's own clock, or
// when freed was called for it.
func (l leases) expired(ctx context.Context, key string) error {
	left, err := l.PTTL(ctx, l.prefix+key).Result()
	if err != nil || left <= 0 {
		return err
	}
	err = l.Do(ctx, "BLPOP", l.prefix+"freed:"+key, left.Seconds()).Err()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

// takeOver acquires key as soon as its lease has run out.
func (l leases) takeOver(t testing.TB, g *testenv.Gateway, key string, ttlMS int) (testenv.Lease, error) {
	var granted testenv.Lease
	for {
		answer, err := g.Try(t, t.Context(), acquireRequest(key, ttlMS))
		switch {
		case err != nil:
			return granted, err
		case answer.Status == http.StatusCreated:
			return granted, json.Unmarshal([]byte(answer.Body), &granted)
		case answer.Status != http.StatusLocked:
			return granted, fmt.Errorf("acquiring %s: %d %s", key, answer.Status, answer.Body)
		}
		if err := l.expired(t.Context(), key); err != nil {
			return granted, err
		}
	}
}

// awaitReady asks until the gateway's /readyz answers status.
func awaitReady(t testing.TB, g *testenv.Gateway, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.AdminURL+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatalf("waiting for /readyz to answer %d: %v", status, err)
		}
		resp.Body.Close()
		if resp.StatusCode == status {
			return
		}
	}
}

// try repeats a request until it is answered with status.
func try(t testing.TB, g *testenv.Gateway, q testenv.Request, status int) testenv.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		answer, err := g.Try(t, ctx, q)
		if err != nil {
			t.Fatalf("waiting for %d: %v", status, err)
		}
		if answer.Status == status {
			return answer
		}
	}
}

// The statements of a write to the inventory, and of a refusal's record.
const (
	theUpdate = `UPDATE "shop"."inventory"`
	theRecord = `INSERT INTO fencegate.refusals`
)

// before calls hook before the next batch with this statement is passed on, which
// it is if hook says so. Counting messages would do as well, but for those that
// prepare statements or come from a pool.
func before(w *testenv.Wire, statement string, hook func() bool) {
	w.OnBatch(executing(statement), func() testenv.Extent {
		if hook() {
			return testenv.Whole
		}
		return testenv.Nothing
	})
}

// answered is the same for the answer.
func answered(w *testenv.Wire, statement string, hook func() bool) {
	w.OnAnswer(executing(statement), hook)
}

func executing(statement string) func(testenv.Batch) bool {
	return func(b testenv.Batch) bool { return b.Executes(statement) }
}
