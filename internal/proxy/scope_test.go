package proxy_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

const scopeSQL = `
CREATE SCHEMA shop;
CREATE TYPE shop.colour AS ENUM ('Red', 'blue, "dark"');
CREATE DOMAIN shop.code AS varchar(8) CHECK (VALUE <> 'never');
CREATE DOMAIN shop.number AS integer CHECK (VALUE > 0);
CREATE COLLATION shop.folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false);

CREATE TABLE shop.ints     (id integer,     n integer);
CREATE TABLE shop.smalls   (id smallint,    n integer);
CREATE TABLE shop.chars    (id char(5),     n integer);
CREATE TABLE shop.uuids    (id uuid,        n integer);
CREATE TABLE shop.dates    (id date,        n integer);
CREATE TABLE shop.bools    (id boolean,     n integer);
CREATE TABLE shop.enums    (id shop.colour, n integer);
CREATE TABLE shop.codes    (id shop.code,   n integer);
CREATE TABLE shop.numbers  (id shop.number, n integer);
CREATE TABLE shop.texts    (id text,        n integer);
CREATE TABLE shop.braces   (id text,        n integer);
CREATE TABLE shop.folds    (id text COLLATE shop.folded, n integer);
CREATE TABLE shop.pairs    (a text COLLATE shop.folded, b integer, c varchar(9) COLLATE "POSIX", n integer);
CREATE TABLE shop.wholes   (id text,        n integer);
CREATE TABLE shop.moved    (id text,        n integer);

INSERT INTO shop.ints    VALUES (1, 0), (11, 0), (-1, 0), (NULL, 0);
INSERT INTO shop.smalls  VALUES (-5, 0), (5, 0);
INSERT INTO shop.chars   VALUES ('ab', 0), ('abc', 0), ('', 0);
INSERT INTO shop.uuids   VALUES ('6f1c2a9e-0d53-4b0e-9a39-0d6f5a1c7e11', 0), ('00000000-0000-0000-0000-000000000000', 0);
INSERT INTO shop.dates   VALUES ('2026-02-03', 0), ('2026-03-02', 0), ('infinity', 0);
INSERT INTO shop.bools   VALUES (true, 0), (false, 0);
INSERT INTO shop.enums   VALUES ('Red', 0), ('blue, "dark"', 0);
INSERT INTO shop.codes   VALUES ('A', 0), ('a', 0);
INSERT INTO shop.numbers VALUES (7, 0), (70, 0);
INSERT INTO shop.texts   VALUES ($$it's "q" \ $1 %s {x}$$, 0), ('', 0), ('x', 0), ('a:b', 0);
INSERT INTO shop.braces  VALUES ('x', 0), ('y', 0);
INSERT INTO shop.folds   VALUES ('SKU-1', 0), ('sku-1', 0);
INSERT INTO shop.pairs   VALUES ('x', 5, 'c', 0), ('x', 6, 'c', 0), ('X', 5, 'c', 0), ('x', NULL, 'c', 0);
INSERT INTO shop.wholes  VALUES ('a', 0), ('b', 0), (NULL, 0);
INSERT INTO shop.moved   VALUES ('K', 0);

CREATE FUNCTION shop.move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.n = 13 THEN NEW.id := 'elsewhere'; END IF;
    IF NEW.n = 14 THEN NEW.id := 'K'; END IF;
    IF NEW.n = 15 THEN NEW.id := NULL; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER moves BEFORE INSERT OR UPDATE ON shop.moved FOR EACH ROW EXECUTE FUNCTION shop.move();
`

const scopeTables = `tables:
  - {name: shop.ints,    lock: "int:{id}"}
  - {name: shop.smalls,  lock: "small:{id}"}
  - {name: shop.chars,   lock: "char:{id}"}
  - {name: shop.uuids,   lock: "uuid:{id}"}
  - {name: shop.dates,   lock: "date:{id}"}
  - {name: shop.bools,   lock: "bool:{id}"}
  - {name: shop.enums,   lock: "enum:{id}"}
  - {name: shop.codes,   lock: "code:{id}"}
  - {name: shop.numbers, lock: "number:{id}"}
  - {name: shop.texts,   lock: "text:{id}"}
  - {name: shop.braces,  lock: "{{it's \\}}{id}{{}}"}
  - {name: shop.folds,   lock: "fold:{id}"}
  - {name: shop.pairs,   lock: "{a}/{b}:{c}"}
  - {name: shop.wholes,  lock: "wholes"}
  - {name: shop.moved,   lock: "moved:{id}"}
`

