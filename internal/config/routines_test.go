package config

import (
	"slices"
	"strings"
	"testing"
)

// named is a file with a statement of this name, text, parameters and lock.
func named(name, sql, params, lock string) string {
	return minimal + "statements:\n  - name: " + name + "\n    sql: " + sql + "\n    params: " + params + "\n    lock: " + lock + "\n"
}

func TestAMistakeInStatementsIsReportedWhereItStands(t *testing.T) {
	t.Parallel()
	runMistakes(t, []mistakeCase{
		{"nothing in it", minimal + "statements:\n  - {}\n", []string{
			"gateway.yaml:6:5: statements[0].name: is missing", "gateway.yaml:6:5: statements[0].sql: is missing", "gateway.yaml:6:5: statements[0].lock: is missing"}},
		{"text for a statement", minimal + "statements:\n  - a\n", []string{"gateway.yaml:6:5: statements[0]: must be a mapping"}},
		{"an unknown key", named("a", "SELECT 1", "{}", "a\n    rows: 1"), []string{"gateway.yaml:10:5: statements[0].rows: unknown key; known here: name, sql, params, lock, mode, expect_rows"}},
		{"a name with a dot", named("a.b", "SELECT 1", "{}", "a"), []string{`gateway.yaml:6:11: statements[0].name: is "a.b"; must be 1 to 63 letters`}},
		{"a name in odd letters", named("größe", "SELECT 1", "{}", "a"), []string{`gateway.yaml:6:11: statements[0].name: is "größe"; must be`}},
		{"a long name", named(strings.Repeat("a", 64), "SELECT 1", "{}", "a"), []string{`gateway.yaml:6:11: statements[0].name: is "a`}},
		{"one name twice", named("a", "SELECT 1", "{}", "a") + "  - {name: a, sql: SELECT 1, lock: a}\n",
			[]string{"gateway.yaml:10:12: statements[1].name: a is the name of statements[0] already"}},
		{"SQL that does not end", named("a", "|\n      SELECT\n      'a", "{}", "a"),
			[]string{"gateway.yaml:7:5: statements[0].sql: in its line 2, a string that does not end"}},
		{"two statements", named("a", "SELECT 1; SELECT 2", "{}", "a"), []string{"gateway.yaml:7:10: statements[0].sql: a second statement"}},
		{"a parameter that isn't used", named("a", "SELECT :b", "\n      b: text\n      c: text", "a"),
			[]string{"gateway.yaml:10:10: statements[0].params.c: is not used in sql"}},
		{"a parameter that isn't listed", named("a", "SELECT :b, :c, :c", "{b: text}", "a"),
			[]string{"gateway.yaml:7:10: statements[0].sql: uses :c, which params does not have"}},
		{"no parameters listed", minimal + "statements: [{name: a, lock: a, sql: \"SELECT x[1:n]\"}]\n",
			[]string{"gateway.yaml:5:38: statements[0].sql: uses :n, which params does not have; write a colon that begins no parameter with a space"}},
		{"a parameter twice", named("a", "SELECT :b", "{b: text, b: text}", "a"), []string{"gateway.yaml:8:23: statements[0].params.b: is written twice, first on line 8"}},
		{"a parameter with an odd name", named("a", "SELECT 1", "{b-c: text}", "a"), []string{"gateway.yaml:8:14: statements[0].params: a parameter's name must be 1 to 63"}},
		{"parameters as a list", named("a", "SELECT 1", "[b]", "a"), []string{"gateway.yaml:8:5: statements[0].params: must be a mapping of names to types"}},
		{"a type that is a number", named("a", "SELECT :b", "{b: 1}", "a"), []string{"gateway.yaml:8:17: statements[0].params.b: must be text, not a number"}},
		{"an empty type", named("a", "SELECT :b", "{b: ''}", "a"), []string{"gateway.yaml:8:17: statements[0].params.b: is empty"}},
		{"a type with a length", named("a", "SELECT :b", "{b: varchar(3)}", "a"),
			[]string{`gateway.yaml:8:17: statements[0].params.b: is "varchar(3)"; write the type without length`}},
		{"a type with a precision inside", named("a", "SELECT :b", "{b: timestamp (3) with time zone}", "a"), []string{"gateway.yaml:8:17: statements[0].params.b: is "}},
		{"a type with a precision and an array", named("a", "SELECT :b", "{b: \"numeric(10,2)[]\"}", "a"), []string{"gateway.yaml:8:17: statements[0].params.b: is "}},
		{"an array of a length", named("a", "SELECT :b", "{b: \"int[3]\"}", "a"), []string{"gateway.yaml:8:17: statements[0].params.b: is "}},
		{"an interval of fields", named("a", "SELECT :b", "{b: Interval day to second}", "a"), []string{"gateway.yaml:8:17: statements[0].params.b: is "}},
		{"a broken lock", named("a", "SELECT 1", "{}", "'a:{'"), []string{"gateway.yaml:9:11: statements[0].lock: malformed: "}},
		{"a lock of no parameter", named("a", "SELECT :b", "{b: text}", "'a:{c}'"), []string{`gateway.yaml:9:11: statements[0].lock: lock template "a:{c}": there is no parameter "c"`}},
		{"a negative number of rows", named("a", "SELECT 1", "{}", "a\n    expect_rows: -1"), []string{"gateway.yaml:10:18: statements[0].expect_rows: is -1; must be 0 to 1000000"}},
		{"too many rows", named("a", "SELECT 1", "{}", "a\n    expect_rows: 1000001"), []string{"gateway.yaml:10:18: statements[0].expect_rows: is 1000001"}},
	})
}

