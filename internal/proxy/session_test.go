package proxy_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/testenv"
)

// staleSQL makes a table whose trigger does what the row tells it to, and leaves
// in the session what a change of other.c or of the type mood makes useless.
const staleSQL = `
CREATE SCHEMA shop;
CREATE TYPE shop.mood AS ENUM ('sad');
CREATE TABLE shop.other (c integer);
INSERT INTO shop.other VALUES (1);
CREATE TABLE shop.prepared (name text PRIMARY KEY);
CREATE SEQUENCE shop.runs;
CREATE TABLE shop.row (id text PRIMARY KEY, n integer, told text, more text);
INSERT INTO shop.row VALUES ('K'), ('L');
CREATE FUNCTION shop.tell() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r record;
    m shop.mood;
    v shop.row.n%TYPE;
BEGIN
    PERFORM nextval('shop.runs');
    CASE NEW.told
    WHEN 'read another table' THEN
        SELECT * INTO r FROM shop.other;
        IF r.c = 7 THEN NEW.n := NULL; END IF;
    WHEN 'have a mood' THEN
        m := 'sad';
        IF m::text <> 'sad' THEN NEW.n := NULL; END IF;
    WHEN 'set n' THEN
        v := 1.5;
        NEW.n := v;
    WHEN 'forget' THEN
        EXECUTE 'DEALLOCATE ALL';
    WHEN 'note the names' THEN
        INSERT INTO shop.prepared SELECT name FROM pg_prepared_statements ON CONFLICT DO NOTHING;
    WHEN 'take the names' THEN
        FOR r IN SELECT name FROM shop.prepared EXCEPT SELECT name FROM pg_prepared_statements LOOP
            EXECUTE format('PREPARE %I AS SELECT 1', r.name);
        END LOOP;
    WHEN 'nothing' THEN
    ELSE
        RAISE EXCEPTION 'as told' USING ERRCODE = NEW.told;
    END CASE;
    RETURN NEW;
END $$;
CREATE TRIGGER tell BEFORE UPDATE ON shop.row FOR EACH ROW EXECUTE FUNCTION shop.tell();
`

// sessions is a gateway with two sessions for writes, both of which have run the
// trigger.
type sessions struct {
	*testenv.Gateway
	k, l testenv.Lease
	pool *pgxpool.Pool
}

func startSessions(t *testing.T) *sessions {
	t.Helper()
	db := testenv.Postgres(t)
	db.Exec(t, staleSQL)
	g := testenv.StartGateway(t, testenv.GatewayOptions{
		Database: db,
		Tables:   "tables: [{name: shop.row, lock: 'row:{id}'}]\n",
		Config:   fmt.Sprintf("database: {url: '%s', pool_size: 2, reload_on_notify: false}\n", db.URL),
	})
	return &sessions{g, g.Acquire(t, "row:K", 300_000), g.Acquire(t, "row:L", 300_000), db.Pool(t)}
}

func (s *sessions) tell(l testenv.Lease, what string) testenv.Request {
	return testenv.Request{Method: http.MethodPatch, Path: "/rest/row?id=eq." + l.Key[len("row:"):], Header: l.Header(),
		Body: fmt.Sprintf(`{"told":%q,"n":1}`, what)}
}

// tellBoth makes both sessions run the trigger, at once.
func (s *sessions) tellBoth(t *testing.T, what string) {
	t.Helper()
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	var pid int
	if err := tx.QueryRow(t.Context(), `SELECT max(pg_backend_pid()) FROM (SELECT FROM shop.row FOR UPDATE) AS locked`).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	answers := make(chan testenv.Response)
	for _, l := range []testenv.Lease{s.k, s.l} {
		go func() {
			answer, _ := s.Try(t, t.Context(), s.tell(l, what))
			answers <- answer
		}()
	}
	for scalar[int](t, s.pool, `SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))`, pid) < 2 {
	}
	tx.Rollback(t.Context())
	for range 2 {
		if answer := <-answers; answer.Status != http.StatusNoContent {
			t.Errorf("%q: %d %s", what, answer.Status, answer.Body)
		}
	}
}

