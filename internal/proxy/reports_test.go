package proxy_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
)

// What users of other gateways have reported, as it must go here.

const reportsSQL = `
CREATE TABLE shop.parts (sku text PRIMARY KEY, label text NOT NULL, code text UNIQUE, n integer, at timestamptz);
INSERT INTO shop.parts VALUES ('A', 'a', 'x', 1, '2026-01-01');
`

const reportsTables = `tables:
  - {name: shop.parts, lock: "part:{sku}"}
`

func TestNullMissingAndEmptyAreThreeThings(t *testing.T) {
	t.Parallel()
	g := startOn(t, reportsSQL, reportsTables, "")
	a, b := g.Acquire(t, "part:A", 60000), g.Acquire(t, "part:B", 60000)
	pool := g.Database.Pool(t)

	t.Run("NullIsNullInEveryType", func(t *testing.T) {
		for _, q := range []testenv.Request{
			{Method: http.MethodPatch, Path: "/rest/parts?sku=eq.A", Header: a.Header(), Body: `{"code":null,"n":null,"at":null}`},
			{Method: http.MethodPost, Path: "/rest/parts", Header: b.Header(), Body: `{"sku":"B","label":"b","code":null,"n":null,"at":null}`},
		} {
			if answer := g.Do(t, q); answer.Status >= 300 {
				t.Errorf("%d %s", answer.Status, answer.Body)
			}
		}
		// Two rows without the unique code: it is NULL in both, not ''.
		if n := scalar[int](t, pool, `SELECT count(*) FROM shop.parts WHERE code IS NULL AND n IS NULL AND at IS NULL`); n != 2 {
			t.Errorf("%d rows", n)
		}
	})

	t.Run("AnEmptyTextIsATextAndNoNumber", func(t *testing.T) {
		if answer := g.Patch(t, a, "parts?sku=eq.A", `{"label":"","code":""}`); answer.Status != http.StatusNoContent {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
		if n := scalar[int](t, pool, `SELECT count(*) FROM shop.parts WHERE label = '' AND code = ''`); n != 1 {
			t.Errorf("%d rows", n)
		}
		mustRefuse(t, g.Patch(t, a, "parts?sku=eq.A", `{"n":""}`), want{status: 422, slug: "invalid_value"})
		mustRefuse(t, g.Patch(t, a, "parts?sku=eq.A", `{"at":""}`), want{status: 422, slug: "invalid_value"})
	})

	t.Run("ANullKeyIsNoKey", func(t *testing.T) {
		w := watch(t, g)
		const merge = "resolution=merge-duplicates"
		missing := want{status: 422, slug: "not_null_violation", column: "sku"}
		w.refused(t, g, testenv.Request{Method: http.MethodPost, Path: "/rest/parts", Header: a.Header(), Body: `{"sku":null,"label":"x"}`}, missing)
		w.refused(t, g, testenv.Request{Method: http.MethodPost, Path: "/rest/parts", Header: with(a, "Prefer", merge), Body: `{"sku":null,"label":"x"}`}, missing)
		w.refused(t, g, testenv.Request{Method: http.MethodPatch, Path: "/rest/parts?sku=eq.A", Header: a.Header(), Body: `{"sku":null}`}, missing)
		w.refused(t, g, testenv.Request{Method: http.MethodPut, Path: "/rest/parts?sku=eq.A", Header: a.Header(), Body: `{"sku":null,"label":"x"}`},
			want{status: 400, slug: "primary_key_mismatch", column: "sku"})
	})

	t.Run("AnUpsertOfPartOfARowSaysWhatItMisses", func(t *testing.T) {
		w := watch(t, g)
		missing := want{status: 422, slug: "not_null_violation", column: "label"}
		for _, q := range []testenv.Request{
			{Method: http.MethodPost, Path: "/rest/parts", Header: with(a, "Prefer", "resolution=merge-duplicates"), Body: `{"sku":"A","n":5}`},
			{Method: http.MethodPut, Path: "/rest/parts?sku=eq.A", Header: a.Header(), Body: `{"sku":"A","n":5}`},
			run(transaction([]testenv.Lease{a}, `{"op":"upsert","table":"parts","rows":[{"sku":"A","n":5}]}`)),
		} {
			answer := g.Do(t, q)
			mustRefuse(t, answer, missing)
			w.unchanged(t)
			if !strings.Contains(answer.Body, `"hint":"an upsert inserts before it merges`) {
				t.Errorf("no hint: %s", answer.Body)
			}
		}
		if answer := g.Patch(t, a, "parts?sku=eq.A", `{"n":5}`); answer.Status != http.StatusNoContent {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})
}

// backends are the processes of PostgreSQL that serve the gateway.
func backends(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	return scalar[string](t, pool, `
		SELECT coalesce(string_agg(pid::text, ' ' ORDER BY pid), '')
		  FROM pg_stat_activity
		 WHERE application_name = 'fencegate' AND datname = current_database()`)
}

func TestAClientThatHangsUpBreaksNoConnection(t *testing.T) {
	t.Parallel()
	db := testenv.Shop(t)
	g := testenv.StartGateway(t, testenv.GatewayOptions{Database: db, Config: fmt.Sprintf("database: {url: '%s', pool_size: 1}\n", db.URL)})
	l := g.Acquire(t, "inventory:SKU-1", 60000)
	if answer := g.Patch(t, l, "inventory?sku=eq.SKU-1", `{"available":1}`); answer.Status != http.StatusNoContent {
		t.Fatalf("%d %s", answer.Status, answer.Body)
	}
	pool := db.Pool(t)
	before := backends(t, pool)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `SELECT FROM shop.inventory WHERE sku = 'SKU-1' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	ctx, hangUp := context.WithCancel(t.Context())
	var gone sync.WaitGroup
	gone.Go(func() {
		q := testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1", Header: l.Header(), Body: `{"available":2}`}
		if answer, err := g.Try(t, ctx, q); err == nil {
			t.Errorf("it was answered with %d %s", answer.Status, answer.Body)
		}
	})
	for !scalar[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'fencegate' AND datname = current_database() AND wait_event_type = 'Lock')`) {
	}
	hangUp()
	gone.Wait()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Its one connection is free again once the abandoned write is through, whole.
	answer := g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/v1/transactions",
		Body: transaction([]testenv.Lease{l}, `{"op":"update","table":"inventory","where":{"sku":"eq.SKU-1","available":"eq.2"},"set":{"available":3},"expect_rows":1}`)})
	if answer.Status != http.StatusOK {
		t.Errorf("%d %s", answer.Status, answer.Body)
	}
	if now := backends(t, pool); now != before {
		t.Errorf("the backends were %s and are %s", before, now)
	}
}

