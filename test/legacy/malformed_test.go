package legacy_test

import (
	"fmt"
	"testing"
)

// malformed takes values that PostgreSQL refuses with an SQLSTATE that is not
// of values: a syntax error inside a document, a name of nothing, or, from
// hstore, none at all. Whatever the gateway calls it, nothing is written.
func malformed(t *testing.T, w *world) {
	for column, values := range map[string][]value{
		"tsvector":      texts("'a", "a:x"),
		"tsquery":       texts("a &", "( a", "!"),
		"jsonpath":      texts("", "$.[", "@"),
		"ltree":         texts("a..b", "."),
		"ltxtquery":     texts("x &"),
		"hstore":        texts("x", "a=>", "=>b"),
		"hstores":       pairs(`[{"a":"1"}]`, `{"{\"a\":\"1\"}"}`),
		"regclass":      texts("nope", "a.b.c.d", `"`),
		"regtype":       texts("nope", "int4 int4"),
		"regproc":       texts("nope"),
		"regprocedure":  texts("nope()"),
		"regoper":       texts("nope"),
		"regoperator":   texts("nope(int4,int4)"),
		"regnamespace":  texts("nope"),
		"regrole":       texts("nope"),
		"regconfig":     texts("nope"),
		"regdictionary": texts("nope"),
		"regcollation":  texts("nope"),
		"seg":           texts("x", "2 .. 1"),
		"lquery":        texts("a..b"),
	} {
		t.Run(column, func(t *testing.T) {
			t.Parallel()
			c := w.open(t, column, nil)
			c.rows(t, fmt.Sprintf("INSERT INTO legacy.wide (grp, id) VALUES (%s, 0)", quote(c.group)))
			before := c.content(t)
			for _, v := range values {
				if c.refusal(t, fmt.Sprintf("INSERT INTO legacy.mirror (grp, id, %s) VALUES (%s, 0, %s)", ident(column), quote(c.group), v.sql)) == nil {
					t.Errorf("PostgreSQL itself takes %s", v.sql)
				}
				for way, answer := range c.ways(t, v, true) {
					if p := answer.Problem(t); p.Outcome != "not_applied" || p.Retryable {
						t.Errorf("%s %s: %s", way, v.json, answer.Body)
					}
				}
			}
			if after := c.content(t); after != before {
				t.Errorf("there is %s, not %s", after, before)
			}
		})
	}
}
