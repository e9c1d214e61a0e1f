package lease_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fencegate/fencegate/internal/lease"
)

func TestParseTemplate(t *testing.T) {
	t.Parallel()

	t.Run("LiteralsAndColumnsAlternate", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]lease.Template{
			"inventory:{sku}":  {Literals: []string{"inventory:", ""}, Columns: []string{"sku"}},
			"{sku}":            {Literals: []string{"", ""}, Columns: []string{"sku"}},
			"{a}{b}":           {Literals: []string{"", "", ""}, Columns: []string{"a", "b"}},
			"{a}:{b}/x":        {Literals: []string{"", ":", "/x"}, Columns: []string{"a", "b"}},
			"whole":            {Literals: []string{"whole"}},
			"{{literal}}":      {Literals: []string{"{literal}"}},
			"{{{sku}}}":        {Literals: []string{"{", "}"}, Columns: []string{"sku"}},
			"}}{{":             {Literals: []string{"}{"}},
			"it's \\ {a b.c}!": {Literals: []string{"it's \\ ", "!"}, Columns: []string{"a b.c"}},
			"lager:{größe}":    {Literals: []string{"lager:", ""}, Columns: []string{"größe"}},
		} {
			got, err := lease.ParseTemplate(text)
			if err != nil || !slices.Equal(got.Literals, want.Literals) || !slices.Equal(got.Columns, want.Columns) {
				t.Errorf("%q = %q, %v", text, got, err)
			}
			if got.String() != text {
				t.Errorf("%q is written as %q", text, got)
			}
			if got.WholeTable() != (len(want.Columns) == 0) {
				t.Errorf("%q: WholeTable() = %t", text, got.WholeTable())
			}
		}
	})

	t.Run("MistakesAreNamed", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"", "{", "}", "{}", "a{", "a{sku", "a}", "{sku}}", "{a{b}", "{a}-{a}", "{{}", "a{}b"} {
			if got, err := lease.ParseTemplate(text); !errors.Is(err, lease.ErrMalformed) {
				t.Errorf("%q = %q, %v", text, got, err)
			}
		}
	})

	t.Run("WhatIsWrittenIsReadTheSameWay", rapid.MakeCheck(func(t *rapid.T) {
		want := templates().Draw(t, "template")
		got, err := lease.ParseTemplate(want.String())
		if err != nil || !slices.Equal(got.Literals, want.Literals) || !slices.Equal(got.Columns, want.Columns) {
			t.Fatalf("%q is read as %#v, %v", want, got, err)
		}
	}))
}

func templates() *rapid.Generator[lease.Template] {
	return rapid.Custom(func(t *rapid.T) lease.Template {
		name := rapid.StringMatching(`[^{}]{1,8}`)
		columns := rapid.SliceOfNDistinct(name, 0, 3, rapid.ID[string]).Draw(t, "columns")
		least := 0
		if len(columns) == 0 {
			least = 1 // an empty template is none
		}
		literal := rapid.StringOfN(rapid.RuneFrom([]rune("a:{}'\\ é")), least, 6, -1)
		return lease.Template{
			Literals: rapid.SliceOfN(literal, len(columns)+1, len(columns)+1).Draw(t, "literals"),
			Columns:  columns,
		}
	})
}
