package proxy_test

import (
	"net/http"
	"testing"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
)

const rowTypesSQL = `
CREATE TYPE shop.pair AS (a integer, b text);
CREATE TYPE shop.box AS (pair shop.pair, more shop.pair[]);
CREATE DOMAIN shop.good_pair AS shop.pair CHECK ((VALUE).a > 0);
CREATE TABLE shop.boxes (id text PRIMARY KEY, pair shop.pair, good shop.good_pair, pairs shop.pair[], box shop.box, v oidvector);
INSERT INTO shop.boxes (id) VALUES ('K');
CREATE FUNCTION shop.keep(p_id text, p_pair shop.pair) RETURNS integer LANGUAGE sql AS $$
    UPDATE shop.boxes SET pair = p_pair WHERE id = p_id RETURNING (pair).a $$;
`

const rowTypesConfig = `  - name: shop.boxes
    lock: "box:{id}"
statements:
  - name: keep_all
    sql: UPDATE shop.boxes SET pairs = :pairs WHERE id = :id RETURNING pairs
    params: {id: text, pairs: "shop.pair[]"}
    lock: "box:{id}"
functions:
  - {name: shop.keep, lock: "box:{p_id}"}
`

func TestMembersOfRowTypes(t *testing.T) {
	t.Parallel()
	g := startOn(t, rowTypesSQL, devstack.ShopTables+rowTypesConfig, "")
	l := g.Acquire(t, "box:K", 300_000)
	to := func(method, path, body string, more ...string) testenv.Request {
		return testenv.Request{Method: method, Path: "/rest/" + path, Header: with(l, more...), Body: body}
	}
	patch := func(body string) testenv.Request { return to(http.MethodPatch, "boxes?id=eq.K", body) }
	part := func(operation string) testenv.Request {
		return run(transaction([]testenv.Lease{l}, `{"op":"update","table":"boxes","where":{"id":"eq.K"},"set":{"v":"1"}},`+operation))
	}
	const merge = "resolution=merge-duplicates"
	w := watch(t, g)

	for name, c := range map[string]struct {
		request         testenv.Request
		column, pointer string
	}{
		"InAnotherCase":      {patch(`{"pair":{"A":1}}`), "pair", "/pair/A"},
		"BesideKnownOnes":    {patch(`{"pair":{"a":1,"b":"x","c":null}}`), "pair", "/pair/c"},
		"OfADomain":          {patch(`{"good":{"a":1,"B":""}}`), "good", "/good/B"},
		"InAnArray":          {patch(`{"pairs":[{"a":1},{"A":1}]}`), "pairs", "/pairs/1/A"},
		"InARowInARow":       {patch(`{"box":{"pair":{"A":1}}}`), "box", "/box/pair/A"},
		"InAnArrayInARow":    {patch(`{"box":{"more":[{"a":1,"A":2}]}}`), "box", "/box/more/0/A"},
		"OfAnInsert":         {to(http.MethodPost, "boxes", `{"id":"K","pair":{"A":1}}`), "pair", "/pair/A"},
		"OfAnInsertOfMany":   {to(http.MethodPost, "boxes", `[{"id":"K"},{"id":"K","pair":{"A":1}}]`), "pair", "/1/pair/A"},
		"OfAnUpsert":         {to(http.MethodPost, "boxes?columns=id,pair", `[{"id":"K","pair":{"A":1}}]`, "Prefer", merge), "pair", "/0/pair/A"},
		"OfAPut":             {to(http.MethodPut, "boxes?id=eq.K", `{"id":"K","pair":{"A":1}}`), "pair", "/pair/A"},
		"OfATrial":           {to(http.MethodPatch, "boxes?id=eq.K", `{"pair":{"A":1}}`, "Prefer", "tx=rollback"), "pair", "/pair/A"},
		"OfAParameter":       {to(http.MethodPost, "rpc/keep", `{"p_id":"K","p_pair":{"a":1,"A":1}}`), "p_pair", "/p_pair/A"},
		"OfAStatement":       {to(http.MethodPost, "rpc/keep_all", `{"id":"K","pairs":[{"A":1}]}`), "pairs", "/pairs/0/A"},
		"OfASetOfAPart":      {part(`{"op":"update","table":"boxes","where":{"id":"eq.K"},"set":{"pair":{"A":1}}}`), "pair", "/operations/1/set/pair/A"},
		"OfAnIncrement":      {part(`{"op":"update","table":"boxes","where":{"id":"eq.K"},"increment":{"pair":{"A":1}}}`), "pair", "/operations/1/increment/pair/A"},
		"OfARowOfAPart":      {part(`{"op":"insert","table":"boxes","rows":[{"id":"K"},{"id":"K","pair":{"A":1}}]}`), "pair", "/operations/1/rows/1/pair/A"},
		"OfAnUpsertOfAPart":  {part(`{"op":"upsert","table":"boxes","rows":[{"id":"K","pairs":[{"A":1}]}]}`), "pairs", "/operations/1/rows/0/pairs/0/A"},
		"OfAParameterOfPart": {part(`{"op":"call","name":"keep","params":{"p_id":"K","p_pair":{"A":1}}}`), "p_pair", "/operations/1/params/p_pair/A"},
	} {
		t.Run("AnUnknownOneIsRefused/"+name, func(t *testing.T) {
			w.refused(t, g, c.request, want{status: 422, slug: "unknown_column", code: "PGRST204", column: c.column, pointer: c.pointer})
		})
	}

	t.Run("OneGivenTwiceIsRefused", func(t *testing.T) {
		q := patch(`{"pair":{"a":1,"a":2}}`)
		q.Broken = true
		w.refused(t, g, q, want{status: 400, slug: "malformed_json", pointer: "/pair/a"})
	})

	t.Run("AJSONArrayForAVectorIsRefused", func(t *testing.T) {
		for _, body := range []string{`{"v":[]}`, `{"v":[1,2]}`} {
			w.refused(t, g, patch(body), want{status: 422, slug: "invalid_value", column: "v", pointer: "/v"})
		}
	})

	t.Run("WhatIsKnownIsWritten", func(t *testing.T) {
		for body, want := range map[string]string{
			`{"pair":{"b":"x"},"good":{"a":1},"pairs":[{"a":1},null,"(2,y)"],"box":{"pair":"(3,)","more":[{}]},"v":"1 2"}`: `(K,"(,x)","(1,)","{""(1,)"",NULL,""(2,y)""}","(""(3,)"",""{""""(,)""""}"")","1 2")`,
			`{"pair":"(1,x)","good":null,"pairs":"{}","box":null,"v":null}`:                                                `(K,"(1,x)",,{},,)`,
		} {
			answer := g.Do(t, patch(body))
			if got := scalar[string](t, w.pool, `SELECT b::text FROM shop.boxes AS b`); answer.Status != http.StatusNoContent || got != want {
				t.Errorf("%d %s; it is %s, not %s", answer.Status, answer.Body, got, want)
			}
		}
	})

	t.Run("AnAttributeThatWasAddedIsFollowed", func(t *testing.T) {
		exec(t, g, `ALTER TYPE shop.pair ADD ATTRIBUTE added integer`)
		for _, c := range []struct {
			request testenv.Request
			status  int
		}{
			{patch(`{"pairs":[{"a":1,"added":7}]}`), 204}, {to(http.MethodPost, "rpc/keep", `{"p_id":"K","p_pair":{"a":5,"added":8}}`), 200},
		} {
			for g.Do(t, c.request).Status != c.status {
				// The catalog is read at most once a second.
			}
		}
		if got := scalar[string](t, w.pool, `SELECT row(pair, pairs)::text FROM shop.boxes`); got != `("(5,,8)","{""(1,,7)""}")` {
			t.Errorf("it is %s", got)
		}
		mustRefuse(t, g.Do(t, patch(`{"pair":{"Added":1}}`)), want{status: 422, slug: "unknown_column", pointer: "/pair/Added"})
	})
}
