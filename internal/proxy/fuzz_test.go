package proxy

import (
	stdjson "encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fencegate/fencegate/internal/statement"
)

// FuzzQuery: whatever the query string, it is refused with a 400 or read as
// filters that the grammar knows, without NUL or invalid UTF-8.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"", "&&", "sku=eq.SKU-1", "sku=eq.SKU-1&available=gte.1&select=sku,available&order=sku.desc.nullslast&limit=5&offset=10",
		"sku=not.in.(a,%22b%2Cc%22,%22q%5C%22q%22,)", "a=is.null&b=not.is.true", "all=true", "or=(a.eq.1)", "on_conflict=x", "select=%22a,b%22,%22q%5C%22%22",
		"order=%22a.b%22.desc,c", "x=eq.%zz", "x=eq.a;b", "x=eq.%00", "x=eq.%ff", "limit=-1", "limit=9223372036854775808", "x=in.(", "x=in.()", "x=in.(,)",
		"%22limit%22=eq.1", "x=eq.a+b%2Bc", "=eq.", "x", "select=&select=", "x=in.(%22)", "%22\\=eq.1", "order=\"a",
		"or=(a.eq.1,b.gt.2,and(c.is.null,not.or(d.in.(1,%22,%22),e.not.like.*x*)))", "not.and=(a.eq.%22x,)%22,b.cs.{1,2})", "or=()", "or=(a)", "and=((((",
		"a=like(any).{a*,b}", "a=fts(english).x", "a=not.eq(all).{1}", "a=eq().1", "or=(and(or(and(or(and(or(and(or(a.eq.1)))))))))", "%22or%22=eq.1",
		"a->b->>c=eq.1", "select=x:a->0->>b::text,*,%22q:%22:c", "order=a->>b.desc", "select=t(a,b)", "a->%22->%22=is.null", "select=a::int[]", "or=(a->%22.%22.eq.1)",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := parseRestQuery(raw, 5, "select", "order", "limit", "offset", "all")
		if err != nil {
			mustBeBad(t, err, 400)
			return
		}
		if q.leaves > 5 || countLeaves(q.filters) != q.leaves || q.limit < -1 || q.offset < 0 {
			t.Fatalf("%+v", q)
		}
		for _, filter := range q.filters {
			checkFilter(t, filter, 1)
		}
		for _, name := range q.columns.Names {
			if name == "" || !keepable(name) {
				t.Fatalf("column %q", name)
			}
		}
		for _, o := range q.columns.Outputs {
			if !o.Star && (o.Name() == "" || o.Column == "" || !keepable(o.Name()+o.Column) || o.Cast != "" && !statement.KnownType(o.Cast)) {
				t.Fatalf("output %+v", o)
			}
			checkPath(t, o.Path)
		}
		for _, term := range q.order {
			checkPath(t, term.Path)
		}
	})
}

func checkPath(t *testing.T, path statement.Path) {
	t.Helper()
	for i, step := range path {
		if step.Key == "" || !keepable(step.Key) || step.Text && i+1 < len(path) || i >= maxPath {
			t.Fatalf("path %+v", path)
		}
	}
}

func checkFilter(t *testing.T, f statement.Filter, depth int) {
	t.Helper()
	if f.Op == statement.And || f.Op == statement.Or {
		if depth > maxGroupDepth || len(f.Parts) == 0 || f.Column != "" || f.Values != nil {
			t.Fatalf("group %+v", f)
		}
		for _, part := range f.Parts {
			checkFilter(t, part, depth+1)
		}
		return
	}
	if !statement.KnownOp(f.Op) || f.Op != statement.In && len(f.Values) != 1 || f.Op == statement.Is && !statement.KnownIs(f.Values[0]) || f.Parts != nil {
		t.Fatalf("filter %+v", f)
	}
	checkPath(t, f.Path)
	if f.Quantifier != "" && !statement.Quantifiable(f.Op) || f.Config != "" && !statement.IsSearch(f.Op) {
		t.Fatalf("modifier of %+v", f)
	}
	if !keepable(f.Column) || !keepable(strings.Join(f.Values, "")) {
		t.Fatalf("PostgreSQL can't keep %+v", f)
	}
}

func countLeaves(filters []statement.Filter) (n int) {
	for _, f := range filters {
		if f.Parts == nil {
			n++
		}
		n += countLeaves(f.Parts)
	}
	return n
}