func TestAMistakeInFunctionsIsReportedWhereItStands(t *testing.T) {
	t.Parallel()
	runMistakes(t, []mistakeCase{
		{"nothing in it", minimal + "functions:\n  - {}\n", []string{"gateway.yaml:6:5: functions[0].name: is missing", "gateway.yaml:6:5: functions[0].lock: is missing"}},
		{"an unknown key", minimal + "functions:\n  - {name: a, lock: a, params: {}}\n", []string{"gateway.yaml:6:24: functions[0].params: unknown key; known here: name, lock"}},
		{"a name of three parts", minimal + "functions:\n  - {name: a.b.c, lock: a}\n", []string{`gateway.yaml:6:12: functions[0].name: "a.b.c" isn't a plain name`}},
		{"an empty name", minimal + "functions:\n  - {name: {name: \"\"}, lock: a}\n", []string{"gateway.yaml:6:6: functions[0].name: the function's name is empty"}},
		{"one function twice", minimal + "functions:\n  - {name: a, lock: a}\n  - {name: public.a, lock: a}\n",
			[]string{"gateway.yaml:7:12: functions[1].name: public.a is functions[0] already"}},
		{"the name of a statement", named("a", "SELECT 1", "{}", "a") + "functions:\n  - {name: sales.a, lock: a}\n",
			[]string{"gateway.yaml:11:12: functions[0].name: a is the name of statements[0] already"}},
		{"a schema that isn't listed", minimal + "schemas: [public]\nfunctions:\n  - {name: sales.a, lock: a}\n",
			[]string{"gateway.yaml:7:12: functions[0].name: the schema sales isn't listed in schemas"}},
	})
}

func TestAMistakeInAFenceColumnIsReportedWhereItStands(t *testing.T) {
	t.Parallel()
	table := func(column string) string {
		return head + "tables:\n  - name: a\n    lock: a:{id}\n    fence_column: " + column + "\n"
	}
	runMistakes(t, []mistakeCase{
		{"an empty one", table("''"), []string{"gateway.yaml:7:19: tables[0].fence_column: the column's name is empty"}},
		{"a long one", table(strings.Repeat("a", 64)), []string{"gateway.yaml:7:19: tables[0].fence_column: the column's name is longer than 63 bytes"}},
		{"one of the lock's", table("id"), []string{"gateway.yaml:7:19: tables[0].fence_column: id is part of the lock template"}},
		{"a number", table("1"), []string{"gateway.yaml:7:19: tables[0].fence_column: must be text"}},
	})
	if c := mustLoad(t, table("Last Token")); c.Tables[0].FenceColumn != "Last Token" {
		t.Errorf("it is %q", c.Tables[0].FenceColumn)
	}
}

func TestAStatementKeepsItsPlaceInTheFile(t *testing.T) {
	t.Parallel()
	lines := "\n# one\n- name: a\n  lock: a\n  sql: | # of two lines\n\n    SELECT\n      1\n" +
		"- sql: >\n    SELECT\n    1\n  name: b\n  lock: b\n- {name: c, lock: c, sql: 'SELECT 1'}\n- name: d\n  lock: d\n  sql: SELECT\n    1\n- name: e\n  lock: e\n  sql: 'SELECT\n\n    1'\n"
	c := mustLoad(t, minimal+"statements:"+lines+"functions: [{name: f, lock: f}]\n")
	for i, want := range []struct {
		place string
		line  int
	}{{":7", 10}, {":13", 0}, {":18", 18}, {":19", 21}, {":23", 0}} {
		if s := c.Statements[i]; !strings.HasSuffix(s.Place, "gateway.yaml"+want.place) || s.Line != want.line {
			t.Errorf("%s is at %s and its SQL on line %d, want %s and %d", s.Name, s.Place, s.Line, want.place, want.line)
		}
	}
	if f := c.Functions[0]; !strings.HasSuffix(f.Place, "gateway.yaml:28") {
		t.Errorf("the function is at %s", f.Place)
	}
}

func TestAStatementExpectsNothingUnlessItSaysSo(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, named("a", "SELECT :b + :a", "{b: \"int[]\", a: my type}", "a\n    expect_rows: 0")+"  - {name: A, sql: SELECT 1;, lock: a}\n")
	if got := []int{c.Statements[0].ExpectRows, c.Statements[1].ExpectRows}; !slices.Equal(got, []int{0, AnyRows}) {
		t.Errorf("they expect %d rows", got)
	}
	if got := c.Statements[0].Params; !slices.Equal(got, []Param{{"b", "int[]"}, {"a", "my type"}}) {
		t.Errorf("the parameters are %q", got)
	}
}

func TestSchemasAreAlsoThoseOfTheFunctions(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, minimal+"functions: [{name: b.f, lock: a}, {name: public.g, lock: a}, {name: a.f, lock: a}]\n")
	if !slices.Equal(c.Schemas, []string{"public", "b", "a"}) {
		t.Errorf("schemas are %v", c.Schemas)
	}
}
