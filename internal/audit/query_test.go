package audit_test

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/testenv"
)

// manySQL makes 120000 refusals over 8 weeks: mostly one code and table, with
// few of the others.
const manySQL = `
SELECT fencegate.add_refusal_week('2026-01-05 12:00+00'::timestamptz + n * interval '7 days') FROM generate_series(0, 7) AS n;
INSERT INTO fencegate.refusals (occurred_at, code, disposition, operation, table_name, lock_key, presented_token, holder_digest, principal, request_id, remote_address, instance)
SELECT '2026-01-05 00:00+00'::timestamptz + n * interval '40 seconds', CASE WHEN n % 1000 = 0 THEN 'lease_lost' ELSE 'stale_token' END,
       CASE WHEN n % 700 = 3 THEN 'admitted' ELSE 'refused' END, 'update',
       CASE WHEN n % 500 = 1 THEN 'shop.rare' ELSE 'shop.usual' END, 'item:' || n % 3000, n + 1, 'd', 'worker ' || n % 7, 'r', 'a', 'i'
  FROM generate_series(0, 119999) AS n;
`

// explained runs the plans of statements in their stead.
type explained struct {
	*pgxpool.Pool
	plan string
}

func (e *explained) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, _ := e.Pool.Query(ctx, `EXPLAIN (ANALYZE, BUFFERS, SUMMARY OFF, TIMING OFF) `+sql, args...)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	e.plan = strings.Join(lines, "\n")
	return e.Pool.Query(ctx, sql, args...)
}

// scanned is in the plan that reads a whole week; empty ones may be.
const scanned = "Seq Scan on refusals_20260"

var pages = regexp.MustCompile(`shared hit=(\d+)`)

func TestEveryPageIsReadFromAnIndex(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	db.Exec(t, manySQL)
	db.Exec(t, `VACUUM ANALYZE fencegate.refusals`)
	e := &explained{Pool: db.Pool(t)}
	reader := audit.NewReader(e)
	at := func(n int) time.Time {
		return time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC).Add(time.Duration(n) * 40 * time.Second)
	}
	for name, f := range map[string]audit.Filter{
		"the newest":              {},
		"of a key":                {Key: "item:17"},
		"of a rare code":          {Code: "lease_lost"},
		"of the usual code":       {Code: "stale_token"},
		"of a rare table":         {Table: "shop.rare"},
		"of a principal":          {Principal: "worker 3"},
		"of nobody":               {Principal: "nobody"},
		"until long ago":          {Until: at(20_000)},
		"of a code until":         {Code: "stale_token", Until: at(20_000)},
		"between":                 {Since: at(50_000), Until: at(50_100)},
		"of a key since":          {Key: "item:17", Since: at(60_000)},
		"a page deep down":        {Before: audit.Place{OccurredAt: at(10_000), ID: 10_001}},
		"of a code, deep down":    {Code: "stale_token", Before: audit.Place{OccurredAt: at(10_000), ID: 10_001}},
		"admitted":                {Disposition: audit.Admitted},
		"refused":                 {Disposition: audit.Refused},
		"admitted until":          {Disposition: audit.Admitted, Until: at(20_000)},
		"of a code under the key": {Code: "lease_lost", Key: "item:0"},
	} {
		records, err := reader.List(t.Context(), f, 100)
		if err != nil {
			t.Fatal(err)
		}
		if name != "of nobody" && len(records) == 0 {
			t.Errorf("%s: nothing found", name)
		}
		touched := 0
		if m := pages.FindStringSubmatch(e.plan); m != nil {
			touched, _ = strconv.Atoi(m[1])
		}
		if strings.Contains(e.plan, scanned) || touched == 0 || touched > 500 {
			t.Errorf("%s: %d pages\n%s", name, touched, e.plan)
		}
	}
	if _, err := reader.Get(t.Context(), 60_000); err != nil || strings.Contains(e.plan, scanned) {
		t.Errorf("%v\n%s", err, e.plan)
	}
}

func TestPagesMeetWithoutAGap(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	// Three at each moment, around a week's end.
	db.Exec(t, `
		SELECT fencegate.add_refusal_week(day) FROM unnest('{2026-01-05 12:00+00,2026-01-12 12:00+00}'::timestamptz[]) AS day;
		INSERT INTO fencegate.refusals (occurred_at, code, disposition, operation, lock_key, presented_token, holder_digest, principal, request_id, remote_address, instance)
		SELECT '2026-01-11 23:59:50+00'::timestamptz + n / 3 * interval '1 second', 'c', 'event', 'renew', 'k', 1, 'd', 'p', 'r', 'a', 'i' FROM generate_series(0, 59) AS n`)
	reader := audit.NewReader(db.Pool(t))
	for _, limit := range []int{1, 2, 7, 60, 61} {
		last, seen := audit.Place{}, 0
		for {
			records, err := reader.List(t.Context(), audit.Filter{Before: last}, limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				if seen++; int(r.ID) != 61-seen {
					t.Fatalf("by %d: record %d as number %d", limit, r.ID, seen)
				}
				last = audit.Place{OccurredAt: r.OccurredAt, ID: r.ID}
			}
			if len(records) < limit {
				break
			}
		}
		if seen != 60 {
			t.Errorf("by %d: %d records", limit, seen)
		}
	}
}