func keepable(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// FuzzList: a list that is written with every value in quotes is read back.
func FuzzList(f *testing.F) {
	f.Add("a", "b,c", `q"q`)
	f.Add("", `\`, "()")
	f.Add(" a ", "null", `\"`)
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	f.Fuzz(func(t *testing.T, a, b, c string) {
		want := []string{a, b, c}
		var parts []string
		for _, value := range want {
			parts = append(parts, `"`+escape.Replace(value)+`"`)
		}
		got, err := parseList("(" + strings.Join(parts, ",") + ")")
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q came back as %q, %v", want, got, err)
		}
		if names := splitOutside(strings.Join(parts, "."), '.'); len(names) != 3 || unquote(names[0]) != a || unquote(names[2]) != c {
			t.Fatalf("%q came back as %q", want, names)
		}
		if !keepable(a) {
			return
		}
		grouped, err := parseRestQuery("not.or="+url.QueryEscape(`(`+parts[0]+`.not.eq.`+parts[1]+`,and("a".in.(`+parts[2]+`)))`), 2)
		if keepable(b) && keepable(c) && (err != nil || grouped.filters[0].Parts[0].Column != a || grouped.filters[0].Parts[0].Values[0] != b || grouped.filters[0].Parts[1].Parts[0].Values[0] != c) {
			t.Fatalf("%q came back as %+v, %v", want, grouped, err)
		}
		q, err := parseRestQuery(url.QueryEscape(`"`+escape.Replace(a)+`"`)+"=eq."+url.QueryEscape(b), 1)
		if keepable(b) && (err != nil || q.filters[0].Column != a || q.filters[0].Values[0] != b) {
			t.Fatalf("%q = %q came back as %+v, %v", a, b, q, err)
		}
	})
}

// FuzzBody: whatever the body, it is refused with a 4xx or is JSON that every
// other reader takes for the same.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, `[{}]`, `{"a":1}`, `[{"a":1},{"b":null}]`, `{"a":{"b":[1,2,{"c":"d"}]}}`, `{"a":1,"a":2}`, `{"a":1} {}`, `null`, `"x"`, `[1]`, `[{"a":1},2]`,
		`{"a":"\u0000"}`, `{"a":"\\u0000"}`, `{"a":"\ud800"}`, `{"a":"\ud83d\ude00"}`, "\ufeff{}", "{\"a\":\"\xff\"}", "{\"a\x00\":1}", `{"n\u006fte":1}`,
		`{"n":9007199254740993,"m":1e400,"z":-0}`, ` { "a" : [ ] } `, `{"a":1,}`, `[{},{}`, `{"a":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`,
		strings.Repeat(`{"a":`, 70), strings.Repeat("[", 100), `{"a":"[[[[\"{{{{"}`, `{"":""}`, `{"\"":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		given := slices.Clone(body)
		rows, array, err := decodeRows(body, 10)
		if !slices.Equal(body, given) {
			t.Fatal("the body was changed")
		}
		if err != nil {
			mustBeBad(t, err, 400, 413)
			return
		}
		if !utf8.Valid(body) || !stdjson.Valid(body) || len(rows) > 10 || !array && len(rows) != 1 {
			t.Fatalf("%d rows of %q", len(rows), body)
		}
		var others []map[string]stdjson.RawMessage
		text := string(body)
		if !array {
			text = "[" + text + "]"
		}
		if err := stdjson.Unmarshal([]byte(text), &others); err != nil || len(others) != len(rows) {
			t.Fatalf("%d rows, not %d: %v", len(rows), len(others), err)
		}
		for i, row := range rows {
			checkRow(t, row, others[i])
		}
	})
}

func checkRow(t *testing.T, row statement.Row, other map[string]stdjson.RawMessage) {
	t.Helper()
	if len(row.Names) != len(other) {
		t.Fatalf("members %q, not %q", row.Names, other)
	}
	for _, name := range row.Names {
		if _, ok := other[name]; !ok || !keepable(name) {
			t.Fatalf("member %q is not one of %q", name, other)
		}
	}
	var again map[string]stdjson.RawMessage
	if err := stdjson.Unmarshal(row.JSON, &again); err != nil || len(again) != len(other) || row.JSON[0] != '{' {
		t.Fatalf("the row's text is %q: %v", row.JSON, err)
	}
}

func mustBeBad(t *testing.T, err error, statuses ...int) {
	t.Helper()
	var own *fault
	if !errors.As(err, &own) || !slices.Contains(statuses, own.status) || own.detail == "" {
		t.Fatalf("%v", err)
	}
}
