package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// Tables whose owners have fenced by hand: rows with a token, without one, and
// one far above what the gateway would begin with.
const fencedSQL = `
CREATE TABLE shop.jobs (id text PRIMARY KEY, state text, last_token bigint);
INSERT INTO shop.jobs VALUES ('new', 'x', NULL), ('old', 'x', 41), ('high', 'x', 9000000000000000000), ('last', 'x', 9223372036854775807);
CREATE TABLE shop.tasks (shard integer, id text, state text, "Token ""x" bigint NOT NULL DEFAULT 0, PRIMARY KEY (shard, id));
INSERT INTO shop.tasks VALUES (7, 'a', 'x', 100), (7, 'b', 'x', 300), (8, 'c', 'x', 5000);
`

const fencedTables = `tables:
  - name: shop.jobs
    lock: "job:{id}"
    fence_column: last_token
  - name: shop.tasks
    lock: "shard:{shard}"
    fence_column: Token "x
  - name: shop.inventory
    lock: "inventory:{sku}"
`

func startFenced(t *testing.T) *testenv.Gateway {
	t.Helper()
	return startOn(t, fencedSQL, fencedTables, "")
}

func TestFenceColumn(t *testing.T) {
	t.Parallel()
	g := startFenced(t)
	pool := g.Database.Pool(t)
	token := func(id string) string {
		return scalar[string](t, pool, `SELECT coalesce(last_token::text, 'null') FROM shop.jobs WHERE id = $1`, id)
	}
	patch := func(l testenv.Lease, id string) testenv.Response {
		return g.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/jobs?id=eq." + id, Header: l.Header(), Body: `{"state":"y"}`})
	}

	t.Run("AGrantStartsAboveTheRowsOfItsKey", func(t *testing.T) {
		for key, want := range map[string]string{
			"job:new": "1", "job:old": "42", "job:high": "9000000000000000001", "job:none": "1",
			"shard:7": "301", "shard:8": "5001", "shard:07": "1", "shard:x": "1", "shard:99999999999999999999": "1", "inventory:old": "1",
		} {
			if l := g.Acquire(t, key, 60000); l.Token != want {
				t.Errorf("%s was granted under %s, not %s", key, l.Token, want)
			} else {
				g.Release(t, l)
			}
		}
		if l := g.Acquire(t, "job:old", 60000); l.Token != "43" {
			t.Errorf("the next grant is %s", l.Token)
		} else {
			g.Release(t, l)
		}
		mustRefuse(t, g.TryAcquire(t, "job:last", 60000), want{status: 422, slug: "invalid_value", code: "22003"})
	})

	t.Run("EveryWriteStampsIt", func(t *testing.T) {
		l := g.Acquire(t, "job:stamped", 60000)
		for _, q := range []testenv.Request{
			{Method: http.MethodPost, Path: "/rest/jobs", Body: `{"id":"stamped"}`},
			{Method: http.MethodPatch, Path: "/rest/jobs?id=eq.stamped", Body: `{"state":"y"}`},
			{Method: http.MethodPut, Path: "/rest/jobs?id=eq.stamped", Body: `{"id":"stamped","state":"z"}`},
		} {
			q.Header = l.Header()
			if answer := g.Do(t, q); answer.Status >= 300 || token("stamped") != l.Token {
				t.Errorf("%s: %d %s, the row has %s", q.Method, answer.Status, answer.Body, token("stamped"))
			}
			exec(t, g, `UPDATE shop.jobs SET last_token = NULL WHERE id = 'stamped'`)
		}
		all := g.Acquire(t, "shard:9", 60000)
		answer := g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/rest/tasks", Header: with(all, "Prefer", "resolution=merge-duplicates"),
			Body: `[{"shard":9,"id":"a"},{"shard":9,"id":"b","state":"x"},{"id":"c","shard":9}]`})
		if n := scalar[int](t, pool, `SELECT count(*) FROM shop.tasks WHERE shard = 9 AND "Token ""x" = $1`, all.Token); answer.Status != 201 || n != 3 {
			t.Errorf("%d %s, %d rows are stamped", answer.Status, answer.Body, n)
		}
	})

	t.Run("ARowUnderAHigherTokenIsNotTouched", func(t *testing.T) {
		l := g.Acquire(t, "job:old", 60000)
		exec(t, g, `UPDATE shop.jobs SET last_token = 1000 WHERE id = 'old'`)
		w := watch(t, g)
		for _, q := range []testenv.Request{
			{Method: http.MethodPatch, Path: "/rest/jobs?id=eq.old", Body: `{"state":"y"}`},
			{Method: http.MethodDelete, Path: "/rest/jobs?id=eq.old"},
			{Method: http.MethodPut, Path: "/rest/jobs?id=eq.old", Body: `{"id":"old","state":"y"}`},
		} {
			q.Header = l.Header()
			p := w.refused(t, g, q, want{status: 412, slug: "stale_token"})
			record := g.Do(t, testenv.Request{Path: "/v1/refusals/" + p.AuditID})
			if p.HighWaterToken != "1000" || p.LockKey != "job:old" || !strings.Contains(record.Body, `"mark_token":"1000"`) {
				t.Errorf("%+v, recorded as %s", p, record.Body)
			}
		}
		// A row that the filters leave out is nobody's business.
		if answer := g.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/jobs?id=eq.old&state=eq.none", Header: l.Header(), Body: `{"state":"y"}`}); answer.Status != 204 {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
		g.Release(t, l)
		if l := g.Acquire(t, "job:old", 60000); l.Token != "1001" || patch(l, "old").Status != 204 || token("old") != "1001" {
			t.Errorf("the next holder got %s, the row has %s", l.Token, token("old"))
		}
	})

	t.Run("TokensOfOtherKeysDoNotMatter", func(t *testing.T) {
		seven := g.Acquire(t, "shard:7", 60000) // far below shard 8's
		for range 3 {
			answer := g.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/tasks?shard=eq.7&state=eq.x", Header: seven.Header(), Body: `{"state":"x"}`})
			if answer.Status != 204 {
				t.Errorf("%d %s", answer.Status, answer.Body)
			}
		}
	})

	t.Run("ARequestCannotSetIt", func(t *testing.T) {
		l := g.Acquire(t, "job:new", 60000)
		w := watch(t, g)
		p := want{status: 422, slug: "fence_column", column: "last_token"}
		w.refused(t, g, testenv.Request{Method: http.MethodPatch, Path: "/rest/jobs?id=eq.new", Header: l.Header(), Body: `{"last_token":1}`}, p)
		w.refused(t, g, testenv.Request{Method: http.MethodPost, Path: "/rest/jobs", Header: l.Header(), Body: `{"id":"new","last_token":1}`}, p)
		w.refused(t, g, testenv.Request{Method: http.MethodPost, Path: "/rest/jobs?columns=id,last_token", Header: l.Header(), Body: `[{"id":"new"}]`}, p)
		w.refused(t, g, run(transaction([]testenv.Lease{l}, `{"op":"update","table":"jobs","where":{"id":"eq.new"},"increment":{"last_token":1}}`)), p)
	})
}

