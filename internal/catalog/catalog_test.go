package catalog_test

import (
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/testenv"
)

const schema = `
CREATE TABLE item (id integer PRIMARY KEY, name varchar(3), at timestamp);
CREATE VIEW item_view AS SELECT id AS number, name FROM item;
CREATE VIEW view_of_view AS SELECT number FROM item_view;
CREATE TABLE part (id integer, kind integer) PARTITION BY LIST (kind);
CREATE TABLE part_one PARTITION OF part FOR VALUES IN (1);
CREATE TABLE parent (id integer);
CREATE TABLE child (extra text) INHERITS (parent);
CREATE DOMAIN short AS varchar(3);
CREATE DOMAIN shorter AS short;
CREATE TYPE pair AS (a integer, b text);
CREATE DOMAIN some_pair AS pair;
CREATE TABLE kinds (d shorter, b bit(3), c char(2), j jsonb, i interval day, i2 interval(2), p some_pair);
CREATE TABLE other (id integer);
`

func spec(t *testing.T, name, lock string) catalog.Spec {
	t.Helper()
	template, err := lease.ParseTemplate(lock)
	if err != nil {
		t.Fatal(err)
	}
	return catalog.Spec{Schema: "public", Name: name, Lock: template}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	db := testenv.EmptyPostgres(t)
	db.Exec(t, schema)
	pool := db.Pool(t)
	for name, c := range map[string]struct {
		specs []catalog.Spec
		says  string // "": it loads
	}{
		"DifferentTables":            {[]catalog.Spec{spec(t, "item", "item:{id}"), spec(t, "other", "other:{id}")}, ""},
		"AViewAlone":                 {[]catalog.Spec{spec(t, "item_view", "v:{number}")}, ""},
		"AViewBesideItsTable":        {[]catalog.Spec{spec(t, "item", "item:{id}"), spec(t, "item_view", "v:{number}")}, "share rows"},
		"AViewOfAViewBesideTheTable": {[]catalog.Spec{spec(t, "view_of_view", "v:{number}"), spec(t, "item", "item:{id}")}, "share rows"},
		"TwoViewsOfOneTable":         {[]catalog.Spec{spec(t, "view_of_view", "a:{number}"), spec(t, "item_view", "b:{number}")}, "share rows"},
		"APartitionBesideItsTable":   {[]catalog.Spec{spec(t, "part", "a:{id}"), spec(t, "part_one", "b:{id}")}, "share rows"},
		"APartitionUnderTheSameLock": {[]catalog.Spec{spec(t, "part", "a:{id}"), spec(t, "part_one", "a:{id}")}, ""},
		"AChildBesideItsParent":      {[]catalog.Spec{spec(t, "parent", "a:{id}"), spec(t, "child", "b:{extra}")}, "share rows"},
		"ATableThatIsNotThere":       {[]catalog.Spec{spec(t, "no", "x")}, "there is no such table"},
		"AColumnThatIsNotThere":      {[]catalog.Spec{spec(t, "item", "{ID}")}, `no column "ID"`},
		"AColumnThatCannotBeAKey":    {[]catalog.Spec{spec(t, "item", "{at}")}, "timestamp without time zone"},
		"ASystemTable":               {[]catalog.Spec{{Schema: "pg_catalog", Name: "pg_class"}}, "can't be reached"},
		"ADomainOfADomain":           {[]catalog.Spec{spec(t, "kinds", "{d}")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := catalog.Load(t.Context(), pool, []string{"public"}, c.specs)
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v, expected %q", err, c.says)
			}
		})
	}
}

func TestTypesAreSpelledWithoutLength(t *testing.T) {
	t.Parallel()
	db := testenv.EmptyPostgres(t)
	db.Exec(t, schema)
	snapshot, err := catalog.Load(t.Context(), db.Pool(t), []string{"public"}, []catalog.Spec{spec(t, "kinds", "{d}")})
	if err != nil {
		t.Fatal(err)
	}
	table, err := snapshot.Table("", "kinds")
	if err != nil {
		t.Fatal(err)
	}
	for name, expected := range map[string]string{"d": "shorter", "b": `"bit"`, "c": "bpchar", "j": "jsonb", "i": "interval day", "i2": "interval(2)"} {
		if column, _ := table.Column(name); column.Type != expected {
			t.Errorf("%s is %s, expected %s", name, column.Type, expected)
		}
	}
	if column, _ := table.Column("d"); column.KeyType != "character varying" || column.Kind != catalog.Plain {
		t.Errorf("as part of a lock key it is %+v", column)
	}
	if column, _ := table.Column("p"); column.KeyType != "pair" || !column.Composite {
		t.Errorf("a domain of rows is %+v", column)
	}
}
