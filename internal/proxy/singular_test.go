package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
)

const object = "application/vnd.pgrst.object+json"

func TestSingular(t *testing.T) {
	t.Parallel()
	g := startKinds(t, "")
	l := g.Acquire(t, "kind:K", 60000)
	exec(t, g, `INSERT INTO shop.lines (line) VALUES (1), (2)`)
	w := watch(t, g)
	p := want{status: 406, slug: "not_singular", code: "PGRST116", parameter: "Accept"}

	t.Run("OneRowIsAnObject", func(t *testing.T) {
		answer := g.Do(t, testenv.Request{Path: "/rest/kinds?id=eq.K&select=id,note", Header: http.Header{"Accept": {object}}})
		if answer.Status != 200 || answer.Body != `{"id":"K","note":"default"}` || !strings.HasPrefix(answer.Header.Get("Content-Type"), object) {
			t.Errorf("%d %v %s", answer.Status, answer.Header, answer.Body)
		}
	})

	t.Run("AnyOtherNumberOfRowsIs406", func(t *testing.T) {
		for _, path := range []string{"/rest/kinds?id=eq.none", "/rest/lines", "/rest/lines?limit=0"} {
			mustRefuse(t, g.Do(t, testenv.Request{Path: path, Header: http.Header{"Accept": {object}}}), p)
		}
	})

	t.Run("AWriteOfAnyOtherNumberOfRowsIsTakenBack", func(t *testing.T) {
		for _, prefer := range []string{"return=minimal", "return=representation", "max-affected=5"} {
			h := with(l, "Accept", object, "Prefer", prefer)
			w.refused(t, g, testenv.Request{Method: http.MethodPatch, Path: "/rest/lines?id=eq.K", Header: h, Body: `{"line":9}`}, p)
			w.refused(t, g, testenv.Request{Method: http.MethodPatch, Path: "/rest/lines?id=eq.K&line=eq.7", Header: h, Body: `{"line":9}`}, p)
			w.refused(t, g, testenv.Request{Method: http.MethodDelete, Path: "/rest/lines?id=eq.K", Header: h}, p)
			w.refused(t, g, testenv.Request{Method: http.MethodPost, Path: "/rest/lines", Header: h, Body: `[{"line":8},{"line":9}]`}, p)
		}
	})

	t.Run("AWriteOfOneRowAnswersIt", func(t *testing.T) {
		h := with(l, "Accept", object, "Prefer", "return=representation")
		answer := g.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/kinds?id=eq.K&select=id,i4", Header: h, Body: `{"i4":4}`})
		if answer.Status != 200 || answer.Body != `{"id":"K","i4":4}` || answer.Header.Get("ETag") == "" {
			t.Errorf("%d %v %s", answer.Status, answer.Header, answer.Body)
		}
	})
}

