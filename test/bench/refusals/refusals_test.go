// Package refusals_test measures how long the record takes to answer when it is
// large. `make bench-refusals` runs it.
package refusals_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

const (
	records = 5_000_000
	weeks   = 12
	allowed = 50 * time.Millisecond // p95 of one page of 100, client included
)

// fill makes records over weeks: 5000 keys, 20 workers, 8 tables, a code that
// nearly all have and two that few have.
const fill = `
SELECT fencegate.add_refusal_week(clock_timestamp() - n * interval '7 days') FROM generate_series(0, %[2]d) AS n;
INSERT INTO fencegate.refusals (occurred_at, code, disposition, operation, table_name, lock_key, presented_token, mark_token, holder_digest, client, principal, request_id, remote_address, instance)
SELECT clock_timestamp() - %[2]d * interval '7 days' * (1 - n / %[1]d.0),
       CASE WHEN n %% 1000 = 0 THEN 'lease_lost' WHEN n %% 100 = 1 THEN 'lease_expired' ELSE 'stale_token' END, 'refused', 'update',
       'shop.t' || n %% 8, 'item:' || n::bigint * 7919 %% 5000, n, n + 1, md5(n::text), 'client ' || n %% 20, 'worker ' || n %% 20, md5(n::text), '10.0.0.1', 'host/1'
  FROM generate_series(1, %[1]d) AS n;
`

func BenchmarkPagesOfManyRefusals(b *testing.B) {
	db := testenv.Shop(b)
	db.Exec(b, fmt.Sprintf(fill, records, weeks))
	db.Exec(b, `VACUUM ANALYZE fencegate.refusals`)
	g := testenv.StartGateway(b, testenv.GatewayOptions{Database: db})
	var cursor struct {
		Next string `json:"next_cursor"`
	}
	some := func() time.Time {
		return time.Now().UTC().Add(-time.Duration(rand.Int64N(weeks * 7 * int64(24*time.Hour))))
	}
	g.Do(b, testenv.Request{Path: "/v1/refusals?until=" + some().Format(time.RFC3339)}).JSON(b, &cursor)
	for name, query := range map[string]func() string{
		"newest": func() string { return "" },
		"key":    func() string { return fmt.Sprintf("key=item:%d", rand.IntN(5000)) },
		"code":   func() string { return "code=" + []string{"lease_lost", "lease_expired", "stale_token"}[rand.IntN(3)] },
		"table": func() string {
			return fmt.Sprintf("table=shop.t%d&until=%s", rand.IntN(8), some().Format(time.RFC3339))
		},
		"principal": func() string { return fmt.Sprintf("principal=worker %d", rand.IntN(20)) },
		"until":     func() string { return "until=" + some().Format(time.RFC3339) },
		"key+code":  func() string { return fmt.Sprintf("key=item:%d&code=lease_lost", rand.IntN(5000)) },
		"cursor":    func() string { return "cursor=" + cursor.Next },
	} {
		b.Run(name, func(b *testing.B) {
			took := []time.Duration{}
			for b.Loop() {
				path := "/v1/refusals?" + strings.ReplaceAll(query(), " ", "+")
				began := time.Now()
				if answer := g.Do(b, testenv.Request{Path: path}); answer.Status != http.StatusOK {
					b.Fatalf("%s: %d %s", path, answer.Status, answer.Body)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			p95 := took[len(took)*95/100]
			b.ReportMetric(float64(p95.Microseconds())/1000, "p95-ms")
			if p95 > allowed {
				b.Errorf("p95 is %s", p95)
			}
		})
	}
}
