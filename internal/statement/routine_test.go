package statement_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/statement"
	"github.com/fencegate/fencegate/internal/testenv"
)

// routine is a registered statement or, with a schema, a function. text stands
// in pieces between the names of parameters: piece, name, piece, …
type routine struct {
	schema, name, lock string
	params             [][2]string // names and types
	text               []string
}

func loadRoutine(t *testing.T, db catalog.Querier, r routine) *catalog.Routine {
	t.Helper()
	lock, err := lease.ParseTemplate(r.lock)
	if err != nil {
		t.Fatal(err)
	}
	spec := catalog.RoutineSpec{Schema: r.schema, Name: r.name, Lock: lock, Expect: -1}
	for _, p := range r.params {
		spec.Declared = append(spec.Declared, catalog.ParamSpec{Name: p[0], Type: p[1]})
	}
	for i, piece := range r.text {
		if i%2 == 0 {
			spec.Text = append(spec.Text, piece)
		} else {
			spec.Uses = append(spec.Uses, piece)
		}
	}
	snapshot, err := catalog.Load(t.Context(), db, catalog.Specs{Schemas: []string{"public"}, Routines: []catalog.RoutineSpec{spec}})
	if err != nil {
		t.Fatal(err)
	}
	found, err := snapshot.Routine(r.schema, r.name)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// rowOf reads a JSON object as the gateway does.
func rowOf(t *testing.T, text string) statement.Row {
	t.Helper()
	row := statement.Row{JSON: []byte(text)}
	d := jsontext.NewDecoder(strings.NewReader(text))
	if _, err := d.ReadToken(); err != nil {
		t.Fatal(err)
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			t.Fatal(err)
		}
		row.Names = append(row.Names, name.String())
		if err := d.SkipValue(); err != nil {
			t.Fatal(err)
		}
	}
	return row
}

// called is what a call answered, with "NULL" for NULL.
type called struct {
	count     int64
	rows, key string
}

func call(t *testing.T, pool *pgxpool.Pool, r *catalog.Routine, params string, rows bool) (called, error) {
	t.Helper()
	s, err := statement.CallText(r, rowOf(t, params), rows)
	if err != nil {
		t.Fatal(err)
	}
	var got called
	var text, key *string
	err = pool.QueryRow(t.Context(), s.SQL, s.Args...).Scan(&got.count, &text, &key)
	got.rows, got.key = "NULL", "NULL"
	if text != nil {
		got.rows = *text
	}
	if key != nil {
		got.key = *key
	}
	return got, err
}

// callTail is what follows a routine's own rows: they are counted and answered,
// and its lock key is compared. row is one row as it is answered; before counts the parameters up to there.
func callTail(key, row string, before int) string {
	return fmt.Sprintf(`SELECT a.affected, a.json,
       CASE WHEN fencegate.check_rows(%s = $%d::pg_catalog.text, a.uncovered, a.affected, NULL, NULL)
            THEN NULL::pg_catalog.int8 END,
       a.etag
  FROM (SELECT count(*) AS affected,
               fencegate.check_size(string_agg(%s::pg_catalog.text, ','), $%d) AS json,
               0::pg_catalog.int8 AS uncovered,
               NULL::pg_catalog.text AS etag
          FROM w) AS a`, key, before+1, row, before+2)
}

