package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	g := startKinds(t, "")
	l := g.Acquire(t, "kind:K", 300_000)
	send := func(t *testing.T, key string, q testenv.Request) testenv.Response {
		t.Helper()
		q.Header = with(l, "Idempotency-Key", key)
		q.Header.Set("Prefer", "return=representation")
		return g.Do(t, q)
	}
	lines := func(t *testing.T) (n int) {
		t.Helper()
		if err := g.Database.Pool(t).QueryRow(t.Context(), `SELECT count(*) FROM shop.lines`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	bulk := testenv.Request{Method: http.MethodPost, Path: "/rest/lines?select=id,line,more",
		Body: `[{"line":1},{"line":2,"more":null},{"line":3}]`}

	t.Run("ABulkInsertSentTwiceIsThereOnceAndAnsweredAlike", func(t *testing.T) {
		before := lines(t)
		first := send(t, "bulk", bulk)
		again := send(t, `"bulk"`, bulk) // quoted or bare
		if first.Status != http.StatusCreated || first.Header.Get("Idempotency-Replayed") != "" || lines(t) != before+3 {
			t.Fatalf("%d %v %s", first.Status, first.Header, first.Body)
		}
		if again.Status != first.Status || again.Body != first.Body || again.Header.Get("Content-Range") != first.Header.Get("Content-Range") ||
			again.Header.Get("Idempotency-Replayed") != "true" || again.Header.Get("Lease-Checked") != "" {
			t.Errorf("%d %v %s", again.Status, again.Header, again.Body)
		}
		if first.Body != `[{"id":"K","line":1,"more":7},{"id":"K","line":2,"more":null},{"id":"K","line":3,"more":7}]` {
			t.Error(first.Body)
		}
	})

	t.Run("AnotherRequestUnderTheSameKeyIs422", func(t *testing.T) {
		w := watch(t, g)
		for _, q := range []testenv.Request{
			{Method: http.MethodPost, Path: bulk.Path, Body: `[{"line":1}]`},
			{Method: http.MethodPost, Path: "/rest/lines", Body: bulk.Body},
			{Method: http.MethodPatch, Path: "/rest/lines?id=eq.K", Body: `{"line":1}`},
			{Method: http.MethodPost, Path: "/rest/kinds", Body: `[{"id":"K"}]`},
		} {
			mustRefuse(t, send(t, "bulk", q), want{status: 422, slug: "idempotency_key_reused", parameter: "Idempotency-Key"})
			w.unchanged(t)
		}
	})

	t.Run("AMalformedKeyIs400", func(t *testing.T) {
		w := watch(t, g)
		for _, key := range []string{"", `""`, "two words", "tab\tbed", "\u00e9", strings.Repeat("x", 256), `"half`} {
			mustRefuse(t, send(t, key, bulk), want{status: 400, slug: "idempotency_key_malformed", parameter: "Idempotency-Key"})
		}
		twice := with(l, "Idempotency-Key", "a")
		twice.Add("Idempotency-Key", "b")
		w.refused(t, g, testenv.Request{Method: http.MethodPost, Path: bulk.Path, Header: twice, Body: bulk.Body, Broken: true},
			want{status: 400, slug: "malformed_query", parameter: "Idempotency-Key"})
	})

	t.Run("TheRecordOfARefusalNamesTheKey", func(t *testing.T) {
		late := l
		late.Headers = map[string]string{"Lock-Key": l.Key, "Lock-Holder": "somebody", "Fencing-Token": l.Token}
		p := g.Do(t, testenv.Request{Method: http.MethodPost, Path: bulk.Path, Header: with(late, "Idempotency-Key", "late"), Body: bulk.Body}).Problem(t)
		record := g.Do(t, testenv.Request{Path: "/v1/refusals/" + p.AuditID})
		if !strings.Contains(record.Body, `"idempotency_key":"late"`) {
			t.Error(record.Body)
		}
	})

	t.Run("AfterTheLeaseIsLostTheOldAnswerIsGiven", func(t *testing.T) {
		g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/v1/leases/release", Body: l.Claim()})
		before := lines(t)
		if again := send(t, "bulk", bulk); again.Status != http.StatusCreated || again.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%d %s", again.Status, again.Body)
		}
		mustRefuse(t, send(t, "new", bulk), want{status: 412, slug: "lease_released"})
		if lines(t) != before {
			t.Error("something was written")
		}
	})
}
