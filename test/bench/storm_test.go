package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/testenv"
)

const (
	stormers = 2000 // late writers, each sending as fast as it is answered
	steady   = 20   // live ones beside them
	stormFor = 10 * time.Second
)

// BenchmarkStorm has late writers storm the gateway beside live ones. Every
// refusal that was answered must be on record once, and the live ones must get at
// least the share of the gateway's answers that their number is due.
func BenchmarkStorm(b *testing.B) {
	g := testenv.StartGateway(b, testenv.GatewayOptions{})
	db := g.Database.Pool(b)
	late, live := g.Acquire(b, "inventory:late", 60000), make([]testenv.Lease, steady)
	g.Do(b, testenv.Request{Method: http.MethodPost, Path: "/v1/leases/release", Body: late.Claim()})
	for n := range live {
		g.Database.Exec(b, fmt.Sprintf(`INSERT INTO shop.inventory (sku, available) VALUES ('S%d', 0)`, n))
		live[n] = g.Acquire(b, fmt.Sprintf("inventory:S%d", n), 300_000)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: stormers + steady}}
	for b.Loop() {
		var refused, turnedAway, accepted atomic.Int64
		before := count(b, db)
		ctx, stop := context.WithTimeout(b.Context(), stormFor)
		var all sync.WaitGroup
		for range stormers {
			all.Go(func() {
				for ctx.Err() == nil {
					switch patchOnce(client, g.URL+"/rest/inventory?sku=eq.late", late) {
					case http.StatusPreconditionFailed:
						refused.Add(1)
					case http.StatusServiceUnavailable:
						turnedAway.Add(1)
					}
				}
			})
		}
		for n, l := range live {
			all.Go(func() {
				for ctx.Err() == nil {
					if patchOnce(client, fmt.Sprintf("%s/rest/inventory?sku=eq.S%d", g.URL, n), l) == http.StatusNoContent {
						accepted.Add(1)
					}
				}
			})
		}
		all.Wait()
		stop()
		if got := count(b, db) - before; got != refused.Load() {
			b.Errorf("%d records of %d refusals", got, refused.Load())
		}
		share := float64(accepted.Load()) / float64(accepted.Load()+refused.Load())
		due := float64(steady) / float64(steady+stormers)
		b.ReportMetric(float64(accepted.Load())/stormFor.Seconds(), "accepted/s")
		b.ReportMetric(float64(refused.Load())/stormFor.Seconds(), "refused/s")
		b.ReportMetric(float64(turnedAway.Load())/stormFor.Seconds(), "turned-away/s")
		b.ReportMetric(share/due, "share/due")
		if share < due {
			b.Errorf("live writers got %.2f %% of the answers, %.2f %% are due", 100*share, 100*due)
		}
	}
}

func patchOnce(client *http.Client, url string, l testenv.Lease) int {
	req, err := http.NewRequest(http.MethodPatch, url, strings.NewReader(`{"available":1}`))
	if err != nil {
		return 0
	}
	req.Header = l.Header()
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func count(b *testing.B, db *pgxpool.Pool) (n int64) {
	b.Helper()
	if err := db.QueryRow(b.Context(), `SELECT count(*) FROM fencegate.refusals`).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}
