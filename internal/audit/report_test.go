package audit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/testenv"
)

// admittedSQL makes admitted records of each line: how long ago, table, code, key,
// client and remote address.
const admittedSQL = `
INSERT INTO fencegate.refusals (occurred_at, code, disposition, operation, table_name, lock_key, presented_token, holder_digest, principal, request_id, remote_address, instance, client)
SELECT clock_timestamp() - c[1]::interval, c[3], 'admitted', 'update', c[2], c[4], 1, 'h' || n, 'p', 'r', c[6], 'i', nullif(c[5], '-')
  FROM string_to_table($lines$%s$lines$, E'\n') WITH ORDINALITY AS l(line, n), string_to_array(line, ' ') AS c`

func TestTheReportCountsByTableAndWorker(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	db.Exec(t, `SELECT fencegate.add_refusal_week(clock_timestamp() - n * interval '7 days') FROM generate_series(1, 3) AS n`)
	db.Exec(t, fmt.Sprintf(admittedSQL, strings.Join([]string{
		"9:00 s.a stale_token k1 worker-1 10.0.0.1",
		"8:00 s.a stale_token k2 worker-1 10.0.0.2",
		"7:00 s.a stale_token k2 worker-1 10.0.0.3",
		"6:00 s.a fencing_required  - 10.0.0.4",
		"5:00 s.a fencing_required  - 10.0.0.5",
		"4:00 s.b lock_scope k1 worker-2 10.0.0.1",
		"400:00 s.b lock_scope k1 worker-2 10.0.0.1",
	}, "\n")))
	db.Exec(t, `INSERT INTO fencegate.refusals (code, disposition, operation, table_name, lock_key, presented_token, holder_digest, principal, request_id, remote_address, instance)
		VALUES ('stale_token', 'refused', 'update', 's.a', 'k1', 1, 'h', 'p', 'r', 'a', 'i'), ('stale_token', 'event', 'renew', NULL, 'k1', 1, 'h', 'p', 'r', 'a', 'i')`)
	reader := audit.NewReader(db.Pool(t))
	for since, want := range map[time.Duration]string{
		24 * time.Hour: "s.b 1 1|s.a 5 2||s.a stale_token worker-1 10.0.0.3 h3 3 3|s.b lock_scope worker-2 10.0.0.1 h6 1 6|" +
			"s.a fencing_required  10.0.0.5 h5 1 5|s.a fencing_required  10.0.0.4 h4 1 4",
		500 * time.Hour: "s.b 2 1|s.a 5 2||s.a stale_token worker-1 10.0.0.3 h3 3 3|s.b lock_scope worker-2 10.0.0.1 h6 2 6|" +
			"s.a fencing_required  10.0.0.5 h5 1 5|s.a fencing_required  10.0.0.4 h4 1 4",
		time.Hour: "",
	} {
		report, err := reader.Report(t.Context(), time.Now().Add(-since))
		if err != nil {
			t.Fatal(err)
		}
		var tables, groups []string
		for _, o := range report.Tables {
			tables = append(tables, fmt.Sprint(o.Table, " ", o.Records, " ", o.Keys))
		}
		for _, g := range report.Groups {
			groups = append(groups, fmt.Sprintf("%s %s %s %s %s %d %d", g.Table, g.Code, g.Client, g.Remote, g.Holder, g.Records, g.Example))
			if span := g.Last.Sub(g.First); (span > 0) != (g.Records > 1) {
				t.Errorf("%+v", g)
			}
		}
		got := strings.Trim(strings.Join(tables, "|")+"||"+strings.Join(groups, "|"), "|")
		if want := strings.Trim(want, "|"); got != want || report.Cut || report.More != 0 {
			t.Errorf("since %s:\n%s\nnot\n%s", since, got, want)
		}
	}
}

func TestTheReportIsBoundedAndReadFromAnIndex(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	db.Exec(t, manySQL)
	e := &explained{Pool: db.Pool(t)}
	reader := audit.NewReader(e)
	report := func() audit.Report {
		t.Helper()
		db.Exec(t, `VACUUM ANALYZE fencegate.refusals`)
		r, err := reader.Report(t.Context(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if few := report(); few.Records != 172 || few.Cut || strings.Contains(e.plan, scanned) {
		t.Errorf("%+v\n%s", few, e.plan)
	}
	db.Exec(t, `
		INSERT INTO fencegate.refusals (occurred_at, code, disposition, operation, table_name, lock_key, presented_token, holder_digest, principal, request_id, remote_address, instance, client)
		SELECT '2026-01-05 00:00+00'::timestamptz + n * interval '40 seconds', 'stale_token', 'admitted', 'update', 'shop.usual', 'k', 1, 'h', 'p', 'r', 'a', 'i', 'worker ' || n % 300
		  FROM generate_series(0, 119999) AS n`)
	many := report()
	if !many.Cut || many.Records != 100_000 || len(many.Groups) != 200 || many.More < 100 || many.Since.Before(time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%d records in %d groups and %d more since %s", many.Records, len(many.Groups), many.More, many.Since)
	}
	if !strings.Contains(e.plan, "Limit") || strings.Contains(e.plan, "Sort Key: refusals.occurred_at") {
		t.Error(e.plan)
	}
}