// tracesSQL makes functions that leave something behind in their session.
const tracesSQL = `
CREATE TABLE shop.stamps (sku text PRIMARY KEY, seen timestamptz, n integer);
INSERT INTO shop.stamps VALUES ('A', now(), 0);
CREATE FUNCTION shop.leave(sku text, trace text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE trace; END $$;
CREATE FUNCTION shop.traces(sku text) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', current_user = session_user, current_setting('search_path'), current_setting('timezone'), current_setting('statement_timeout'),
        current_setting('session_replication_role'), nullif(current_setting('shop.worker', true), ''), to_regclass('pg_temp.left_over'),
        (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory')) $$;
`

const tracesTables = `tables:
  - {name: shop.stamps, lock: "stamp:{sku}"}
functions:
  - {name: shop.leave, lock: "stamp:{sku}"}
  - {name: shop.traces, lock: "stamp:{sku}"}
`

func TestACallLeavesNoTraceInItsConnection(t *testing.T) {
	t.Parallel()
	t.Run("Direct", func(t *testing.T) {
		t.Parallel()
		db := testenv.Postgres(t)
		wantNoTraces(t, db, "database: {url: '%s', pool_size: 1, read_pool_size: 1}\n", db.URL,
			"DO $$ BEGIN PERFORM pg_advisory_lock(2); RAISE EXCEPTION 'after all'; END $$", deallocate)
	})
	t.Run("ThroughAPooler", func(t *testing.T) {
		t.Parallel()
		db := testenv.Postgres(t)
		bouncer := testenv.PgBouncer(t, db.URL, 1, nil)
		wantNoTraces(t, db, "database: {url: '%s', pooler: transaction}\n", bouncer.URL(db.Name))
	})
}