func TestTextOfCalls(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t).Pool(t)
	exec(t, pool, `
CREATE SCHEMA sales;
CREATE TABLE stock (sku text, n integer, day date);
CREATE FUNCTION sales.take("p Sku" text, n integer DEFAULT 1, data bytea DEFAULT '') RETURNS integer LANGUAGE sql AS 'SELECT 1'`)
	take := loadRoutine(t, pool, routine{schema: "sales", name: "take", lock: "it's:{p Sku}"})
	for name, c := range map[string]struct {
		routine *catalog.Routine
		params  string
		want    statement.Statement
	}{
		"Statement": {
			loadRoutine(t, pool, routine{name: "cut", lock: "{sku}:{day}", params: [][2]string{{"qty", "int"}, {"sku", "varchar"}, {"day", "date"}},
				text: []string{"UPDATE stock SET n = n - ", "qty", "\n WHERE sku = ", "sku", " AND day = ", "day", "\nRETURNING n -- ", "qty", ""}}),
			`{"sku":"A","day":"2026-01-02","qty":1}`,
			statement.Statement{SQL: `WITH fencegate_params AS (
  SELECT b."qty" AS "qty", b."sku" AS "sku", b."day" AS "day"
    FROM json_to_record($1::pg_catalog.json) AS b("qty" integer, "sku" character varying, "day" date)),
w AS MATERIALIZED (
UPDATE stock SET n = n - ((SELECT "qty" FROM fencegate_params)::integer)
 WHERE sku = ((SELECT "sku" FROM fencegate_params)::character varying) AND day = ((SELECT "day" FROM fencegate_params)::date)
RETURNING n -- ((SELECT "qty" FROM fencegate_params)::integer)
)
` + callTail(`('' || CAST((SELECT "sku" FROM fencegate_params) AS character varying)::pg_catalog.text || ':' || (pg_catalog.to_jsonb(CAST((SELECT "day" FROM fencegate_params) AS date)) #>> '{}') || '') COLLATE pg_catalog."C"`, "row_to_json(w.*)", 1),
				Args: []any{`{"sku":"A","day":"2026-01-02","qty":1}`, "k", int64(9)}},
		},
		"StatementWithoutParameters": {
			loadRoutine(t, pool, routine{name: "all", lock: "stock", text: []string{"SELECT 1 AS one"}}), `{}`,
			statement.Statement{SQL: `WITH w AS MATERIALIZED (
SELECT 1 AS one
)
` + callTail(`('stock') COLLATE pg_catalog."C"`, "row_to_json(w.*)", 0), Args: []any{"k", int64(9)}},
		},
		"Function": {
			take, `{"data":"","p Sku":"A"}`,
			statement.Statement{SQL: `WITH fencegate_params AS (
  SELECT b."p Sku" AS "p Sku", CASE WHEN starts_with(b."data", 'base64:') THEN decode(substr(b."data", 8), 'base64') ELSE b."data"::pg_catalog.bytea END AS "data"
    FROM json_to_record($1::pg_catalog.json) AS b("p Sku" text, "data" pg_catalog.text)),
w AS MATERIALIZED (
  SELECT * FROM "sales"."take"("p Sku" => ((SELECT "p Sku" FROM fencegate_params)::text), "data" => ((SELECT "data" FROM fencegate_params)::bytea))
)
` + callTail(`('it''s:' || CAST((SELECT "p Sku" FROM fencegate_params) AS text)::pg_catalog.text || '') COLLATE pg_catalog."C"`, `coalesce(pg_catalog.to_json(w."take")::pg_catalog.text, 'null')`, 1),
				Args: []any{`{"data":"","p Sku":"A"}`, "k", int64(9)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := statement.Build(statement.Mutation{
				Op: catalog.Call, Routine: c.routine, Rows: []statement.Row{rowOf(t, c.params)},
				Return: statement.Columns{All: true}, MaxAffected: -1, MaxBytes: 9,
			}, under("k"))
			if err != nil {
				t.Fatal(err)
			}
			same(t, got[1:], []statement.Statement{c.want})
			if check := got[0].SQL; !strings.Contains(check, "fencegate.check_rows(") || strings.Contains(check, "w AS") {
				t.Errorf("the key is not compared before:\n%s", check)
			}
			prepare(t, pool, got...)
		})
	}
}

