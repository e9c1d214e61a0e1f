package config

import (
	"slices"
	"strings"
	"testing"
)

func TestATableNameIsPlainOrAMappingAndKeepsItsCase(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"inventory":                              {"public", "inventory"},
		"Inventory":                              {"public", "Inventory"},
		"Sales.Orders":                           {"Sales", "Orders"},
		"größen$1":                               {"public", "größen$1"},
		`"sales.orders"`:                         {"sales", "orders"},
		"{name: price.list}":                     {"public", "price.list"},
		"{schema: My Schema, name: \"a.b\\tC\"}": {"My Schema", "a.b\tC"},
	} {
		c := mustLoad(t, head+"tables:\n  - name: "+text+"\n    lock: x\n")
		if got := [2]string{c.Tables[0].Schema, c.Tables[0].Name}; got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}

func TestOperationsAreAllFourUnlessListed(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, head+"tables:\n  - {name: a, lock: a}\n  - {name: b, lock: b, operations: [delete, select]}\n")
	if got := c.Tables[0].Operations; !slices.Equal(got, []string{Select, Insert, Update, Delete}) {
		t.Errorf("left out, operations are %v", got)
	}
	if got := c.Tables[1].Operations; !slices.Equal(got, []string{Select, Delete}) {
		t.Errorf("listed, operations are %v", got)
	}
	if c.Tables[1].Allows(Update) || !c.Tables[1].Allows(Delete) {
		t.Error("Allows disagrees with the list")
	}
}

func TestSchemasAreThoseOfTheTablesUnlessListed(t *testing.T) {
	t.Parallel()
	tables := "tables:\n  - {name: b.x, lock: a}\n  - {name: a.x, lock: a}\n  - {name: b.y, lock: a}\n"
	if got := mustLoad(t, head+tables).Schemas; !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("left out, schemas are %v", got)
	}
	if got := mustLoad(t, head+tables+"schemas: [a, b]\n").Schemas; !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("listed, schemas are %v", got)
	}
}

func TestTheModeIsReadOfTablesStatementsAndFunctions(t *testing.T) {
	t.Parallel()
	const text = head + `
tables: [{name: a, lock: l}, {name: b, lock: l, mode: observe}]
statements: [{name: s, sql: SELECT 1, lock: l, mode: observe}]
functions: [{name: f, lock: l, mode: observe}]`
	c := mustLoad(t, mustLoad(t, text).Masked())
	if c.Tables[0].Mode != ModeEnforce || c.Tables[1].Mode != ModeObserve || c.Statements[0].Mode != ModeObserve || c.Functions[0].Mode != ModeObserve {
		t.Errorf("%+v", c)
	}
	got := mistakesOf(t, strings.ReplaceAll(text, "observe", "watch"))
	if len(got) != 3 || !strings.Contains(got[0], `tables[1].mode: is "watch"; allowed are enforce, observe`) {
		t.Errorf("%q", got)
	}
}
