package statement_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/statement"
	"github.com/fencegate/fencegate/internal/testenv"
)

// rowsSQL makes a table with a row type at every depth that PostgreSQL knows.
const rowsSQL = `
CREATE TYPE pair AS (a integer, b text);
CREATE TYPE "my ""type""" AS (p pair, ps pair[], "Odd/~ name" text, j jsonb, v oidvector, vs oidvector[]);
CREATE DOMAIN good_pair AS pair;
CREATE DOMAIN few_pairs AS good_pair[] CHECK (cardinality(VALUE) < 9);
CREATE TABLE other (x pair, y integer);
CREATE DOMAIN vector AS int2vector;
CREATE TABLE wide (
    k     text,
    j     jsonb,
    p     pair,
    ps    pair[],
    good  good_pair,
    few   few_pairs,
    deep  "my ""type""",
    deeps "my ""type"""[],
    other other,
    v     oidvector,
    w     vector,
    vs    oidvector[]
)`

// membersOf are values of the columns of rowsSQL that lose nothing.
var membersOf = map[string][]string{
	"j":     {`{"A":1}`, `[{"A":[{}]}]`},
	"p":     {`{"a":1,"b":"x"}`, `{"a":1}`, `{}`, `null`, `"(1,x)"`, `{"b":{"A":1}}`, `{"b":["A"]}`, `{"\u0061":1}`},
	"ps":    {`[]`, `[{"a":1},null,"(1,x)",{}]`, `[[{"a":1}],[{"b":""}]]`, `null`, `"{}"`},
	"good":  {`{"a":1}`, `"(1,)"`},
	"few":   {`[{"a":1}]`},
	"deep":  {`{"p":{"a":1},"ps":[{"b":""}],"Odd/~ name":"x","j":{"A":1},"v":"1 2","vs":["1 2"]}`, `{"p":null,"ps":null}`, `{"p":"(1,x)","j":[{"A":1}]}`},
	"deeps": {`[{"p":{"a":1}}]`},
	"other": {`{"x":{"a":1},"y":2}`},
	"v":     {`"1 2"`, `""`, `null`},
	"w":     {`"1 2"`, `null`},
	"vs":    {`["1 2"]`, `[["1 2"]]`, `[]`, `"{}"`},
}

// lossy are values of them of which PostgreSQL by itself would lose something,
// with the pointer to that and the type that has no such attribute.
var lossy = []struct{ column, json, pointer, typ string }{
	{"p", `{"A":1}`, "/A", "pair"},
	{"p", `{"a":1,"a ":2}`, "/a ", "pair"},
	{"p", `{"":1}`, "/", "pair"},
	{"p", `{"a":1,"b":{"A":1},"c":null}`, "/c", "pair"},
	{"p", `{"` + strings.Repeat("a", 64) + `":1}`, "/" + strings.Repeat("a", 64), "pair"},
	{"ps", `[{"a":1},null,{"B":1}]`, "/2/B", "pair"},
	{"ps", `[[{"a":1}],[{"B":1}]]`, "/1/0/B", "pair"},
	{"good", `{"A":1}`, "/A", "pair"},
	{"few", `[{"A":1}]`, "/0/A", "pair"},
	{"deep", `{"odd":1}`, "/odd", `"my ""type"""`},
	{"deep", `{"Odd/~ Name":1}`, "/Odd~1~0 Name", `"my ""type"""`},
	{"deep", `{"Odd/~ name":"","p":{"A":1}}`, "/p/A", "pair"},
	{"deep", `{"j":{"A":1},"ps":[{},{"A":1}]}`, "/ps/1/A", "pair"},
	{"deeps", `["(,,,,,)",{"ps":[{"x":1}]}]`, "/1/ps/0/x", "pair"},
	{"other", `{"x":{"a":1,"y":2}}`, "/x/y", "pair"},
	{"other", `{"k":1}`, "/k", "other"},
}

// vectors are JSON arrays for the two types that take none.
var vectors = []struct{ column, json, pointer string }{
	{"v", `[]`, ""}, {"v", `[1,2]`, ""}, {"w", `[]`, ""}, {"deep", `{"v":[]}`, "/v"},
}

