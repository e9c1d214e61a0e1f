// Package backends_test holds every lock service that a gateway can use, on real
// servers, against the contract of locktest, and the gateway on each of them
// against what goes wrong with it. Together the two make the table in
// docs/leases.md:
//
//	go test ./test/backends -update
package backends_test

import (
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/lockclient/locktest"
	"github.com/fencegate/fencegate/internal/lockclient/pglock"
	"github.com/fencegate/fencegate/internal/lockclient/redislock"
	"github.com/fencegate/fencegate/internal/pooled"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "12") // most of the time they wait for an expiry, or for a failover
	code := m.Run()
	testenv.Stop()
	os.Exit(code)
}

// callTimeout is more than the default of a gateway: here a busy machine is no
// fault.
const callTimeout = 3 * time.Second

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// redisClient is a client as a gateway has it.
func redisClient(t testing.TB, url string) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(url)
	must(t, err)
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = callTimeout, callTimeout, callTimeout
	options.ContextTimeoutEnabled, options.MaxRetries = true, 1
	c := redis.NewClient(options)
	t.Cleanup(func() { c.Close() })
	return c
}

func openRedis(t testing.TB) locktest.Backend {
	address, prefix := testenv.Redis(t)
	wire := testenv.NewWire(t, address)
	client := redisClient(t, wire.URL())
	return locktest.Backend{
		Store:  redislock.New(client, prefix),
		Freeze: frozen(t, wire),
		Kill:   func(testing.TB) { wire.Down() },
		Forget: func(t testing.TB) { must(t, client.ScriptFlush(t.Context()).Err()) },
	}
}

func frozen(t testing.TB, wire *testenv.Wire) func(testing.TB) func() {
	return func(testing.TB) func() {
		wire.BlackHole()
		return func() { wire.Mend(t) }
	}
}

func openPostgres(t testing.TB) locktest.Backend {
	wire := testenv.NewWire(t, testenv.Postgres(t).URL)
	return locktest.Backend{
		Store:  pglock.New(pgxPool(t, wire.URL())),
		Freeze: frozen(t, wire),
		Kill:   func(testing.TB) { wire.Down() },
	}
}

// openPooled is a database behind a pooler with two connections to lend.
func openPooled(t testing.TB) locktest.Backend {
	db := testenv.Postgres(t)
	pooler := testenv.PgBouncer(t, db.URL, 2, nil)
	wire := testenv.NewWire(t, pooler.URL(db.Name))
	return locktest.Backend{
		Store: pglock.New(&pooled.Pool{
			Conns:    pgxPool(t, wire.URL(), unprepared),
			Settings: pooled.Settings{LockTimeout: 2 * time.Second, StatementTimeout: 5 * time.Second},
		}),
		Freeze: frozen(t, wire),
		Kill:   func(testing.TB) { wire.Down() },
	}
}

func unprepared(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec }

func pgxPool(t testing.TB, url string, options ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	must(t, err)
	config.MaxConns, config.PingTimeout, config.ConnConfig.ConnectTimeout = 8, callTimeout, callTimeout
	for _, option := range options {
		option(config)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}