func TestFenceColumnUnderSeveralLocks(t *testing.T) {
	t.Parallel()
	g := startFenced(t)
	seven, eight, old := g.Acquire(t, "shard:7", 60000), g.Acquire(t, "shard:8", 60000), g.Acquire(t, "job:old", 60000)
	locks := []testenv.Lease{eight, old, seven}
	pool := g.Database.Pool(t)
	stamps := func() string {
		return scalar[string](t, pool, `SELECT string_agg(shard || id || ':' || "Token ""x", ' ' ORDER BY id) FROM shop.tasks`)
	}

	t.Run("EachRowHasItsKeysToken", func(t *testing.T) {
		const ops = `{"op":"update","table":"tasks","where":{"shard":"eq.7","id":"eq.a"},"set":{"state":"y"}},
			{"op":"insert","table":"tasks","rows":[{"shard":7,"id":"d"},{"shard":8,"id":"e"}]},
			{"op":"upsert","table":"tasks","rows":[{"shard":8,"id":"c","state":"y"}]},
			{"op":"update","table":"jobs","where":{"id":"eq.old"},"set":{"state":"y"}}`
		if answer := g.Do(t, run(transaction(locks, ops))); answer.Status != 200 || stamps() != "7a:301 7b:300 8c:5001 7d:301 8e:5001" {
			t.Errorf("%d %s: %s", answer.Status, answer.Body, stamps())
		}
	})

	t.Run("ARowMovedBetweenThemTakesTheTokenOfItsNewKey", func(t *testing.T) {
		const there = `{"op":"update","table":"tasks","where":{"shard":"eq.8","id":"eq.c"},"set":{"shard":7}}`
		const back = `{"op":"update","table":"tasks","where":{"shard":"eq.7","id":"eq.b"},"increment":{"shard":1}}`
		if answer := g.Do(t, run(transaction(locks, there+","+back))); answer.Status != 200 || stamps() != "7a:301 8b:5001 7c:301 7d:301 8e:5001" {
			t.Errorf("%d %s: %s", answer.Status, answer.Body, stamps())
		}
	})

	t.Run("ARowUnderAHigherTokenNamesItsLock", func(t *testing.T) {
		exec(t, g, `UPDATE shop.tasks SET "Token ""x" = 4000 WHERE id = 'a'`)
		w := watch(t, g)
		p := w.refused(t, g, run(transaction(locks, `{"op":"delete","table":"tasks","where":{"shard":"eq.7","id":"eq.a"}}`)), want{status: 412, slug: "stale_token"})
		if p.LockKey != "shard:7" || p.HighWaterToken != "4000" {
			t.Errorf("%+v", p)
		}
	})

	t.Run("ANewRowSaysItsKey", func(t *testing.T) {
		w := watch(t, g)
		w.refused(t, g, run(transaction(locks, `{"op":"insert","table":"tasks","rows":[{"id":"z"}]}`)), want{status: 403, slug: "lock_scope"})
	})
}
