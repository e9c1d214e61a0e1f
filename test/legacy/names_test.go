package legacy_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// oddNames are names of tables, of columns and of schemas. Some are taken by
// SQL, by the grammar of the query string, or by the gateway's own statements;
// some differ from others in case or in how a character is made only.
var oddNames = []string{
	"plain", "Mixed Case", "mixed case", "MIXED CASE", "two  spaces", " leading", "trailing ", " ", "tab\tnew\nline", "\u2028",
	"dot.ted", "a.b.c", ".", "..", "com,ma", `quo"te`, `"`, `""`, `"quoted"`, "apos'trophe", "'; DROP TABLE names.plain; --",
	"percent%41", "100%", "%", "sla/sh", "/", "//", `back\slash`, `\`, `\"`, "co:lon", "x:y::int4", "::", "a->b", "a->>b",
	"brackets[0]", "(paren)", "count()", "{brace}", "{", "1st", "42", "-1", "$1", "*", "~", "|", "amp&er=sand", "plus+plus", "hash#?", "semi;colon",
	"größe", "中文", "עברית", "\u00e9", "e\u0301", "👩\u200d👧 emoji",
	"order", "limit", "offset", "select", "columns", "on_conflict", "all", "and", "or", "not.and", "eq.x", "not.eq", "asc", "null",
	"t", "w", "b", "r", "a", "excluded", "EXCLUDED", "json", "as", "pg_catalog", "fencegate",
	strings.Repeat("n", 63), strings.Repeat("N", 63), strings.Repeat("名", 21), strings.Repeat(`"`, 63),
}

// inQuery is a name as the query string may always have it.
func inQuery(name string) string {
	return escape(`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`)
}

// inPath is a name as one segment of a path. Nobody escapes dots, and paths of
// dots mean something.
func inPath(name string) string {
	if strings.Trim(name, ".") == "" {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

// namesSQL makes a table of each name, whose key has that name too.
func namesSQL() (string, []table) {
	tables := []table{}
	var sql strings.Builder
	sql.WriteString("CREATE SCHEMA names;\n")
	for i, name := range oddNames {
		fmt.Fprintf(&sql, "CREATE TABLE names.%[1]s (%[1]s text PRIMARY KEY, v text DEFAULT 'default');\n", ident(name))
		lock := fmt.Sprintf("names %d:{%s}", i, name)
		if strings.ContainsAny(name, "{}") {
			lock = fmt.Sprintf("names %d:K", i) // a template has no way to write such a column
		}
		tables = append(tables, table{"names", name, lock})
	}
	return sql.String(), tables
}

func TestNames(t *testing.T) {
	t.Parallel()
	sql, tables := namesSQL()
	w := build(t, sql, tables...)
	for i, name := range oddNames {
		t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
			t.Parallel()
			w.named(t, w.Acquire(t, fmt.Sprintf("names %d:K", i), 300_000), name)
		})
	}

	t.Run("ANameIsNotCutToTheOneThatPostgreSQLWouldFind", func(t *testing.T) {
		name := strings.Repeat("n", 63)
		l := w.Acquire(t, "any", 300_000)
		for _, path := range []string{name + "nnn", name + " ", name[:62], strings.ToUpper(name) + "N"} {
			refused(t, w.Do(t, testenv.Request{Path: "/rest/" + url.PathEscape(path)}), 404, "unknown_table", "PGRST205")
			refused(t, w.send(t, l, http.MethodPost, url.PathEscape(path), "", `{"v":"x"}`), 404, "unknown_table", "PGRST205")
		}
		for _, query := range []string{"select=" + name + "n", "order=" + name + "n", name + "n=eq.K"} {
			refused(t, w.Do(t, testenv.Request{Path: "/rest/" + name + "?" + query}), 422, "unknown_column", "42703")
		}
		refused(t, w.send(t, l, http.MethodPost, name, "", fmt.Sprintf(`{"%sn":"K"}`, name)), 422, "unknown_column", "PGRST204")
	})
}

