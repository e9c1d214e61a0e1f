package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
)

const upsertSQL = `
CREATE TABLE shop.stock (
    sku  text NOT NULL,
    day  date NOT NULL,
    code text UNIQUE,
    n    integer DEFAULT 7,
    note text DEFAULT 'default',
    PRIMARY KEY (sku, day)
);
INSERT INTO shop.stock VALUES
    ('A', '2026-01-01', 'a1', 1, 'mine'),
    ('B', '2026-01-01', 'b1', 2, 'another''s');
CREATE TABLE shop.keyless (sku text, n integer);
CREATE TABLE shop.readonly (sku text PRIMARY KEY, n integer);
INSERT INTO shop.readonly VALUES ('A', 1);
`

const upsertTables = `  - {name: shop.stock, lock: "stock:{sku}"}
  - {name: shop.keyless, lock: "stock:{sku}"}
  - {name: shop.readonly, lock: "stock:{sku}", operations: [select, insert]}
`

func TestUpsert(t *testing.T) {
	t.Parallel()
	g := startOn(t, upsertSQL, devstack.ShopTables+upsertTables, "")
	l := g.Acquire(t, "stock:A", 300_000)
	post := func(path, prefer, body string) testenv.Request {
		return testenv.Request{Method: http.MethodPost, Path: "/rest/" + path, Header: with(l, "Prefer", prefer), Body: body}
	}
	const merge, ignore = "resolution=merge-duplicates,return=representation", "resolution=ignore-duplicates,return=representation"

	t.Run("MergeUpdatesWhatIsThereAndInsertsTheRest", func(t *testing.T) {
		answer := g.Do(t, post("stock?select=day,n,note", merge,
			`[{"sku":"A","day":"2026-01-01","n":5},{"sku":"A","day":"2026-01-02","n":6}]`))
		if answer.Status != http.StatusCreated || answer.Body != `[{"day":"2026-01-01","n":5,"note":"mine"},{"day":"2026-01-02","n":6,"note":"default"}]` {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
		if !strings.Contains(answer.Header.Get("Preference-Applied"), "resolution=merge-duplicates") {
			t.Error(answer.Header)
		}
	})

	t.Run("IgnoreLeavesWhatIsThere", func(t *testing.T) {
		answer := g.Do(t, post("stock?select=day,n", ignore,
			`[{"sku":"A","day":"2026-01-01","n":50},{"sku":"A","day":"2026-01-03","n":60}]`))
		if answer.Status != http.StatusCreated || answer.Body != `[{"day":"2026-01-03","n":60}]` {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})

	t.Run("AnotherUniqueKeyIsNamed", func(t *testing.T) {
		answer := g.Do(t, post("stock?on_conflict=code&select=day,n", merge, `{"sku":"A","day":"2026-01-01","code":"a1","n":9}`))
		if answer.Status != http.StatusCreated || answer.Body != `[{"day":"2026-01-01","n":9}]` {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})

	t.Run("ARowOfAnotherLockIsNeitherTakenNorSkippedSilently", func(t *testing.T) {
		w := watch(t, g)
		// b1 is B's: merging would move B's row under A's lock.
		w.refused(t, g, post("stock?on_conflict=code", merge, `{"sku":"A","day":"2026-02-01","code":"b1","n":0}`), want{status: 403, slug: "lock_scope"})
		w.refused(t, g, post("stock", merge, `{"sku":"B","day":"2026-01-01","n":0}`), want{status: 403, slug: "lock_scope"})
		w.refused(t, g, post("stock", ignore, `[{"sku":"A","day":"2026-03-01"},{"sku":"B","day":"2026-03-01"}]`), want{status: 403, slug: "lock_scope"})
	})

	t.Run("WithoutAKeyToCollideOnItIsAnError", func(t *testing.T) {
		w := watch(t, g)
		w.refused(t, g, post("keyless", merge, `{"sku":"A","n":1}`), want{status: 422, slug: "no_conflict_key"})
		w.refused(t, g, post("keyless?on_conflict=sku", merge, `{"sku":"A","n":1}`), want{status: 422, slug: "no_conflict_key", code: "42P10"})
		w.refused(t, g, post("stock?on_conflict=nosuch", merge, `{"sku":"A"}`), want{status: 422, slug: "unknown_column"})
		w.refused(t, g, post("stock?on_conflict=code", "return=minimal", `{"sku":"A","day":"2026-01-01"}`), want{status: 400, slug: "malformed_query", parameter: "on_conflict"})
		w.refused(t, g, post("stock", merge, `{}`), want{status: 400, slug: "empty_body"})
	})

	t.Run("TheSameRowTwiceIsAnError", func(t *testing.T) {
		w := watch(t, g)
		w.refused(t, g, post("stock", merge, `[{"sku":"A","day":"2026-01-01","n":1},{"sku":"A","day":"2026-01-01","n":2}]`), want{status: 422, slug: "same_row_twice"})
	})

	t.Run("MergingNeedsTheRightToUpdate", func(t *testing.T) {
		w := watch(t, g)
		w.refused(t, g, post("readonly", merge, `{"sku":"A","n":2}`), want{status: 403, slug: "forbidden"})
		if answer := g.Do(t, post("readonly", ignore, `{"sku":"A","n":2}`)); answer.Status != http.StatusCreated || answer.Body != "[]" {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})

	t.Run("OnlyInsertsTakeIt", func(t *testing.T) {
		w := watch(t, g)
		q := testenv.Request{Method: http.MethodPatch, Path: "/rest/stock?sku=eq.A", Header: with(l, "Prefer", "resolution=merge-duplicates"), Body: `{"n":1}`}
		w.refused(t, g, q, want{status: 400, slug: "invalid_preference"})
		q.Path, q.Header = "/rest/stock?sku=eq.A&on_conflict=code", l.Header()
		w.refused(t, g, q, want{status: 400, slug: "malformed_query", parameter: "on_conflict"})
		mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/stock", Header: http.Header{"Prefer": {"resolution=merge-duplicates"}}}), want{status: 400, slug: "invalid_preference"})
	})

	t.Run("UnderAnIdempotencyKeyItIsAnsweredOnce", func(t *testing.T) {
		q := post("stock?select=n", merge, `{"sku":"A","day":"2026-01-01","n":70}`)
		q.Header.Set("Idempotency-Key", "upsert")
		first, again := g.Do(t, q), g.Do(t, q)
		if first.Body != `[{"n":70}]` || again.Body != first.Body || again.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s, then %s", first.Body, again.Body)
		}
	})

	t.Run("AStaleTokenDoesNotMerge", func(t *testing.T) {
		w := watch(t, g)
		late := l
		late.Headers = map[string]string{"Lock-Key": l.Key, "Lock-Holder": "other", "Fencing-Token": l.Token}
		w.refused(t, g, testenv.Request{Method: http.MethodPost, Path: "/rest/stock", Header: with(late, "Prefer", merge),
			Body: `{"sku":"A","day":"2026-01-01","n":0}`}, want{status: 412, slug: "holder_mismatch"})
	})
}

func TestColumns(t *testing.T) {
	t.Parallel()
	g := startOn(t, upsertSQL, devstack.ShopTables+upsertTables, "")
	l := g.Acquire(t, "stock:A", 300_000)
	post := func(path, prefer, body string) testenv.Request {
		return testenv.Request{Method: http.MethodPost, Path: "/rest/stock?select=n,note&columns=" + path, Header: with(l, "Prefer", prefer), Body: body}
	}
	const rows = `[{"sku":"A","day":"2027-01-01","n":1},{"sku":"A","day":"2027-01-02","note":"x"}]`

	t.Run("AnAbsentMemberIsNull", func(t *testing.T) {
		answer := g.Do(t, post(`%22sku%22,%22day%22,%22n%22,%22note%22`, "return=representation", rows)) // quoted, as postgrest-js sends it
		if answer.Body != `[{"n":1,"note":null},{"n":null,"note":"x"}]` {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})
	t.Run("UnlessTheDefaultIsPreferred", func(t *testing.T) {
		answer := g.Do(t, post("sku,day,n,note", "return=representation,missing=default", strings.ReplaceAll(rows, "2027", "2028")))
		if answer.Body != `[{"n":1,"note":"default"},{"n":7,"note":"x"}]` {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})
	t.Run("AMemberBesideThemIsAnError", func(t *testing.T) {
		w := watch(t, g)
		w.refused(t, g, post("sku,day", "return=minimal", rows), want{status: 422, slug: "not_in_columns", column: "n"})
		w.refused(t, g, post("sku,day,n,note,nosuch", "return=minimal", rows), want{status: 422, slug: "unknown_column"})
		w.refused(t, g, post("sku,sku", "return=minimal", rows), want{status: 400, slug: "malformed_query", parameter: "columns"})
		w.refused(t, g, testenv.Request{Method: http.MethodPatch, Path: "/rest/stock?sku=eq.A&columns=n", Header: l.Header(), Body: `{"n":1}`},
			want{status: 400, slug: "malformed_query", parameter: "columns"})
	})
}