// startScopes starts a gateway on a database whose dates are German.
func startScopes(t *testing.T) *testenv.Gateway {
	t.Helper()
	db := testenv.Postgres(t)
	db.Exec(t, scopeSQL)
	db.Exec(t, `ALTER DATABASE `+db.Name+` SET datestyle = 'German, DMY'`)
	return testenv.StartGateway(t, testenv.GatewayOptions{Database: db, Tables: scopeTables})
}

func TestScope(t *testing.T) {
	t.Parallel()
	g := startScopes(t)
	pool := g.Database.Pool(t)

	for name, c := range map[string]struct {
		table   string
		key     string   // covers exactly one row
		opens   []string // filters that find it
		refused []string // filters that pin another key
		invalid []string // filters that pin no value of the column's type
	}{
		"Integer": {"ints", "int:1",
			[]string{"id=eq.1", "id=eq.01", "id=eq.%201", "id=eq.1%20", "id=eq.%2B1", "id=eq.1&id=lt.5", "id=in.(1,11)&id=eq.1"},
			[]string{"id=eq.11", "id=eq.-1", "id=eq.2", "id=eq.11&id=eq.1"}, []string{"id=eq.", "id=eq.x", "id=eq.1.0", "id=eq.99999999999"}},
		"NegativeInteger": {"ints", "int:-1", []string{"id=eq.-1"}, []string{"id=eq.1"}, nil},
		"Smallint":        {"smalls", "small:-5", []string{"id=eq.-5", "id=eq.-05"}, []string{"id=eq.5"}, []string{"id=eq.40000"}},
		"Char": {"chars", "char:ab", []string{"id=eq.ab", "id=eq.ab%20%20%20", "id=eq.ab%20%20%20%20%20%20%20"},
			[]string{"id=eq.abc", "id=eq.%20ab", "id=eq.AB", "id=eq."}, nil},
		"EmptyChar": {"chars", "char:", []string{"id=eq.", "id=eq.%20"}, []string{"id=eq.ab"}, nil},
		"UUID": {"uuids", "uuid:6f1c2a9e-0d53-4b0e-9a39-0d6f5a1c7e11",
			[]string{"id=eq.6f1c2a9e-0d53-4b0e-9a39-0d6f5a1c7e11", "id=eq.6F1C2A9E-0D53-4B0E-9A39-0D6F5A1C7E11", "id=eq.{6f1c2a9e0d534b0e9a390d6f5a1c7e11}"},
			[]string{"id=eq.00000000-0000-0000-0000-000000000000"}, []string{"id=eq.6f1c2a9e"}},
		"Date": {"dates", "date:2026-02-03", []string{"id=eq.2026-02-03", "id=eq.03.02.2026", "id=eq.20260203"},
			[]string{"id=eq.2026-03-02", "id=eq.02.03.2026"}, []string{"id=eq.30.02.2026", "id=eq."}},
		"InfiniteDate": {"dates", "date:infinity", []string{"id=eq.infinity"}, []string{"id=eq.-infinity"}, nil},
		"Boolean": {"bools", "bool:true", []string{"id=eq.true", "id=eq.TRUE", "id=eq.t", "id=eq.yes", "id=eq.1", "id=eq.on"},
			[]string{"id=eq.false", "id=eq.0"}, []string{"id=eq.maybe"}},
		"Enum":       {"enums", "enum:Red", []string{"id=eq.Red"}, []string{`id=eq.blue,+%22dark%22`}, []string{"id=eq.red", "id=eq."}},
		"OddEnum":    {"enums", `base64:ZW51bTpibHVlLCAiZGFyayI=`, []string{`id=eq.blue,+%22dark%22`}, []string{"id=eq.Red"}, nil},
		"Domain":     {"codes", "code:A", []string{"id=eq.A"}, []string{"id=eq.a", "id=eq.longer+than+eight"}, nil},
		"DomainInt":  {"numbers", "number:7", []string{"id=eq.7", "id=eq.007"}, []string{"id=eq.70"}, []string{"id=eq.x"}},
		"OddText":    {"texts", `text:it's "q" \ $1 %s {x}`, []string{"id=eq." + url.QueryEscape(`it's "q" \ $1 %s {x}`)}, []string{"id=eq.x"}, nil},
		"EmptyText":  {"texts", "text:", []string{"id=eq."}, []string{"id=eq.x"}, nil},
		"Text":       {"texts", "text:x", []string{"id=eq.x"}, []string{"id=eq.X", "id=eq.x%20", "id=eq.%22x%22"}, nil},
		"ColonText":  {"texts", "text:a:b", []string{"id=eq.a:b"}, []string{"id=eq.a"}, nil},
		"Braces":     {"braces", `{it's \}x{}`, []string{"id=eq.x"}, []string{"id=eq.y"}, nil},
		"TwoColumns": {"pairs", "x/5:c", []string{"a=eq.x&b=eq.5&c=eq.c", "c=eq.c&b=eq.05&a=eq.x"}, []string{"a=eq.x&b=eq.6&c=eq.c", "a=eq.X&b=eq.5&c=eq.c"}, nil},
		// Whatever the column holds for equal, a row has one lock key.
		"FoldedText": {"folds", "fold:SKU-1", []string{"id=eq.SKU-1"}, []string{"id=eq.sku-1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := g.Acquire(t, c.key, 60000)
			w := watch(t, g)
			path := "/rest/" + c.table + "?select=n&"
			for _, filter := range c.refused {
				p := w.refused(t, g, testenv.Request{Method: http.MethodPatch, Path: path + filter, Header: l.Header(), Body: `{"n":1}`}, want{status: 403, slug: "lock_scope"})
				if p.AuditID == "" || p.LockKey == "" || p.PresentedToken != l.Token {
					t.Errorf("%+v", p)
				}
				w.refused(t, g, testenv.Request{Method: http.MethodDelete, Path: path + filter, Header: l.Header()}, want{status: 403, slug: "lock_scope"})
			}
			for _, filter := range c.invalid {
				w.refused(t, g, testenv.Request{Method: http.MethodDelete, Path: path + filter, Header: l.Header()}, want{status: 422, slug: "invalid_value"})
			}
			for _, filter := range c.opens {
				answer := g.Do(t, testenv.Request{Method: http.MethodPatch, Path: path + filter, Header: with(l, "Prefer", "return=representation"), Body: `{"n":5}`})
				if answer.Status != http.StatusOK || answer.Body != `[{"n":5}]` {
					t.Errorf("%s: %d %s", filter, answer.Status, answer.Body)
				}
			}
			if rows := scalar[int](t, pool, `SELECT count(*) FROM shop.`+c.table+` WHERE n = 5`); rows != 1 {
				t.Errorf("%d rows were written", rows)
			}
			if _, err := pool.Exec(t.Context(), `UPDATE shop.`+c.table+` SET n = 0`); err != nil {
				t.Fatal(err)
			}
		})
	}

	t.Run("OneRowHasOneKey", func(t *testing.T) {
		for key, path := range map[string]string{
			"int:01":          "ints?id=eq.1",
			"int: 1":          "ints?id=eq.1",
			"int:+1":          "ints?id=eq.1",
			"INT:1":           "ints?id=eq.1",
			"char:ab x":       "chars?id=eq.ab",
			"date:03.02.2026": "dates?id=eq.2026-02-03",
			"bool:t":          "bools?id=eq.true",
			"uuid:6F1C2A9E-0D53-4B0E-9A39-0D6F5A1C7E11": "uuids?id=eq.6f1c2a9e-0d53-4b0e-9a39-0d6f5a1c7e11",
			"X/5:c":      "pairs?a=eq.x&b=eq.5&c=eq.c",
			"x/05:c":     "pairs?a=eq.x&b=eq.5&c=eq.c",
			"fold:Sku-1": "folds?id=eq.SKU-1",
			"wholes:a":   "wholes?id=eq.a",
			"other":      "ints?id=eq.1",
		} {
			l := g.Acquire(t, key, 60000)
			w := watch(t, g)
			w.refused(t, g, testenv.Request{Method: http.MethodPatch, Path: "/rest/" + path, Header: l.Header(), Body: `{"n":1}`}, want{status: 403, slug: "lock_scope"})
		}
	})

	t.Run("AColumnThatIsNotPinnedIsNamed", func(t *testing.T) {
		l := g.Acquire(t, "x/6:c", 60000)
		w := watch(t, g)
		for filters, column := range map[string]string{
			"":                              "a",
			"n=eq.0":                        "a",
			"all=true":                      "a",
			"a=eq.x&c=eq.c":                 "b",
			"a=eq.x&b=eq.6":                 "c",
			"a=in.(x)&b=eq.6&c=eq.c":        "a",
			"a=eq.x&b=gte.6&b=lte.6&c=eq.c": "b",
			"a=not.eq.x&b=eq.6&c=eq.c":      "a",
			"a=not.neq.x&b=eq.6&c=eq.c":     "a",
			"a=eq.x&b=is.null&c=eq.c":       "b",
			"b=eq.6&c=eq.c&a=gt.":           "a",
		} {
			p := want{status: 403, slug: "lock_scope", parameter: column, column: column}
			w.refused(t, g, testenv.Request{Method: http.MethodPatch, Path: "/rest/pairs?" + filters, Header: l.Header(), Body: `{"n":1}`}, p)
			w.refused(t, g, testenv.Request{Method: http.MethodDelete, Path: "/rest/pairs?" + filters, Header: l.Header()}, p)
		}
	})

	t.Run("InsertedRowsMustBeCovered", func(t *testing.T) {
		l := g.Acquire(t, "int:2", 60000)
		w := watch(t, g)
		for _, body := range []string{`{"id":3}`, `{"id":null}`, `{}`, `{"n":2}`, `[{"id":2},{"id":3}]`, `[{"id":3},{"id":2}]`, `[{"id":2},{"n":1}]`, `[{"id":2},{}]`, `{"id":20}`} {
			w.refused(t, g, testenv.Request{Method: http.MethodPost, Path: "/rest/ints", Header: l.Header(), Body: body}, want{status: 403, slug: "lock_scope"})
		}
		for _, body := range []string{`{"id":2,"n":1}`, `{"id":"02","n":1}`, `[{"id":2,"n":1},{"n":1,"id":2}]`} {
			answer := g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/rest/ints", Header: l.Header(), Body: body})
			if answer.Status != http.StatusCreated {
				t.Errorf("%s: %d %s", body, answer.Status, answer.Body)
			}
		}
		if rows := scalar[int](t, pool, `SELECT count(*) FROM shop.ints WHERE id = 2`); rows != 4 {
			t.Errorf("%d rows", rows)
		}
	})

	t.Run("NoRowLeavesItsScope", func(t *testing.T) {
		l, target := g.Acquire(t, "int:11", 60000), g.Acquire(t, "int:12", 60000)
		w := watch(t, g)
		for _, body := range []string{`{"id":12}`, `{"id":null}`, `{"n":1,"id":-11}`} {
			w.refused(t, g, testenv.Request{Method: http.MethodPatch, Path: "/rest/ints?id=eq.11", Header: l.Header(), Body: body}, want{status: 403, slug: "lock_scope"})
		}
		w.refused(t, g, testenv.Request{Method: http.MethodPatch, Path: "/rest/ints?id=eq.11", Header: target.Header(), Body: `{"id":12}`}, want{status: 403, slug: "lock_scope"})
		answer := g.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/ints?select=id&id=eq.11", Header: with(l, "Prefer", "return=representation"), Body: `{"id":"011"}`})
		if answer.Body != `[{"id":11}]` {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})

	t.Run("TriggersCantMoveARowEither", func(t *testing.T) {
		l := g.Acquire(t, "moved:K", 60000)
		w := watch(t, g)
		for _, n := range []string{"13", "15"} {
			w.refused(t, g, testenv.Request{Method: http.MethodPatch, Path: "/rest/moved?id=eq.K", Header: l.Header(), Body: `{"n":` + n + `}`}, want{status: 403, slug: "lock_scope"})
			w.refused(t, g, testenv.Request{Method: http.MethodPost, Path: "/rest/moved", Header: l.Header(), Body: `{"id":"K","n":` + n + `}`}, want{status: 403, slug: "lock_scope"})
		}
		// The row counts as it stands in the end.
		answer := g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/rest/moved", Header: with(l, "Prefer", "return=representation"), Body: `{"id":"elsewhere","n":14}`})
		if answer.Status != http.StatusCreated || answer.Body != `[{"id":"K","n":14}]` {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})

	t.Run("AWholeTableNeedsItsLockAndAWord", func(t *testing.T) {
		l := g.Acquire(t, "wholes", 60000)
		w := watch(t, g)
		p := want{status: 400, slug: "filter_required", parameter: "all"}
		w.refused(t, g, testenv.Request{Method: http.MethodPatch, Path: "/rest/wholes", Header: l.Header(), Body: `{"n":1}`}, p)
		w.refused(t, g, testenv.Request{Method: http.MethodDelete, Path: "/rest/wholes", Header: l.Header()}, p)
		w.refused(t, g, testenv.Request{Method: http.MethodDelete, Path: "/rest/wholes?select=id", Header: l.Header()}, p)
		do := func(method, path, body string) string {
			answer := g.Do(t, testenv.Request{Method: method, Path: path, Header: with(l, "Prefer", "count=exact"), Body: body})
			return http.StatusText(answer.Status) + " " + answer.Header.Get("Content-Range")
		}
		for _, c := range [][]string{
			{http.MethodPatch, "/rest/wholes?id=is.null", `{"n":1}`, "No Content 0-0/1"},
			{http.MethodPatch, "/rest/wholes?all=true", `{"n":2}`, "No Content 0-2/3"},
			{http.MethodPost, "/rest/wholes", `[{},{"id":"c"}]`, "Created 0-1/2"},
			{http.MethodDelete, "/rest/wholes?id=eq.c&all=true", "", "No Content 0-0/1"},
			{http.MethodDelete, "/rest/wholes?all=true", "", "No Content 0-3/4"},
		} {
			if got := do(c[0], c[1], c[2]); got != c[3] {
				t.Errorf("%s %s: %s", c[0], c[1], got)
			}
		}
	})

	t.Run("ARefusalIsOnRecordBeforeItsAnswer", func(t *testing.T) {
		l := g.Acquire(t, "small:5", 60000)
		answer := g.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/smalls?id=eq.6", Header: with(l, "Request-Id", "scope-1"), Body: `{"n":1}`})
		p := mustRefuse(t, answer, want{status: 403, slug: "lock_scope"})
		var record struct {
			ID, Code, Disposition, Operation, Table, Key, Client, Principal string
			Token                                                           string `json:"presented_token"`
			RequestID                                                       string `json:"request_id"`
			Payload                                                         string `json:"payload_sha256"`
			Address                                                         string `json:"remote_address"`
		}
		g.Do(t, testenv.Request{Path: "/v1/refusals/" + p.AuditID}).JSON(t, &record)
		if record.ID != p.AuditID || record.Code != "lock_scope" || record.Disposition != "refused" || record.Operation != "update" ||
			record.Table != "shop.smalls" || record.Key != "small:5" || record.Token != l.Token || record.RequestID != "scope-1" ||
			record.Client != t.Name() || record.Address != "127.0.0.1" || record.Principal == "" || len(record.Payload) != 64 {
			t.Errorf("%+v", record)
		}
		if answer.Header.Get("Fencing-Refused") != "" {
			t.Error("a token that lives is called dead")
		}
	})
}
