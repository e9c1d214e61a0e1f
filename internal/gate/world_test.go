package gate

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient/redislock"
	"github.com/fencegate/fencegate/internal/testenv"
)

// world is one database and one lock service with gates on them.
type world struct {
	db     *testenv.Database
	pool   *pgxpool.Pool
	tables *catalog.Catalog // none: grants look into it for fence columns
	store  *redislock.Store
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db := testenv.Postgres(t)
	address, prefix := testenv.Redis(t)
	options, err := redis.ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	pool := db.Pool(t)
	tables, err := catalog.Open(t.Context(), pool, catalog.Specs{})
	if err != nil {
		t.Fatal(err)
	}
	return &world{db: db, pool: pool, tables: tables, store: redislock.New(client, prefix)}
}

// gate returns a gate that records; options change its configuration.
func (w *world) gate(t *testing.T, options ...func(*Config)) *Gate {
	t.Helper()
	writer := audit.NewWriter(w.pool, t.Name(), 24*time.Hour)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { writer.Run(ctx); close(ended) }()
	t.Cleanup(func() { stop(); <-ended })
	cfg := Config{
		Writes: w.pool, Reads: w.pool, Tables: w.tables, Store: w.store, Marks: fence.New(w.pool, w.pool), Audit: writer, Records: audit.NewReader(w.pool), Log: slog.New(slog.DiscardHandler),
		Terms: Terms{Min: time.Millisecond, Default: time.Minute, Max: time.Minute, Lifetime: time.Hour},
	}
	for _, option := range options {
		option(&cfg)
	}
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// mutate takes a rule out of a function of schema fencegate, in this test's own
// database: a control shows that the test would notice.
func (w *world) mutate(t *testing.T, function, rule, instead string) {
	t.Helper()
	var source string
	err := w.pool.QueryRow(t.Context(), `
		SELECT pg_get_functiondef(oid) FROM pg_proc
		 WHERE pronamespace = 'fencegate'::regnamespace AND proname = $1 AND strpos(prosrc, $2) > 0`, function, rule).Scan(&source)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(source, rule) != 1 {
		t.Fatalf("%q stands %d times in %s:\n%s", rule, strings.Count(source, rule), function, source)
	}
	w.db.Exec(t, strings.Replace(source, rule, instead, 1))
}

func (w *world) grant(t *testing.T, g *Gate, key lease.Key) lease.Claim {
	t.Helper()
	granted, err := g.Acquire(t.Context(), Acquisition{Principal: auth.Anyone, Keys: []lease.Key{key}, To: fence.Grantee{Client: "test", Principal: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	return granted.Leases[0].Claim
}

// expire ends a holder's lease as its TTL would.
func (w *world) expire(t *testing.T, claim lease.Claim) {
	t.Helper()
	if _, err := w.store.Drop(t.Context(), claim.Key, claim.Holder); err != nil {
		t.Fatal(err)
	}
}

// session is a connection of its own whose steps a test takes one by one.
type session struct {
	pool *pgxpool.Pool
	pid  uint32
}

func (w *world) session(t *testing.T) *session {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(w.db.URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := &session{pool: pool}
	if err := pool.QueryRow(t.Context(), `SELECT pg_backend_pid()`).Scan(&s.pid); err != nil {
		t.Fatal(err)
	}
	return s
}

// blocked reports whether the session waits for a lock.
func (w *world) blocked(ctx context.Context, s *session) (waits bool, err error) {
	err = w.pool.QueryRow(ctx, `SELECT cardinality(pg_blocking_pids($1)) > 0`, s.pid).Scan(&waits)
	return waits, err
}

// admit runs the fence as Write does, in a transaction that stays open.
func admit(ctx context.Context, tx pgx.Tx, claim lease.Claim) error {
	var batch pgx.Batch
	fence.Admit(&batch, []lease.Claim{claim})
	results := tx.SendBatch(ctx, &batch)
	err := fence.Admitted(results, []lease.Claim{claim})
	if closing := results.Close(); err == nil {
		err = closing
	}
	return err
}

func keyOf(parts ...any) lease.Key { return lease.Key(fmt.Sprint(parts...)) }
