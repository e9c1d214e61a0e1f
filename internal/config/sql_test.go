package config

import (
	"slices"
	"strings"
	"testing"
)

func TestAStatementIsCutAtItsParametersOnly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql  string
		uses []string
	}{
		"none":                       {"SELECT 1", nil},
		"one twice":                  {"SELECT :a, :b_2, :a", []string{"a", "b_2", "a"}},
		"at both ends":               {":a+:_B", []string{"a", "_B"}},
		"behind a number":            {"SELECT 1:a", []string{"a"}},
		"a cast":                     {"SELECT :a::text, b::int", []string{"a"}},
		"three colons":               {"SELECT b:::a", nil},
		"an assignment":              {"f(x := :a, y:=:b)", []string{"a", "b"}},
		"slices":                     {"a[1 : n], a[: n], a[n:], a[1:2], a[1:(n)], a[1::a]", nil},
		"a slice with a parameter":   {"a[1::a], a[1 : :b]", []string{"b"}},
		"a string":                   {"':a' || ':b''s:c'", nil},
		"a backslash in a string":    {`'\' || :a || '\'`, []string{"a"}},
		"an escaped string":          {`E'\':a\\' || :b || e'\\'':c' || :d`, []string{"b", "d"}},
		"an escaped string of lines": {"E'a' -- it's\n  -- this\n '\\':a' || :b", []string{"b"}},
		"two strings beside":         {"E'a' '\\' || :a", []string{"a"}},
		"a name that ends in e":      {`SELECT nam'\' || :a`, []string{"a"}},
		"another name before":        {`SELECT xE'\' || :a`, []string{"a"}},
		"a Unicode string":           {`U&'\0041:a' UESCAPE '!' || :b`, []string{"b"}},
		"a bit string":               {`B'1' || x':a' || :b`, []string{"b"}},
		"a quoted name":              {`":a"":b" + U&":c" + :d`, []string{"d"}},
		"dollars":                    {"$$:a;'$$ || $q$ $$:b $q $q$ || :c", []string{"c"}},
		"dollars with odd letters":   {"$größe_1$:a$größe_1$ || :b", []string{"b"}},
		"dollars in a name":          {"SELECT a$$, b$x$, :a, $", []string{"a"}},
		"a line comment":             {"SELECT --:a it's\n:b --;", []string{"b"}},
		"a line comment to a CR":     {"SELECT --:a\r:b", []string{"b"}},
		"a nested comment":           {"/* :a /* :b */ ' :c */ :d /**/ :e /***/", []string{"d", "e"}},
		"a comment in an operator":   {"a +--:b\n+/*:c*/ :d", []string{"d"}},
		"a question mark":            {"a ? :b", []string{"b"}},
		"odd letters":                {"SELECT größe, :a", []string{"a"}},
		"psql's own":                 {`:'a' :"b"`, nil},
		"a trailing colon":           {"a:", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, uses, err := cutSQL(c.sql)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(uses, c.uses) {
				t.Errorf("uses %q, want %q", uses, c.uses)
			}
			if joined := joinSQL(text, uses); joined != c.sql {
				t.Errorf("joined it is %q", joined)
			}
		})
	}
}

func TestASemicolonMayEndAStatement(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{
		"SELECT :a;":                  "SELECT :a",
		"SELECT :a ; -- :b\n/* ; */ ": "SELECT :a ",
		"SELECT ';'":                  "SELECT ';'",
	} {
		text, uses, err := cutSQL(sql)
		if got := joinSQL(text, uses); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", sql, got, err, want)
		}
	}
}

func TestATextThatIsNotOneStatementIsRefused(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{
		"":                                   "holds no statement",
		" -- SELECT\n/* */":                  "holds no statement",
		" ; ":                                "holds no statement",
		"SELECT 1; SELECT 2":                 "a second statement",
		"SELECT 1;;":                         "a second statement",
		"; SELECT 1":                         "a second statement",
		"SELECT $1":                          "a parameter by number",
		"SELECT\n'a\nb":                      "in its line 2, a string that does not end",
		"E'a\\'":                             "a string that does not end",
		"E'a'\n'b":                           "in its line 1, a string that does not end",
		"'a''":                               "a string that does not end",
		`"a`:                                 "a quoted name that does not end",
		"SELECT\n\n $a$ $b$ $a\n":            "in its line 3, a string in dollars that does not end",
		"/* /* */":                           "a comment that does not end",
		"/*/":                                "a comment that does not end",
		"SELECT :größe":                      "the parameter :größe; its name must be",
		"SELECT :a$":                         "the parameter :a$; its name must be",
		"SELECT :ö":                          "the parameter :ö; its name must be",
		"SELECT :" + strings.Repeat("a", 64): "the parameter :aaa",
		"SELECT '\x00'":                      "holds a NUL",
		"SELECT '\xff'":                      "holds a NUL or what isn't UTF-8",
	} {
		_, _, err := cutSQL(sql)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v; want %q", sql, err, want)
		}
	}
}

// FuzzRoutineText: whatever the text, its pieces and parameters joined are the
// text again, up to the semicolon that ends it.
func FuzzRoutineText(f *testing.F) {
	for _, seed := range []string{
		"SELECT :a, ':b', \":c\", E'\\':d', $$:e$$, $x$:f$x$, --:g\n /* :h /* */ */ i::j, k[1 : l] ;", "E'a'\n'b\\''", ":ö", "::a", "a$1", "$1", ";;", "'", "/*", "$", ":",
		"UPDATE t SET n = n - :qty WHERE sku = :sku RETURNING *;\n-- done",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		text, uses, err := cutSQL(sql)
		if err != nil {
			return
		}
		if len(text) != len(uses)+1 {
			t.Fatalf("%d pieces and %d parameters", len(text), len(uses))
		}
		rest, begins := strings.CutPrefix(sql, joinSQL(text, uses))
		if !begins || rest != "" && rest[0] != ';' {
			t.Fatalf("%q, %q and then %q", text, uses, rest)
		}
		for _, name := range uses {
			if !isParamName(name) {
				t.Fatalf("parameter %q", name)
			}
		}
		again, same, err := cutSQL(joinSQL(text, uses))
		if err != nil || !slices.Equal(again, text) || !slices.Equal(same, uses) {
			t.Fatalf("cut again it is %q, %q, %v", again, same, err)
		}
	})
}

func joinSQL(text, uses []string) string {
	var b strings.Builder
	for i, piece := range text {
		b.WriteString(piece)
		if i < len(uses) {
			b.WriteString(":" + uses[i])
		}
	}
	return b.String()
}