const deallocate = "DEALLOCATE ALL" // after it there is no way but a new session

func wantNoTraces(t *testing.T, db *testenv.Database, config, url string, more ...string) {
	db.Exec(t, devstack.Shop)
	db.Exec(t, tracesSQL)
	g := testenv.StartGateway(t, testenv.GatewayOptions{Database: db, DatabaseURL: url, Tables: tracesTables, Config: fmt.Sprintf(config, url)})
	l := g.Acquire(t, "stamp:A", 60000)
	call := func(trace string) testenv.Request {
		return testenv.Request{Method: http.MethodPost, Path: "/rest/rpc/leave", Header: l.Header(), Body: `{"sku":"A","trace":"` + trace + `"}`}
	}
	traces := func() string {
		written := g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/rest/rpc/traces", Header: l.Header(), Body: `{"sku":"A"}`})
		read := g.Do(t, testenv.Request{Path: "/rest/rpc/traces?sku=A"})
		return written.Body + read.Body
	}
	pool := db.Pool(t)
	before, sessions := traces(), backends(t, pool)
	for _, trace := range append([]string{
		"SET search_path = pg_temp", "SET timezone = 'Asia/Tokyo'", "SET default_transaction_isolation = serializable", "SET default_transaction_read_only = on",
		"SET statement_timeout = 1", "SET session_replication_role = replica", "SET shop.worker = 'somebody'", "SET ROLE pg_monitor", "SET SESSION AUTHORIZATION pg_monitor",
		"CREATE TEMP TABLE left_over ()", "SELECT pg_advisory_lock(1)", "LISTEN news", "DISCARD PLANS",
	}, more...) {
		t.Run(trace, func(t *testing.T) {
			called := g.Do(t, call(trace))
			g.Do(t, testenv.Request{Path: "/rest/rpc/leave?sku=A&trace=" + strings.ReplaceAll(trace, " ", "+")})
			if raises := strings.Contains(trace, "RAISE"); raises != (called.Status == http.StatusUnprocessableEntity) {
				t.Errorf("%d %s", called.Status, called.Body)
			}
			if answer := g.Patch(t, l, "stamps?sku=eq.A", `{"n":1}`); answer.Status != http.StatusNoContent {
				t.Errorf("the next write: %d %s", answer.Status, answer.Body)
			}
			if now := traces(); now != before {
				t.Errorf("it left %s, not %s", now, before)
			}
			if now := backends(t, pool); now != sessions && trace != deallocate {
				t.Errorf("a connection was given up: %s, now %s", sessions, now)
			}
		})
	}
}

func TestBatchesInOppositeOrderDoNotDeadlock(t *testing.T) {
	t.Parallel()
	const sql = `CREATE TABLE shop.cells (row integer, cell integer, n integer DEFAULT 1, PRIMARY KEY (row, cell));`
	g := startOn(t, sql, "tables:\n  - {name: shop.cells, lock: \"row:{row}\"}\n", "")
	locks := []testenv.Lease{g.Acquire(t, "row:1", 300_000), g.Acquire(t, "row:2", 300_000)}
	var forth []string
	for i := range 100 {
		forth = append(forth, fmt.Sprintf(`{"row":%d,"cell":%d,"n":2}`, 1+i%2, i))
	}
	back := slices.Clone(forth)
	slices.Reverse(back)
	const rounds = 40
	var workers sync.WaitGroup
	for _, rows := range [][]string{forth, back, forth, back} {
		body := transaction(locks, `{"op":"upsert","table":"cells","rows":[`+strings.Join(rows, ",")+`]}`)
		workers.Go(func() {
			for range rounds {
				if answer := g.Do(t, run(body)); answer.Status != http.StatusOK || !strings.Contains(answer.Body, `"affected":100`) {
					t.Errorf("%d %s", answer.Status, answer.Body)
				}
			}
		})
	}
	workers.Wait()
	if n := scalar[int](t, g.Database.Pool(t), `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}