// runs counts how often act made the trigger run.
func (s *sessions) runs(t *testing.T, act func()) int {
	t.Helper()
	before := scalar[int](t, s.pool, `SELECT last_value FROM shop.runs`)
	act()
	return scalar[int](t, s.pool, `SELECT last_value FROM shop.runs`) - before
}

func TestWhatASessionKeepsIsNoReasonToRefuse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ told, change string }{
		"AFunctionsPlanForAnotherType":     {"read another table", `ALTER TABLE shop.other ALTER c TYPE bigint`},
		"AFunctionsVariableOfADroppedType": {"have a mood", `ALTER TYPE shop.mood RENAME TO old; CREATE TYPE shop.mood AS ENUM ('sad'); DROP TYPE shop.old`},
		"NoPreparedStatementsAnyMore":      {"forget", `SELECT`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSessions(t)
			s.tellBoth(t, c.told)
			s.Database.Exec(t, c.change)
			for range 3 {
				for _, l := range []testenv.Lease{s.k, s.l} {
					if answer := s.Do(t, s.tell(l, c.told)); answer.Status != http.StatusNoContent {
						t.Errorf("%d %s", answer.Status, answer.Body)
					}
				}
			}
			refused := s.tell(s.k, c.told)
			refused.Header = with(s.k, "Idempotency-Key", "late")
			refused.Header.Set("Fencing-Token", "999")
			mustRefuse(t, s.Do(t, refused), want{status: http.StatusPreconditionFailed, slug: "token_not_granted"})
		})
	}

	t.Run("AFunctionsVariableOfTheFormerType", func(t *testing.T) {
		t.Parallel()
		s := startSessions(t)
		s.tellBoth(t, "set n")
		s.Database.Exec(t, `ALTER TABLE shop.row ALTER n TYPE numeric`)
		for _, l := range []testenv.Lease{s.k, s.l} {
			if answer := s.Do(t, s.tell(l, "set n")); answer.Status != http.StatusNoContent {
				t.Errorf("%d %s", answer.Status, answer.Body)
			}
		}
		if sum := scalar[string](t, s.pool, `SELECT sum(n)::text FROM shop.row`); sum != "3.0" {
			t.Errorf("of 1.5 and 1.5 became %s", sum)
		}
	})

	t.Run("APreparedStatementThatIsThereAlready", func(t *testing.T) {
		t.Parallel()
		s := startSessions(t)
		s.tellBoth(t, "note the names")
		scalar[int](t, s.pool, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'fencegate' AND datname = current_database()`)
		another := s.tell(s.k, "take the names")
		another.Body = `{"told":"take the names","more":""}`
		for s.Do(t, another).Status != http.StatusNoContent {
			// Connections that were cut are found out one by one.
		}
		for _, l := range []testenv.Lease{s.k, s.l} {
			if answer := s.Do(t, s.tell(l, "nothing")); answer.Status != http.StatusNoContent {
				t.Errorf("%d %s", answer.Status, answer.Body)
			}
		}
	})

	t.Run("ARequestCannotHaveSessionsRenewed", func(t *testing.T) {
		t.Parallel()
		s := startSessions(t)
		s.tellBoth(t, "nothing")
		const since = `SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE application_name = 'fencegate' AND datname = current_database()`
		before := scalar[string](t, s.pool, since)
		for _, state := range []string{"XX000", "42804", "0A000"} {
			if n := s.runs(t, func() { s.Do(t, s.tell(s.k, state)) }); n != 1 {
				t.Errorf("%s: it ran %d times", state, n)
			}
		}
		if after := scalar[string](t, s.pool, since); after != before {
			t.Errorf("the sessions are %s, and were %s", after, before)
		}
	})
}
