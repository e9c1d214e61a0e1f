package sql_test

import (
	"os"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// refusalsSQL puts a record into each of three weeks.
const refusalsSQL = `
SELECT fencegate.add_refusal_week(day) FROM unnest('{2026-01-07 12:00+00,2026-01-12 00:00+00}'::timestamptz[]) AS day;
INSERT INTO fencegate.refusals (occurred_at, code, disposition, operation, lock_key, presented_token, holder_digest, principal, request_id, remote_address, instance)
SELECT day, 'stale_token', 'refused', 'update', 'k', 1, 'd', 'p', 'r', 'a', 'i'
  FROM unnest(ARRAY['2026-01-11 23:59:59.999999+00', '2026-01-12 00:00+00', clock_timestamp()]) AS day;
`

func weeks(t *testing.T, db *testenv.Database) (names string) {
	t.Helper()
	const query = `
		SELECT coalesce(string_agg(relname, ' ' ORDER BY relname), '')
		  FROM pg_class
		 WHERE relnamespace = 'fencegate'::regnamespace AND relkind = 'r' AND relname LIKE 'refusals%'`
	if err := db.Pool(t).QueryRow(t.Context(), query).Scan(&names); err != nil {
		t.Fatal(err)
	}
	return names
}

func TestRefusalsAreKeptForTheirTime(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	now := weeks(t, db)
	if strings.Count(now, "refusals_") != 2 {
		t.Fatalf("made for %s, not for this week and the next", now)
	}
	db.Exec(t, refusalsSQL)
	const old = "refusals_20260105 refusals_20260112 "
	if got := weeks(t, db); got != old+now {
		t.Fatal(got)
	}
	pool := db.Pool(t)
	keep := func(how, period, want string) {
		t.Helper()
		db.Exec(t, `SELECT fencegate.keep_refusals('`+period+`')`)
		if got := weeks(t, db); got != want {
			t.Errorf("%s: %s, not %s", how, got, want)
		}
	}
	keep("within its time", "100 years", old+now)
	reader, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Exec(t.Context(), `SELECT FROM fencegate.refusals`); err != nil {
		t.Fatal(err)
	}
	keep("while somebody reads", "0 seconds", old+now)
	if err := reader.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	keep("the next time", "0 seconds", now)
}

func TestRefusalsAreAppendOnly(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	db.Exec(t, refusalsSQL)
	pool := db.Pool(t)
	for _, sql := range []string{
		`DELETE FROM fencegate.refusals`, `UPDATE fencegate.refusals SET code = ''`, `TRUNCATE fencegate.refusals`,
		`DELETE FROM fencegate.refusals_20260105`, `UPDATE fencegate.refusals_20260105 SET code = ''`, `TRUNCATE fencegate.refusals_20260105`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

func TestRefusalsAreKeptWhileTheSchemaMoves(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	db.Exec(t, refusalsSQL)
	var before, after, next string
	const all = `SELECT string_agg(concat_ws(' ', id, occurred_at, code, lock_key), '; ' ORDER BY id) FROM fencegate.refusals`
	look := func(into *string, sql string) {
		if err := db.Pool(t).QueryRow(t.Context(), sql).Scan(into); err != nil {
			t.Fatal(err)
		}
	}
	look(&before, all)
	for _, file := range []string{"down", "up"} {
		text, err := os.ReadFile("migrations/0007_refusals_by_time." + file + ".sql")
		if err != nil {
			t.Fatal(err)
		}
		db.Exec(t, string(text))
		if look(&after, all); after != before {
			t.Errorf("%s: %s, not %s", file, after, before)
		}
	}
	look(&next, `INSERT INTO fencegate.refusals (code, disposition, operation, lock_key, presented_token, holder_digest, principal, request_id, remote_address, instance)
		VALUES ('c', 'event', 'renew', 'k', 1, 'd', 'p', 'r', 'a', 'i') RETURNING id::text`)
	if next != "4" {
		t.Errorf("the next id is %s", next)
	}
}

func TestAdmittedRecordsAreKeptWhileTheSchemaMoves(t *testing.T) {
	t.Parallel()
	s := newSchema(t)
	s.db.Exec(t, refusalsSQL)
	s.db.Exec(t, `INSERT INTO fencegate.refusals (occurred_at, code, disposition, operation, lock_key, presented_token, holder_digest, principal, request_id, remote_address, instance)
		VALUES ('2026-01-12 00:00+00', 'fencing_required', 'admitted', 'update', '', 0, '', 'p', 'r', 'a', 'i'),
		       (clock_timestamp(), 'stale_token', 'event', 'renew', 'k', 1, 'd', 'p', 'r', 'a', 'i')`)
	const all = `SELECT string_agg(concat_ws(' ', id, occurred_at, code, disposition, operation), '; ' ORDER BY id) FROM fencegate.refusals`
	const foreign = `SELECT count(*)::text FROM pg_constraint WHERE conname = 'refusals_disposition_known' AND pg_get_constraintdef(oid) LIKE '%admitted%'`
	before, constraints := s.look(all), s.look(foreign)
	s.move("0011_observe.down.sql")
	if got := s.look(all); got != strings.Replace(before, "admitted", "event", 1) || s.look(foreign) != "0" {
		t.Errorf("one version back: %s, not %s", got, before)
	}
	s.move("0011_observe.up.sql")
	if got := s.look(all); got != before || s.look(foreign) != constraints {
		t.Errorf("and forth again: %s, not %s", got, before)
	}
	// As the version before left them, a partition's constraint is its own as well.
	s.move("0011_observe.down.sql")
	s.db.Exec(t, `SELECT fencegate.add_refusal_week('2026-02-02 12:00+00')`)
	s.move("0011_observe.up.sql")
	s.db.Exec(t, `INSERT INTO fencegate.refusals (occurred_at, code, disposition, operation, lock_key, presented_token, holder_digest, principal, request_id, remote_address, instance)
		VALUES ('2026-02-03 12:00+00', 'fencing_required', 'admitted', 'update', '', 0, '', 'p', 'r', 'a', 'i')`)
	for _, sql := range []string{`DELETE FROM fencegate.refusals`, `UPDATE fencegate.refusals_20260202 SET code = ''`} {
		if _, err := s.pool.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v", sql, err)
		}
	}
}
