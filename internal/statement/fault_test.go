package statement_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/statement"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t).Pool(t)
	exec(t, pool, `CREATE TABLE stock (sku text, bin integer, n integer)`)
	two := load(t, pool, "stock", "stock:{sku}:{bin}")
	whole := load(t, pool, "stock", "stock")
	pins := []statement.Filter{eq("sku", "A"), eq("bin", "1")}
	row := func(names ...string) []statement.Row { return []statement.Row{{Names: names, JSON: []byte("{}")}} }
	with := func(f ...statement.Filter) []statement.Filter { return append(f, eq("sku", "A")) }
	bin := func(op statement.FilterOp, not bool) statement.Filter {
		return statement.Filter{Column: "bin", Op: op, Not: not, Values: []string{"1"}}
	}

	for name, c := range map[string]struct {
		mutation statement.Mutation
		want     statement.Fault
	}{
		"AMemberThatIsNoColumn": {
			statement.Mutation{Op: catalog.Insert, Table: two, Rows: row("sku", "nope")},
			statement.Fault{Code: statement.UnknownColumn, Column: "nope"},
		},
		"AMemberInAnotherCase": {
			statement.Mutation{Op: catalog.Update, Table: two, Rows: row("N"), Filters: pins},
			statement.Fault{Code: statement.UnknownColumn, Column: "N"},
		},
		"ASystemColumn": {
			statement.Mutation{Op: catalog.Insert, Table: two, Rows: row("ctid")},
			statement.Fault{Code: statement.UnknownColumn, Column: "ctid"},
		},
		"AFilterOnNoColumn": {
			statement.Mutation{Op: catalog.Delete, Table: two, Filters: append(pins, eq("nope", "1"))},
			statement.Fault{Code: statement.UnknownColumn, Column: "nope", Parameter: "nope"},
		},
		"ReturningNoColumn": {
			statement.Mutation{Op: catalog.Delete, Table: two, Filters: pins, Return: statement.Columns{Names: []string{"nope"}}},
			statement.Fault{Code: statement.UnknownColumn, Column: "nope", Parameter: "select"},
		},
		"NoFilterUnderALockForTheWholeTable": {
			statement.Mutation{Op: catalog.Delete, Table: whole},
			statement.Fault{Code: statement.FilterRequired, Parameter: "all"},
		},
		"NoMemberToUpdate": {
			statement.Mutation{Op: catalog.Update, Table: two, Rows: row(), Filters: pins},
			statement.Fault{Code: statement.EmptyBody},
		},
		"NoFilterAtAll": {
			statement.Mutation{Op: catalog.Delete, Table: two, All: true},
			statement.Fault{Code: statement.ScopeNotPinned, Column: "sku", Parameter: "sku"},
		},
		"OneColumnNotPinned": {
			statement.Mutation{Op: catalog.Delete, Table: two, Filters: with()},
			statement.Fault{Code: statement.ScopeNotPinned, Column: "bin", Parameter: "bin"},
		},
		"AnUpdateNotPinned": {
			statement.Mutation{Op: catalog.Update, Table: two, Rows: row("n"), Filters: with()},
			statement.Fault{Code: statement.ScopeNotPinned, Column: "bin", Parameter: "bin"},
		},
		"PinnedByARange": {
			statement.Mutation{Op: catalog.Delete, Table: two, Filters: with(bin(statement.Gte, false), bin(statement.Lte, false))},
			statement.Fault{Code: statement.ScopeNotPinned, Column: "bin", Parameter: "bin"},
		},
		"PinnedByAList": {
			statement.Mutation{Op: catalog.Delete, Table: two, Filters: with(bin(statement.In, false))},
			statement.Fault{Code: statement.ScopeNotPinned, Column: "bin", Parameter: "bin"},
		},
		"PinnedByADenial": {
			statement.Mutation{Op: catalog.Delete, Table: two, Filters: with(bin(statement.Eq, true))},
			statement.Fault{Code: statement.ScopeNotPinned, Column: "bin", Parameter: "bin"},
		},
		"PinnedByInequality": {
			statement.Mutation{Op: catalog.Delete, Table: two, Filters: with(bin(statement.Neq, true))},
			statement.Fault{Code: statement.ScopeNotPinned, Column: "bin", Parameter: "bin"},
		},
		"APathIntoText": {
			statement.Mutation{Op: catalog.Delete, Table: two, Filters: append(pins, statement.Filter{Column: "sku", Path: statement.Path{{Key: "a"}}, Op: statement.Eq, Values: []string{"1"}})},
			statement.Fault{Code: statement.NotJSON, Column: "sku", Parameter: "sku"},
		},
		"PinnedInsideAnd": {
			statement.Mutation{Op: catalog.Delete, Table: two, Filters: with(group(statement.And, eq("bin", "1")))},
			statement.Fault{Code: statement.ScopeNotPinned, Column: "bin", Parameter: "bin"},
		},
		"PinnedInsideOr": {
			statement.Mutation{Op: catalog.Delete, Table: two, Filters: with(group(statement.Or, eq("bin", "1")))},
			statement.Fault{Code: statement.ScopeNotPinned, Column: "bin", Parameter: "bin"},
		},
		"PinnedByAnyOf": {
			statement.Mutation{Op: catalog.Delete, Table: two,
				Filters: with(statement.Filter{Column: "bin", Op: statement.Eq, Quantifier: statement.Any, Values: []string{"{1}"}})},
			statement.Fault{Code: statement.ScopeNotPinned, Column: "bin", Parameter: "bin"},
		},
		"AGroupWithNoColumn": {
			statement.Mutation{Op: catalog.Delete, Table: two, Filters: append(pins, group(statement.Or, eq("n", "1"), group(statement.And, eq("nope", "1"))))},
			statement.Fault{Code: statement.UnknownColumn, Column: "nope", Parameter: "or"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.mutation.MaxAffected = -1
			built, err := statement.Build(c.mutation, under("stock:A:1"))
			var got *statement.Fault
			if !errors.As(err, &got) || built != nil {
				t.Fatalf("%v, %v", built, err)
			}
			if got.Code != c.want.Code || got.Column != c.want.Column || got.Parameter != c.want.Parameter || got.Detail == "" {
				t.Errorf("%+v", *got)
			}
			if errors.Is(err, statement.ErrNotPinned) != (got.Code == statement.ScopeNotPinned) {
				t.Errorf("%v does not say whether a column is not pinned", err)
			}
		})
	}

	t.Run("AQueryOfNoColumn", func(t *testing.T) {
		t.Parallel()
		for parameter, q := range map[string]statement.Query{
			"select": {Columns: statement.Columns{Names: []string{"nope"}}},
			"order":  {Columns: statement.Columns{All: true}, Order: []statement.OrderTerm{{Column: "nope"}}},
			"nope":   {Columns: statement.Columns{All: true}, Filters: []statement.Filter{eq("nope", "1")}},
		} {
			q.Table = two
			_, err := statement.BuildQuery(q)
			var got *statement.Fault
			if !errors.As(err, &got) || got.Code != statement.UnknownColumn || got.Parameter != parameter || got.Column != "nope" {
				t.Errorf("%s: %v", parameter, err)
			}
		}
	})

	t.Run("AnOperationThatIsNone", func(t *testing.T) {
		t.Parallel()
		for _, op := range []catalog.Operation{"", catalog.Select, "truncate"} {
			if built, err := statement.Build(statement.Mutation{Op: op, Table: two, All: true}, under("k")); err == nil {
				t.Errorf("%q: %v", op, built)
			}
		}
	})

	t.Run("OnlyTheGrammarsWordsAreKnown", func(t *testing.T) {
		t.Parallel()
		for _, op := range strings.Fields("eq neq gt gte lt lte like ilike match imatch in is isdistinct cs cd ov sl sr nxr nxl adj fts plfts phfts wfts") {
			if !statement.KnownOp(statement.FilterOp(op)) {
				t.Errorf("%s is not known", op)
			}
		}
		for _, op := range []statement.FilterOp{"", "EQ", "and", "or", "any", "eq(any)", "=", "@>", "not"} {
			if statement.KnownOp(op) {
				t.Errorf("%s is known", op)
			}
		}
		for _, word := range []string{"", "NULL", "nil", "not null", "0"} {
			if statement.KnownIs(word) {
				t.Errorf("is.%s is known", word)
			}
		}
	})
}
