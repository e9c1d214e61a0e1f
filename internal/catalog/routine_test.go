package catalog_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/testenv"
)

const routines = `
CREATE SCHEMA sales;
CREATE DOMAIN short AS varchar(3);
CREATE DOMAIN cut AS name;
CREATE TYPE state AS ENUM ('new', 'done');
CREATE TYPE pair AS (a integer, b text);
CREATE TYPE "my (type)" AS ENUM ('x');
CREATE TYPE shell;
CREATE FUNCTION sales.take(p_sku short, "Qty" integer DEFAULT 1, p_day date DEFAULT current_date) RETURNS integer LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION sales.nothing() RETURNS void LANGUAGE sql AS 'SELECT';
CREATE FUNCTION sales.pairs(n integer) RETURNS SETOF pair LANGUAGE sql AS 'SELECT n, ''x''';
CREATE FUNCTION sales.out_pair(OUT a integer, n integer, OUT b text) LANGUAGE sql AS 'SELECT n, ''x''';
CREATE FUNCTION sales.one_out(n bytea, OUT a integer) LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION sales.listed(n integer) RETURNS TABLE (a integer, b text) LANGUAGE sql AS 'SELECT n, ''x''';
CREATE FUNCTION sales.ids() RETURNS SETOF bigint LANGUAGE sql AS 'SELECT 1::bigint';
CREATE FUNCTION sales.twice(a integer) RETURNS integer LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION sales.twice(a text, b text) RETURNS integer LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION sales.unnamed(a integer, text) RETURNS integer LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION sales.unnamed_all(integer) RETURNS integer LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION sales.many(VARIADIC a integer[]) RETURNS integer LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION sales.both(INOUT a integer) LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION sales.of_any(a anyelement) RETURNS integer LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION sales.of_cut(a cut, b "char"[]) RETURNS integer LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION sales.shapeless() RETURNS SETOF record LANGUAGE sql AS 'SELECT 1, 2';
CREATE FUNCTION sales.fired() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE PROCEDURE sales.done() LANGUAGE sql AS 'SELECT 1';
CREATE AGGREGATE sales.total(integer) (SFUNC = int4pl, STYPE = integer);
`

func template(t *testing.T, lock string) lease.Template {
	t.Helper()
	parsed, err := lease.ParseTemplate(lock)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// function is an exposed function of the schema sales.
func function(t *testing.T, name, lock string) catalog.RoutineSpec {
	t.Helper()
	return catalog.RoutineSpec{Schema: "sales", Name: name, Lock: template(t, lock), Expect: -1, Place: "gateway.yaml:7"}
}

// registered is a statement with parameters a, b, … of these types.
func registered(t *testing.T, lock string, types ...string) catalog.RoutineSpec {
	t.Helper()
	spec := catalog.RoutineSpec{Name: "s", Lock: template(t, lock), Text: []string{"SELECT "}, Expect: 1, Place: "gateway.yaml:8"}
	for i, typ := range types {
		name := string(rune('a' + i))
		spec.Declared = append(spec.Declared, catalog.ParamSpec{Name: name, Type: typ})
		spec.Uses = append(spec.Uses, name)
		spec.Text = append(spec.Text, ", ")
	}
	return spec
}

func loadRoutines(t *testing.T, db catalog.Querier, specs ...catalog.RoutineSpec) (*catalog.Snapshot, error) {
	t.Helper()
	return catalog.Load(t.Context(), db, catalog.Specs{Schemas: []string{"sales", "public"}, Routines: specs})
}

func TestARoutineThatCannotBeCalledIsRefused(t *testing.T) {
	t.Parallel()
	db := testenv.EmptyPostgres(t)
	db.Exec(t, routines)
	pool := db.Pool(t)
	inSchema := func(schema string) catalog.RoutineSpec {
		f := function(t, "now", "x")
		f.Schema = schema
		return f
	}
	for name, c := range map[string]struct {
		spec catalog.RoutineSpec
		says string
	}{
		"AFunctionThatIsNotThere":      {function(t, "Take", "x"), `gateway.yaml:7: function "sales"."Take": there is no such function`},
		"AFunctionOfPostgreSQL":        {inSchema("pg_catalog"), "can't be reached"},
		"AFunctionOfTheGateway":        {inSchema("fencegate"), "can't be reached"},
		"AnOverloadedFunction":         {function(t, "twice", "x"), "2 functions have this name, and a call could mean any of them: twice(a integer), twice(a text, b text)"},
		"AProcedure":                   {function(t, "done", "x"), "it is a procedure"},
		"AnAggregate":                  {function(t, "total", "x"), "it is an aggregate"},
		"ATrigger":                     {function(t, "fired", "x"), "it returns trigger"},
		"ARecordWithoutColumns":        {function(t, "shapeless", "x"), "it returns record"},
		"AnUnnamedParameter":           {function(t, "unnamed", "x"), "its parameter 2, text, has no name"},
		"OnlyUnnamedParameters":        {function(t, "unnamed_all", "x"), "its parameter 1, integer, has no name"},
		"AVariadicParameter":           {function(t, "many", "x"), `parameter "a" is VARIADIC`},
		"AnInOutParameter":             {function(t, "both", "x"), `parameter "a" is INOUT`},
		"APolymorphicParameter":        {function(t, "of_any", "x"), `parameter "a" is anyelement, which is no type of values`},
		"AParameterThatCuts":           {function(t, "of_cut", "x"), `parameter "a" is cut, which cuts values`},
		"AnotherParameterThatCuts":     {function(t, "of_cut", "x"), `parameter "b" is "char"[], which cuts values`},
		"ALockOfNoParameter":           {function(t, "take", "{qty}"), `lock template "{qty}": there is no parameter "qty"`},
		"ALockOfAnOutParameter":        {function(t, "out_pair", "{a}"), `lock template "{a}": there is no parameter "a"`},
		"ALockOfAnOddType":             {function(t, "one_out", "{n}"), `parameter "n" is bytea; only integer, text`},
		"AnUnknownType":                {registered(t, "x", "text", "integr"), `gateway.yaml:8: statement "s": parameter "b": there is no type "integr"`},
		"ATypeThatIsNotEvenAName":      {registered(t, "x", "text[,"), `parameter "a": reading its type "text[,": `},
		"ASetOfAType":                  {registered(t, "x", "text", "setof text"), `parameter "b": `},
		"APseudoType":                  {registered(t, "x", "record"), `parameter "a" is record, which is no type of values`},
		"AShellType":                   {registered(t, "x", "shell"), `type "shell"`},
		"ATypeThatCuts":                {registered(t, "x", `"char"`), `parameter "a" is "char", which cuts values`},
		"AnotherTypeThatCuts":          {registered(t, "x", "name[]"), `parameter "a" is name[], which cuts values`},
		"AStatementsLockOfNoParameter": {registered(t, "{b}", "text"), `there is no parameter "b"`},
		"AStatementsLockOfAnOddType":   {registered(t, "{a}", "numeric"), `parameter "a" is numeric; only integer, text`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := loadRoutines(t, pool, c.spec); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, expected %q", err, c.says)
			}
		})
	}
}