// named writes and reads the table of this name through the column of this name,
// step by step.
func (w *world) named(t *testing.T, l testenv.Lease, name string) {
	t.Helper()
	column, member := inQuery(name), jsonText(name)
	row := func(v string) string { return fmt.Sprintf(`{%s:"K","v":%s}`, member, v) }
	key := fmt.Sprintf(`{%s:"K"}`, member)
	const get, post = http.MethodGet, http.MethodPost
	for _, step := range []struct{ method, query, prefer, body, answer, stored string }{
		{post, "select=v", full, row(`"1"`), `[{"v":"1"}]`, "K=1"},
		{patch, column + "=eq.K&select=v," + column, full, `{"v":"2"}`, `[{"v":"2",` + key[1:] + "]", "K=2"},
		{post, "select=*", full + "," + merge, "[" + row(`"3"`) + "]", "[" + row(`"3"`) + "]", "K=3"},
		{post, "columns=v," + column + "&on_conflict=" + column, merge, "[" + row("null") + "]", "", "K=NULL"},
		{get, "order=" + column + ".desc&or=(" + column + ".eq.K,v.eq.x)&select=alias:" + column, "", "", `[{"alias":"K"}]`, "K=NULL"},
		{get, column + "=in.(K)&select=" + column + "::text", "", "", "[" + key + "]", "K=NULL"},
		{get, "select=" + column + ":v", "", "", "[{" + member + ":null}]", "K=NULL"},
		{del, column + "=eq.K", full, "", "[" + row("null") + "]", null},
		{post, "columns=" + column, full, "[" + key + "]", "[" + row(`"default"`) + "]", "K=default"},
	} {
		answer := w.send(t, l, step.method, inPath(name)+"?"+step.query, step.prefer, step.body)
		if answer.Status >= http.StatusBadRequest || answer.Body != step.answer {
			t.Errorf("%s %s: %d %s, not %s", step.method, step.query, answer.Status, answer.Body, step.answer)
		}
		rows := w.rows(t, fmt.Sprintf(`SELECT string_agg(%[1]s || '=' || coalesce(v, 'NULL'), ' ') FROM names.%[1]s`, ident(name)))
		if got := rows[0][0]; got != step.stored {
			t.Errorf("%s %s: there is %q, not %q", step.method, step.query, got, step.stored)
		}
	}
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	var sql strings.Builder
	var tables []table
	var names []string
	for _, name := range oddNames {
		if strings.TrimSpace(name) != name || strings.ContainsAny(name, "\t\n") || strings.HasPrefix(name, "pg_") || name == "fencegate" {
			continue // no header carries it, or nobody can have it
		}
		names = append(names, name)
		fmt.Fprintf(&sql, "CREATE SCHEMA %[1]s; CREATE TABLE %[1]s.same (id text PRIMARY KEY, v text DEFAULT %[2]s);\n", ident(name), quote(name))
		tables = append(tables, table{name, "same", "same:{id}"})
	}
	w := build(t, sql.String(), tables...)
	l := w.Acquire(t, "same:K", 300_000)

	t.Run("EachTableOfOneNameIsReachedByItsSchema", func(t *testing.T) {
		for _, name := range names {
			h := l.Header()
			h.Set("Content-Profile", name)
			h.Set("Prefer", "return=representation")
			answer := w.Do(t, testenv.Request{Method: http.MethodPost, Path: "/rest/same", Header: h, Body: `{"id":"K"}`})
			if want := `[{"id":"K","v":` + jsonText(name) + `}]`; answer.Status != http.StatusCreated || answer.Body != want {
				t.Errorf("%q: %d %s", name, answer.Status, answer.Body)
			}
		}
		for _, name := range names {
			answer := w.Do(t, testenv.Request{Path: "/rest/same", Header: http.Header{"Accept-Profile": {name}}})
			if want := `[{"id":"K","v":` + jsonText(name) + `}]`; answer.Body != want {
				t.Errorf("%q is read as %d %s", name, answer.Status, answer.Body)
			}
			if got := w.text(t, "SELECT v FROM "+ident(name)+".same"); got != name {
				t.Errorf("%q holds %q", name, got)
			}
		}
	})

	t.Run("WithoutOneTheFirstIsMeant", func(t *testing.T) {
		answer := must(t, w.Do(t, testenv.Request{Path: "/rest/same?select=v"}))
		if want := `[{"v":` + jsonText(names[0]) + `}]`; answer.Body != want {
			t.Errorf("%s, not %s", answer.Body, want)
		}
	})

	t.Run("ASchemaThatIsNotConfiguredIsUnknown", func(t *testing.T) {
		for _, name := range []string{"public", "pg_catalog", "fencegate", "Plain", names[0] + ",select", `"plain"`} {
			answer := w.Do(t, testenv.Request{Path: "/rest/same", Header: http.Header{"Accept-Profile": {name}}})
			refused(t, answer, 406, "unknown_schema", "PGRST106")
		}
	})
}