func TestAParameterStandsWhereverAValueCan(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t).Pool(t)
	exec(t, pool, `
CREATE TYPE pair AS (a integer, b text);
CREATE TABLE item (id integer PRIMARY KEY, note text, at date);
INSERT INTO item VALUES (1, 'one'), (2, 'two'), (3, 'three')`)
	for name, c := range map[string]struct {
		typ    string
		text   []string
		value  string
		answer string
	}{
		"ATextWithQuotes":     {"text", []string{"SELECT ", "p", " AS x"}, `"it's \"\\ $1 :a"`, `{"x":"it's \"\\ $1 :a"}`},
		"NULL":                {"integer", []string{"SELECT ", "p", " AS x"}, `null`, `{"x":null}`},
		"ANumberInAString":    {"integer", []string{"SELECT ", "p", " + 1 AS x"}, `"41"`, `{"x":42}`},
		"ACastOfIt":           {"integer", []string{"SELECT ", "p", "::text || 'x' AS x"}, `1`, `{"x":"1x"}`},
		"Any":                 {"integer[]", []string{"SELECT id FROM item WHERE id = ANY(", "p", ") ORDER BY id"}, `[3,1]`, `{"id":1},{"id":3}`},
		"In":                  {"integer", []string{"SELECT id FROM item WHERE id IN (", "p", ", 3)"}, `1`, `{"id":1},{"id":3}`},
		"AnElement":           {"integer[]", []string{"SELECT ", "p", "[2] AS x"}, `[3,1]`, `{"x":1}`},
		"AField":              {"pair", []string{"SELECT (", "p", ").b AS x"}, `{"a":1,"b":"y"}`, `{"x":"y"}`},
		"Limit":               {"bigint", []string{"SELECT id FROM item ORDER BY id LIMIT ", "p"}, `1`, `{"id":1}`},
		"Values":              {"integer", []string{"INSERT INTO item VALUES (", "p", ", ''), (", "p", " + 1, '') RETURNING id"}, `10`, `{"id":10},{"id":11}`},
		"OnConflict":          {"text", []string{"INSERT INTO item VALUES (2, '') ON CONFLICT (id) DO UPDATE SET note = ", "p", " RETURNING note"}, `"x"`, `{"note":"x"}`},
		"AWithOfItsOwn":       {"integer", []string{"WITH RECURSIVE r(n) AS (SELECT ", "p", " UNION ALL SELECT n + ", "p", " FROM r WHERE n < 4) SELECT max(n) FROM r"}, `2`, `{"max":4}`},
		"ABooleanByItself":    {"boolean", []string{"SELECT id FROM item WHERE ", "p", " AND id = 1"}, `true`, `{"id":1}`},
		"ACommentAtTheEnd":    {"integer", []string{"SELECT ", "p", " AS x -- :p ) '"}, `1`, `{"x":1}`},
		"Base64":              {"bytea", []string{"SELECT ", "p", " AS x"}, `"base64:AP8="`, `{"x":"\\x00ff"}`},
		"Hexadecimal":         {"bytea", []string{"SELECT ", "p", " AS x"}, `"\\x00ff"`, `{"x":"\\x00ff"}`},
		"ALongChar":           {"char", []string{"SELECT ", "p", " AS x"}, `"long"`, `{"x":"long"}`},
		"ManyBits":            {"bit", []string{"SELECT ", "p", " AS x"}, `"1011"`, `{"x":"1011"}`},
		"ABigNumber":          {"numeric", []string{"SELECT ", "p", " AS x"}, `12345678901234567890.12345678901234567890`, `{"x":12345678901234567890.12345678901234567890}`},
		"JSON":                {"json", []string{"SELECT ", "p", " AS x"}, `{"b":1,"a":[null]}`, `{"x":{"b":1,"a":[null]}}`},
		"ATableOfItsOwnNames": {"integer", []string{"SELECT p.id FROM item AS p JOIN item AS w ON w.id = p.id WHERE p.id = ", "p"}, `1`, `{"id":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := loadRoutine(t, pool, routine{name: "s", lock: "x", params: [][2]string{{"p", c.typ}}, text: c.text})
			got, err := call(t, pool, r, `{"p":`+c.value+`}`, true)
			if err != nil || got.rows != c.answer {
				t.Errorf("%+v, %v; want %s", got, err, c.answer)
			}
		})
	}
}

func TestARowIsWorkedOutThoughNothingOfItIsReturned(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t).Pool(t)
	exec(t, pool, `CREATE FUNCTION whole(n integer) RETURNS integer LANGUAGE sql STABLE AS 'SELECT 1 / n'`)
	registered := loadRoutine(t, pool, routine{name: "s", lock: "x", params: [][2]string{{"n", "integer"}}, text: []string{"SELECT 1 / ", "n", " AS x"}})
	function := loadRoutine(t, pool, routine{schema: "public", name: "whole", lock: "x"})
	for _, r := range []*catalog.Routine{registered, function} {
		if got, err := call(t, pool, r, `{"n":1}`, false); err != nil || got.count != 1 {
			t.Errorf("%s: %+v, %v", r.QualifiedName(), got, err)
		}
		if got, err := call(t, pool, r, `{"n":0}`, false); err == nil {
			t.Errorf("%s divides by 0: %+v", r.QualifiedName(), got)
		}
	}
}

func TestTheLockKeyOfACallIsMadeOfItsTypedParameters(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t).Pool(t)
	exec(t, pool, `CREATE DOMAIN short AS varchar(3); CREATE TYPE state AS ENUM ('new')`)
	for _, c := range []struct{ typ, value, key string }{
		{"integer", `"01"`, "k:1:"}, {"integer", "1", "k:1:"}, {"text", `"01"`, "k:01:"}, {"date", `"Jan 2, 2026"`, "k:2026-01-02:"}, {"boolean", `"yes"`, "k:true:"},
		{"uuid", `"6F1C2A9E-0D53-4B0E-9A39-0D6F5A1C7E11"`, "k:6f1c2a9e-0d53-4b0e-9a39-0d6f5a1c7e11:"}, {"state", `"new"`, "k:new:"}, {"short", `"A"`, "k:A:"}, {"text", "null", "NULL"},
	} {
		r := loadRoutine(t, pool, routine{name: "s", lock: "k:{p}:", params: [][2]string{{"p", c.typ}}, text: []string{"SELECT ", "p", " AS x"}})
		if got, err := call(t, pool, r, `{"p":`+c.value+`}`, false); err != nil || got.key != c.key {
			t.Errorf("%s %s: %+v, %v; want the key %s", c.typ, c.value, got, err, c.key)
		}
	}
	r := loadRoutine(t, pool, routine{name: "s", lock: "k:{p}", params: [][2]string{{"p", "short"}}, text: []string{"SELECT ", "p", " AS x"}})
	if got, err := call(t, pool, r, `{"p":"long"}`, false); err == nil {
		t.Errorf("a value too long for its domain: %+v", got)
	}
}

func TestFunctionsAreCalledByName(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t).Pool(t)
	exec(t, pool, `
CREATE TABLE said (what text);
CREATE FUNCTION say(what text, n integer DEFAULT 7) RETURNS text LANGUAGE sql AS 'INSERT INTO said VALUES ($1); SELECT $1 || coalesce($2::text, ''none'')';
CREATE FUNCTION "two Things"(n integer) RETURNS TABLE (a integer, "B" text) LANGUAGE sql AS 'SELECT $1, ''x'' UNION ALL SELECT $1 + 1, NULL';
CREATE FUNCTION nothing() RETURNS void LANGUAGE sql AS 'INSERT INTO said VALUES (''nothing'')';
CREATE FUNCTION nobody() RETURNS SETOF integer LANGUAGE sql AS 'SELECT 1 WHERE false';
CREATE FUNCTION bytes(b bytea, OUT n integer) LANGUAGE sql AS 'SELECT length($1)'`)
	for _, c := range []struct{ name, params, rows string }{
		{"say", `{"what":"a"}`, `{"say":"a7"}`},
		{"say", `{"n":1,"what":"b"}`, `{"say":"b1"}`},
		{"say", `{"n":null,"what":"c"}`, `{"say":"cnone"}`},
		{"two Things", `{"n":1}`, `{"a":1,"B":"x"},{"a":2,"B":null}`},
		{"nothing", `{}`, `{"nothing":null}`},
		{"nobody", `{}`, `NULL`},
		{"bytes", `{"b":"base64:AP8="}`, `{"n":2}`},
	} {
		r := loadRoutine(t, pool, routine{schema: "public", name: c.name, lock: "x"})
		if got, err := call(t, pool, r, c.params, true); err != nil || got.rows != c.rows {
			t.Errorf("%s(%s): %+v, %v; want %s", c.name, c.params, got, err, c.rows)
		}
	}
	var said string
	if err := pool.QueryRow(t.Context(), `SELECT string_agg(what, ',' ORDER BY what) FROM said`).Scan(&said); err != nil || said != "a,b,c,nothing" {
		t.Errorf("said was %s, %v", said, err)
	}
}

func TestACallThatDoesNotFitItsRoutine(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t).Pool(t)
	exec(t, pool, `CREATE FUNCTION f(a integer, b integer DEFAULT 1, c integer DEFAULT 1) RETURNS integer LANGUAGE sql AS 'SELECT 1'`)
	function := loadRoutine(t, pool, routine{schema: "public", name: "f", lock: "{c}"})
	registered := loadRoutine(t, pool, routine{name: "s", lock: "x", params: [][2]string{{"a", "int"}, {"b", "int"}}, text: []string{"SELECT ", "a", " + ", "b", ""}})
	for _, c := range []struct {
		routine *catalog.Routine
		params  string
		want    statement.Fault
	}{
		{function, `{"a":1,"c":1,"A":1}`, statement.Fault{Code: statement.UnknownParam, Column: "A"}},
		{function, `{"c":1}`, statement.Fault{Code: statement.MissingParam, Column: "a"}},
		{function, `{"a":1,"b":1}`, statement.Fault{Code: statement.MissingParam, Column: "c"}}, // of the lock
		{registered, `{"a":1}`, statement.Fault{Code: statement.MissingParam, Column: "b"}},
		{registered, `{}`, statement.Fault{Code: statement.MissingParam, Column: "a"}},
		{registered, `{"a":1,"b":null,"n":1}`, statement.Fault{Code: statement.UnknownParam, Column: "n"}},
	} {
		_, err := statement.CallText(c.routine, rowOf(t, c.params), true)
		var fault *statement.Fault
		if !errors.As(err, &fault) || fault.Code != c.want.Code || fault.Column != c.want.Column || fault.Detail == "" {
			t.Errorf("%s: %+v, want %+v", c.params, err, c.want)
		}
	}
}

func TestATrialSaysWhichLineOfARoutineIsMeant(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t).Pool(t)
	none := loadRoutine(t, pool, routine{name: "s", lock: "x", text: []string{"größe\n\nHERE\n"}})
	one := loadRoutine(t, pool, routine{name: "s", lock: "x", params: [][2]string{{"größe", "int"}}, text: []string{"\n", "größe", "\nHERE\n"}})
	for _, r := range []*catalog.Routine{none, one} {
		for _, trial := range statement.Trials(r) {
			before, _, _ := strings.Cut(trial.SQL, "HERE")
			at := len([]rune(before)) + 1
			if trial.Line(at) != 3 || trial.Line(at+5) != 4 {
				t.Errorf("lines %d and %d of\n%s", trial.Line(at), trial.Line(at+5), trial.SQL)
			}
			if !trial.Bare && (trial.Line(1) != 0 || trial.Line(len([]rune(trial.SQL))) != 0) {
				t.Errorf("what is around it counts too:\n%s", trial.SQL)
			}
			if trial.Line(0) != 0 {
				t.Error("no position has a line")
			}
		}
	}
}