func TestMembersOfValues(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t).Pool(t)
	exec(t, pool, rowsSQL)
	table := load(t, pool, "wide", "wide")
	insert := func(row statement.Row) error {
		_, err := statement.Build(statement.Mutation{Op: catalog.Insert, Table: table, Rows: []statement.Row{rowOf(t, `{"k":""}`), row}, MaxAffected: -1}, under("wide"))
		return err
	}
	row := func(column, json string) statement.Row {
		r := rowOf(t, fmt.Sprintf(`{"k":"{","%s":%s}`, column, json))
		r.At = "/7"
		return r
	}

	alone := func(t *testing.T, column, json string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), "SELECT json_populate_record(NULL::wide, $1) IS NULL", `{"`+column+`":`+json+`}`); err != nil {
			t.Errorf("PostgreSQL itself refuses %s %s: %v", column, json, err)
		}
	}

	t.Run("WhatLosesNothingIsTaken", func(t *testing.T) {
		for column, values := range membersOf {
			for _, json := range values {
				if err := insert(row(column, json)); err != nil {
					t.Errorf("%s %s: %v", column, json, err)
				}
				alone(t, column, json)
			}
		}
	})

	t.Run("AMemberThatItsTypeDoesNotHaveIsUnknown", func(t *testing.T) {
		for _, c := range lossy {
			says := fmt.Sprintf("the type %s in %q has no attribute", c.typ, c.column)
			mustFault(t, insert(row(c.column, c.json)), statement.Fault{Code: statement.UnknownColumn, Column: c.column, Pointer: "/7/" + c.column + c.pointer, Detail: says})
			alone(t, c.column, c.json)
		}
	})

	t.Run("AVectorIsNoJSONArray", func(t *testing.T) {
		for _, c := range vectors {
			mustFault(t, insert(row(c.column, c.json)), statement.Fault{Code: statement.NotALiteral, Column: c.column, Pointer: "/7/" + c.column + c.pointer, Detail: "takes no JSON array"})
			alone(t, c.column, c.json)
		}
	})

	t.Run("AnUpdateIsLookedIntoAsWell", func(t *testing.T) {
		for _, m := range []statement.Mutation{
			{Rows: []statement.Row{row("p", `{"A":1}`)}},
			{Rows: []statement.Row{rowOf(t, `{}`)}, Increment: new(row("p", `{"A":1}`))},
		} {
			m.Op, m.Table, m.All, m.MaxAffected = catalog.Update, table, true, -1
			_, err := statement.Build(m, under("wide"))
			mustFault(t, err, statement.Fault{Code: statement.UnknownColumn, Column: "p", Pointer: "/7/p/A", Detail: "pair"})
		}
	})

	t.Run("ParametersAreLookedInto", func(t *testing.T) {
		exec(t, pool, `CREATE FUNCTION public.keep(p good_pair, ps pair[], v oidvector DEFAULT '') RETURNS integer LANGUAGE sql AS 'SELECT 1'`)
		for _, r := range []routine{
			{schema: "public", name: "keep", lock: "wide"},
			{name: "registered", lock: "wide", params: [][2]string{{"p", "good_pair"}, {"ps", "pair[]"}, {"v", "oidvector"}}, text: []string{"SELECT ", "p", ", ", "ps", ", ", "v", ""}},
		} {
			called := loadRoutine(t, pool, r)
			for params, want := range map[string]statement.Fault{
				`{"p":{"A":1},"ps":null,"v":""}`:   {Code: statement.UnknownColumn, Column: "p", Pointer: "/p/A"},
				`{"p":null,"ps":[{"c":1}],"v":""}`: {Code: statement.UnknownColumn, Column: "ps", Pointer: "/ps/0/c"},
				`{"p":null,"ps":null,"v":[]}`:      {Code: statement.NotALiteral, Column: "v", Pointer: "/v"},
			} {
				_, err := statement.CallText(called, rowOf(t, params), true)
				mustFault(t, err, want)
			}
			if _, err := call(t, pool, called, `{"p":{"a":1},"ps":[{"b":"x"},"(1,y)"],"v":"1 2"}`, true); err != nil {
				t.Errorf("%s: %v", r.name, err)
			}
		}
	})
}

func mustFault(t *testing.T, err error, want statement.Fault) {
	t.Helper()
	var got *statement.Fault
	if !errors.As(err, &got) || got.Code != want.Code || got.Column != want.Column || got.Pointer != want.Pointer || !strings.Contains(got.Detail, want.Detail) {
		t.Errorf("%+v, not %+v", err, want)
	}
}