func TestIfMatch(t *testing.T) {
	t.Parallel()
	g := startKinds(t, "")
	l := g.Acquire(t, "kind:K", 60000)
	etag := func(header http.Header) string {
		t.Helper()
		header.Set("Accept", object)
		answer := g.Do(t, testenv.Request{Path: "/rest/kinds?id=eq.K&select=i4", Header: header})
		if answer.Header.Get("ETag") == "" {
			t.Fatalf("no ETag: %d %v", answer.Status, answer.Header)
		}
		return answer.Header.Get("ETag")
	}
	patch := func(ifMatch, body string, more ...string) testenv.Response {
		return g.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/kinds?id=eq.K", Header: with(l, append(more, "If-Match", ifMatch)...), Body: body})
	}
	exec(t, g, `UPDATE shop.kinds SET ts = '2026-07-01 12:00+00', f8 = 0.1, b = '\x00ff' WHERE id = 'K'`)
	read := etag(http.Header{})

	t.Run("ItIsTheSameUnderAnySettings", func(t *testing.T) {
		if other := etag(http.Header{"Prefer": {"timezone=Asia/Tokyo"}}); other != read {
			t.Errorf("%s and %s", read, other)
		}
	})

	t.Run("AnotherTagIs412AndNotTheFences", func(t *testing.T) {
		for _, tag := range []string{`"0123456789abcdef0123456789abcdef"`, `"` + strings.Repeat("x", 100) + `"`, "W/" + read, `"it's"`} {
			answer := patch(tag, `{"i4":1}`)
			if p := answer.Problem(t); answer.Status != 412 || p.Slug() != "precondition_failed" || answer.Header.Get("Fencing-Refused") != "" {
				t.Errorf("%s: %d %s", tag, answer.Status, answer.Body)
			}
		}
	})

	t.Run("NoSuchRowIs412", func(t *testing.T) {
		for _, tag := range []string{"*", read} {
			answer := g.Do(t, testenv.Request{Method: http.MethodDelete, Path: "/rest/kinds?id=eq.K&i4=eq.99", Header: with(l, "If-Match", tag)})
			if answer.Status != 412 || answer.Problem(t).Slug() != "precondition_failed" {
				t.Errorf("%d %s", answer.Status, answer.Body)
			}
		}
	})

	t.Run("WhatIsNoListOfTagsIs400", func(t *testing.T) {
		for _, tag := range []string{"", "x", `"`, `"a" "b"x`, `"a",`, `*, "a"`} {
			mustRefuse(t, patch(tag, `{"i4":1}`), want{status: 400, slug: "malformed_header", parameter: "If-Match"})
		}
	})

	t.Run("OtherWritesDoNotTakeIt", func(t *testing.T) {
		h := with(l, "If-Match", read)
		p := want{status: 400, slug: "unsupported_header", parameter: "If-Match"}
		mustRefuse(t, g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/rest/kinds", Header: h, Body: `{"id":"K"}`}), p)
		mustRefuse(t, g.Do(t, testenv.Request{Method: http.MethodPut, Path: "/rest/kinds?id=eq.K", Header: h, Body: `{"id":"K"}`}), p)
	})

	t.Run("TheTagOfTheRowLetsOneWriteThrough", func(t *testing.T) {
		first := patch(`"other" , `+read, `{"i4":1}`, "Accept", object, "Prefer", "return=representation")
		if first.Status != 200 {
			t.Fatalf("%d %s", first.Status, first.Body)
		}
		if again := patch(read, `{"i4":2}`); again.Status != 412 {
			t.Errorf("the old tag: %d %s", again.Status, again.Body)
		}
		if now := etag(http.Header{}); now != first.Header.Get("ETag") {
			t.Errorf("the write answered %s, a read %s", first.Header.Get("ETag"), now)
		}
		if next := patch(first.Header.Get("ETag"), `{"i4":3}`); next.Status != 204 {
			t.Errorf("the new tag: %d %s", next.Status, next.Body)
		}
	})
}

func TestPut(t *testing.T) {
	t.Parallel()
	g := startKinds(t, "")
	l := g.Acquire(t, "kind:K", 60000)
	put := func(path, body string, more ...string) testenv.Request {
		return testenv.Request{Method: http.MethodPut, Path: path, Header: with(l, more...), Body: body}
	}
	w := watch(t, g)
	for name, c := range map[string]struct {
		request testenv.Request
		want    want
	}{
		"NoFilter":             {put("/rest/kinds", `{"id":"K"}`), want{status: 405, slug: "primary_key_required", code: "PGRST105"}},
		"AnotherColumn":        {put("/rest/kinds?note=eq.x", `{"id":"K"}`), want{status: 405, slug: "primary_key_required"}},
		"OneFilterMore":        {put("/rest/kinds?id=eq.K&note=eq.x", `{"id":"K"}`), want{status: 405, slug: "primary_key_required"}},
		"AnotherOperator":      {put("/rest/kinds?id=like.K", `{"id":"K"}`), want{status: 405, slug: "primary_key_required"}},
		"NoPrimaryKey":         {put("/rest/lines?id=eq.K", `{"id":"K"}`), want{status: 405, slug: "primary_key_required"}},
		"TheKeyIsNotInTheBody": {put("/rest/kinds?id=eq.K", `{"i4":1}`), want{status: 400, slug: "primary_key_mismatch", code: "PGRST115", column: "id"}},
		"TheBodyIsAnotherRow":  {put("/rest/kinds?id=eq.K", `{"id":"L"}`), want{status: 400, slug: "primary_key_mismatch", pointer: "/id"}},
		"SeveralRows":          {put("/rest/kinds?id=eq.K", `[{"id":"K"},{"id":"K"}]`), want{status: 400, slug: "malformed_json"}},
		"NoRow":                {put("/rest/kinds?id=eq.K", `[]`), want{status: 400, slug: "empty_batch"}},
		"OutsideTheLock":       {put("/rest/kinds?id=eq.L", `{"id":"L"}`), want{status: 403, slug: "lock_scope"}},
		"NoLimit":              {put("/rest/kinds?id=eq.K&limit=1", `{"id":"K"}`), want{status: 400, slug: "malformed_query"}},
	} {
		t.Run(name, func(t *testing.T) { w.refused(t, g, c.request, c.want) })
	}

	t.Run("MergesTheRowThatIsThere", func(t *testing.T) {
		answer := g.Do(t, put("/rest/kinds?id=eq.K&select=id,i4,note", `{"id":"K","i4":5}`, "Prefer", "return=representation"))
		if answer.Status != 200 || answer.Body != `[{"id":"K","i4":5,"note":"default"}]` {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})

	t.Run("MakesTheRow", func(t *testing.T) {
		l := g.Acquire(t, "kind:N", 60000)
		answer := g.Do(t, testenv.Request{Method: http.MethodPut, Path: "/rest/kinds?id=eq.N", Header: l.Header(), Body: `[{"id":"N","i4":6}]`})
		if n := scalar[int](t, w.pool, `SELECT i4 FROM shop.kinds WHERE id = 'N'`); answer.Status != 204 || n != 6 {
			t.Errorf("%d %s, i4 is %d", answer.Status, answer.Body, n)
		}
	})
}

func TestLocation(t *testing.T) {
	t.Parallel()
	g := startOn(t, kindsSQL+`CREATE TABLE shop.pairs (a text, b integer, PRIMARY KEY (a, b));`, devstack.ShopTables+kindsTables+"  - name: shop.pairs\n    lock: \"kind:{a}\"\n", "")
	insert := func(key, path, body string) testenv.Response {
		return g.Do(t, testenv.Request{Method: http.MethodPost, Path: path, Header: with(g.Acquire(t, "kind:"+key, 60000), "Prefer", "return=headers-only"), Body: body})
	}
	for path, c := range map[string]struct{ key, body, want string }{
		"/rest/pairs": {"a b&é", `{"a":"a b&é","b":7}`, "/rest/pairs?a=eq.a+b%26%C3%A9&b=eq.7"},
		"/rest/kinds": {"two", `[{"id":"two"}]`, "/rest/kinds?id=eq.two"},
		"/rest/lines": {"K", `{"line":1}`, ""},
	} {
		answer := insert(c.key, path, c.body)
		if got := answer.Header.Get("Location"); answer.Status != 201 || got != c.want || answer.Body != "" {
			t.Errorf("%s: %d, Location %q, %s", path, answer.Status, got, answer.Body)
		}
		if c.want == "" {
			continue
		}
		if found := g.Do(t, testenv.Request{Path: c.want, Header: http.Header{"Accept": {object}}}); found.Status != 200 {
			t.Errorf("%s leads to %d %s", c.want, found.Status, found.Body)
		}
	}
	if answer := insert("many", "/rest/kinds", `[{"id":"many"},{"id":"many"}]`); answer.Header.Get("Location") != "" {
		t.Errorf("two rows are at %q", answer.Header.Get("Location"))
	}
}

func TestTrial(t *testing.T) {
	t.Parallel()
	g := startKinds(t, "")
	exec(t, g, `CREATE TABLE shop.parts (id text, whole text REFERENCES shop.kinds DEFERRABLE INITIALLY DEFERRED)`)
	l := g.Acquire(t, "kind:K", 60000)
	w := watch(t, g)
	for _, prefer := range []string{"tx=rollback", "TX=rollback", "tx = rollback", `tx="rollback"`, "return=representation, tx=rollback", "respond-async,tx=rollback"} {
		t.Run(prefer, func(t *testing.T) {
			for _, q := range []testenv.Request{
				{Method: http.MethodPatch, Path: "/rest/kinds?id=eq.K", Body: `{"i4":1}`},
				{Method: http.MethodPost, Path: "/rest/lines", Body: `[{"line":1},{"line":2,"note":"x"}]`},
				{Method: http.MethodPut, Path: "/rest/kinds?id=eq.K", Body: `{"id":"K","i4":1}`},
				{Method: http.MethodDelete, Path: "/rest/kinds?id=eq.K"},
			} {
				q.Header = with(l, "Prefer", prefer, "Idempotency-Key", "trial")
				answer := g.Do(t, q)
				if answer.Status >= 300 || !strings.Contains(answer.Header.Get("Preference-Applied"), "tx=rollback") {
					t.Errorf("%s: %d %s", q.Method, answer.Status, answer.Body)
				}
				w.unchanged(t)
			}
		})
	}

	t.Run("AStaleTokenIsRefused", func(t *testing.T) {
		old := g.Acquire(t, "kind:old", 60000)
		g.Release(t, old)
		w.refused(t, g, testenv.Request{Method: http.MethodPost, Path: "/rest/kinds", Header: with(old, "Prefer", "tx=rollback"), Body: `{"id":"old"}`},
			want{status: 412, slug: "lease_released"})
	})

	t.Run("UsesUpNoKey", func(t *testing.T) {
		if n := scalar[int](t, w.pool, `SELECT count(*) FROM fencegate.answers`); n != 0 {
			t.Errorf("%d answers are kept", n)
		}
	})

	t.Run("ATimeZoneIsTheRequestsOwn", func(t *testing.T) {
		exec(t, g, `UPDATE shop.kinds SET ts = '2026-07-01 12:00+00' WHERE id = 'K'`)
		read := func(prefer string) string {
			return g.Do(t, testenv.Request{Path: "/rest/kinds?id=eq.K&select=ts", Header: http.Header{"Prefer": {prefer}}}).Body
		}
		for range 20 { // through every connection
			plain, tokyo := read("count=exact"), read("timezone=Asia/Tokyo")
			if !strings.Contains(tokyo, "21:00:00+09") || strings.Contains(plain, "+09") {
				t.Fatalf("%s and %s", plain, tokyo)
			}
		}
		mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/kinds", Header: http.Header{"Prefer": {"timezone=Mars/Olympus"}}}), want{status: 422, slug: "invalid_value", code: "22023"})
		answer := g.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/kinds?id=eq.K&select=ts", Body: `{"ts":"2026-07-01 12:00"}`,
			Header: with(l, "Prefer", "timezone=Asia/Tokyo, return=representation")})
		if !strings.Contains(answer.Body, "12:00:00+09") {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})
}