func TestEveryMistakeOfRoutinesIsReported(t *testing.T) {
	t.Parallel()
	_, err := loadRoutines(t, testenv.EmptyPostgres(t).Pool(t), function(t, "no", "x"), function(t, "nope", "x"), registered(t, "x", "huh", "hm"))
	for _, says := range []string{`"no"`, `"nope"`, `"huh"`, `"hm"`} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, expected %s", err, says)
		}
	}
}

func TestFunctionsAreReadAsTheyAre(t *testing.T) {
	t.Parallel()
	db := testenv.EmptyPostgres(t)
	db.Exec(t, routines)
	integer := catalog.Column{Name: "n", Type: "integer", Kind: catalog.Plain, KeyType: "integer"}
	n := []catalog.Param{{Column: integer}}
	for name, want := range map[string]catalog.Routine{
		"take": {ReturnsScalar: true, Params: []catalog.Param{
			{Column: catalog.Column{Name: "p_sku", Type: "short", Kind: catalog.Plain, KeyType: "character varying"}},
			{Column: catalog.Column{Name: "Qty", Type: "integer", Kind: catalog.Plain, KeyType: "integer"}, Optional: true},
			{Column: catalog.Column{Name: "p_day", Type: "date", Kind: catalog.Date, KeyType: "date"}, Optional: true},
		}},
		"nothing":  {ReturnsVoid: true, Params: []catalog.Param{}},
		"pairs":    {ReturnsSet: true, Params: n},
		"out_pair": {Params: n},
		"one_out":  {Params: []catalog.Param{{Column: catalog.Column{Name: "n", Type: "bytea", KeyType: "bytea"}}}},
		"listed":   {ReturnsSet: true, Params: n},
		"ids":      {ReturnsSet: true, ReturnsScalar: true, Params: []catalog.Param{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want.RoutineSpec = function(t, name, "x")
			snapshot, err := loadRoutines(t, db.Pool(t), want.RoutineSpec)
			if err != nil {
				t.Fatal(err)
			}
			got, err := snapshot.Routine("", name)
			if err != nil || !reflect.DeepEqual(*got, want) {
				t.Errorf("it is %+v, %v\nwant %+v", got, err, want)
			}
		})
	}
}

func TestTypesOfParametersAreSpelledWithoutLength(t *testing.T) {
	t.Parallel()
	db := testenv.EmptyPostgres(t)
	db.Exec(t, routines)
	written := []string{"char", "bit", "BIT VARYING", "int", "short", "state", "pair", `"my (type)"`, "timestamp with time zone", "public.short[]", "decimal", "jsonb"}
	want := []string{"bpchar", `"bit"`, "bit varying", "integer", "short", "state", "pair", `"my (type)"`, "timestamp with time zone", "short[]", "numeric", "jsonb"}
	snapshot, err := loadRoutines(t, db.Pool(t), registered(t, "{a}:{d}:{e}:{f}:{h}", written...))
	if err != nil {
		t.Fatal(err)
	}
	routine, err := snapshot.Routine("public", "s")
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range routine.Params {
		if p.Type != want[i] || p.Optional {
			t.Errorf("%s is %+v, want the type %s", written[i], p, want[i])
		}
	}
}

func TestAStatementIsReachedUnderEverySchemaAndAFunctionUnderItsOwn(t *testing.T) {
	t.Parallel()
	db := testenv.EmptyPostgres(t)
	db.Exec(t, routines)
	snapshot, err := loadRoutines(t, db.Pool(t), function(t, "ids", "x"), registered(t, "x"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		schema, name string
		there        bool
	}{
		{"", "ids", true}, {"sales", "ids", true}, {"public", "ids", false}, {"", "IDS", false}, {"sales", "take", false},
		{"", "s", true}, {"sales", "s", true}, {"public", "s", true}, {"", "", false},
	} {
		r, err := snapshot.Routine(c.schema, c.name)
		if (err == nil) != c.there || err != nil && !errors.Is(err, catalog.ErrUnknownRoutine) {
			t.Errorf("%s.%s: %v, %v", c.schema, c.name, r, err)
		}
	}
	if all := snapshot.Routines(); len(all) != 2 || all[0].QualifiedName() != "sales.ids" || all[1].QualifiedName() != "s" {
		t.Errorf("all of them are %v", all)
	}
}
