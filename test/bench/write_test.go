// Package bench measures the write path on real servers. Absolute figures don't
// carry over from one machine to another; ratios do, roughly.
package bench

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/testenv"
)

// workers write at once, each under its own lock key to its own row.
const workers = 16

// TestMain builds the gateway as it is released, without the race detector that
// other tests use.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fencegate-bench-")
	if err != nil {
		panic(err)
	}
	path := filepath.Join(dir, "gateway")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/fencegate/fencegate/cmd/gateway").CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v: %s", err, out))
	}
	os.Setenv(testenv.GatewayEnv, path)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// BenchmarkPatch is one fenced PATCH through the gateway: HTTP, lease check,
// fence and update in one transaction.
func BenchmarkPatch(b *testing.B) {
	g := testenv.StartGateway(b, testenv.GatewayOptions{})
	transport := &http.Transport{MaxIdleConnsPerHost: workers}
	client := &http.Client{Transport: transport}
	b.Cleanup(transport.CloseIdleConnections)
	run(b, g, func(l testenv.Lease, sku string, n int) error {
		req, err := http.NewRequest(http.MethodPatch, g.URL+"/rest/inventory?sku=eq."+sku,
			strings.NewReader(fmt.Sprintf(`{"available":%d}`, n)))
		if err != nil {
			return err
		}
		req.Header = l.Header()
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusNoContent {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return nil
	})
}

// BenchmarkHandWritten is what a worker would write itself to be as safe: GET
// from Redis, BEGIN, the fence, UPDATE, COMMIT, each a round trip, on a
// connection of its own.
func BenchmarkHandWritten(b *testing.B) {
	g := testenv.StartGateway(b, testenv.GatewayOptions{})
	options, err := redis.ParseURL(g.Options.RedisURL)
	if err != nil {
		b.Fatal(err)
	}
	lock := redis.NewClient(options)
	b.Cleanup(func() { lock.Close() })
	cfg, err := pgxpool.ParseConfig(g.Database.URL)
	if err != nil {
		b.Fatal(err)
	}
	cfg.MaxConns = workers
	pool, err := pgxpool.NewWithConfig(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	ctx := context.Background()
	run(b, g, func(l testenv.Lease, sku string, n int) error {
		if holder, err := lock.Get(ctx, g.Options.KeyPrefix+l.Key).Result(); err != nil || holder != l.Holder {
			return fmt.Errorf("the lease is %q's: %w", holder, err)
		}
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SELECT fencegate.admit(ARRAY[$1], ARRAY[$2], ARRAY[$3::bigint], false)`, l.Key, l.Holder, l.Token); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `UPDATE shop.inventory SET available = $2 WHERE sku = $1`, sku, n)
			return err
		})
	})
}

// run measures write, called by all workers at once, each with its own lease.
func run(b *testing.B, g *testenv.Gateway, write func(l testenv.Lease, sku string, n int) error) {
	leases := make([]testenv.Lease, workers)
	for i := range leases {
		sku := skuOf(i)
		g.Database.Exec(b, `INSERT INTO shop.inventory (sku) VALUES ($1)`, sku)
		leases[i] = g.Acquire(b, "inventory:"+sku, 300_000)
		if err := write(leases[i], sku, 0); err != nil {
			b.Fatal(err)
		}
	}
	var next atomic.Int32
	b.SetParallelism((workers + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		i := int(next.Add(1)-1) % workers
		for n := 0; pb.Next(); n++ {
			if err := write(leases[i], skuOf(i), n); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
}

func skuOf(worker int) string { return fmt.Sprintf("BENCH-%d", worker) }
