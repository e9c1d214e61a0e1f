package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/testenv"
)

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
		case answer.Status == http.StatusServiceUnavailable && answer.Problem(t).Code == "overloaded": // it ran out before it was granted
			continue
		case answer.Status != http.StatusLocked:
			return granted, fmt.Errorf("acquiring %s: %d %s", key, answer.Status, answer.Body)
		}
		if err := l.expired(t.Context(), key); err != nil {
			return granted, err
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
