package audit_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestRefusalsAreCountedByCodeAndTime(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	db.Exec(t, `
		SELECT fencegate.add_refusal_week('2026-01-05 12:00+00');
		INSERT INTO fencegate.refusals (occurred_at, code, disposition, operation, lock_key, presented_token, holder_digest, principal, request_id, remote_address, instance)
		SELECT '2026-01-05 00:00+00'::timestamptz + n * interval '20 seconds', CASE WHEN n % 3 = 0 THEN 'b' ELSE 'a' END, 'refused', 'update',
		       'key ' || n % 2, 1, 'd', 'p', 'r', 'h', 'i'
		  FROM generate_series(0, 8) AS n`)
	reader := audit.NewReader(db.Pool(t))
	minute := func(n int) time.Time { return time.Date(2026, 1, 5, 0, n, 0, 0, time.UTC) }
	for name, c := range map[string]struct {
		filter audit.Filter
		most   int
		want   []audit.Count
	}{
		"All":            {audit.Filter{}, 100, []audit.Count{{"a", minute(0), 2}, {"a", minute(1), 2}, {"a", minute(2), 2}, {"b", minute(0), 1}, {"b", minute(1), 1}, {"b", minute(2), 1}}},
		"OfACode":        {audit.Filter{Code: "b"}, 100, []audit.Count{{"b", minute(0), 1}, {"b", minute(1), 1}, {"b", minute(2), 1}}},
		"OfAKeySince":    {audit.Filter{Key: "key 1", Since: minute(1)}, 100, []audit.Count{{"a", minute(1), 1}, {"a", minute(2), 1}, {"b", minute(1), 1}}},
		"TheNewestAlone": {audit.Filter{}, 2, []audit.Count{{"a", minute(2), 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := reader.Count(t.Context(), c.filter, time.Minute, c.most)
			if err != nil || !slices.EqualFunc(got, c.want, func(a, b audit.Count) bool { return a.Code == b.Code && a.N == b.N && a.Began.Equal(b.Began) }) {
				t.Errorf("%v, %v, not %v", got, err, c.want)
			}
		})
	}
}
