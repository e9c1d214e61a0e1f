package proxy

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"
)

// orders are requests as clients send them, for every door of a kiosk.
func orders() []order {
	const row, rows = `{"sku":"A","line":1,"n":2}`, `[{"sku":"A","line":1,"n":null},{"sku":"A","note":"x"},{}]`
	reads := []string{
		"", "sku=eq.A&n=gte.1&select=sku,n&order=sku.desc.nullslast&limit=5&offset=10", "select=x:doc->0->>b::text,*,%22q:%22:n", "order=doc->>b.desc",
		"or=(sku.eq.A,n.gt.2,and(note.is.null,not.or(day.in.(2026-01-01,%222026-02-02%22),note.not.like.*x*)))", "not.and=(note.eq.%22x,)%22,tags.cs.{1,2})",
		"note=like(any).{a*,b}", "words=fts(english).x", "n=not.eq(all).{1}", "span=adj.[1,2)", "doc->a->>b=eq.1", "raw->0=is.not_null", "%22odd,%20%5C%22name%5C%22%22=eq.x",
		"note=match.%5E.*%24", "tags=ov.{a}", "sku=in.(A,%22b,c%22,%22q%5C%22%22)", "select=count()", "select=stock(*)", "n=is.unknown", "b=eq.%5Cx00",
	}
	pinned := []string{"sku=eq.A", "sku=eq.A&line=eq.1", "sku=eq.A&or=(n.eq.1,n.is.null)", "n=eq.1", "sku=in.(A)&line=eq.1", "sku=eq.A&select=n,doc->>a&order=n", "all=true", "sku=eq.A&all=true"}
	list := []order{
		{door: 1, body: []byte(row), prefer: "return=representation", accept: singularMedia}, {door: 1, body: []byte(rows)},
		{door: 1, query: "columns=sku,line,n,note", body: []byte(rows), prefer: "missing=default"}, {door: 1, query: "columns=sku,n", body: []byte(rows)},
		{door: 1, query: "on_conflict=sku,line&select=n", body: []byte(row), prefer: "resolution=merge-duplicates,return=representation"},
		{door: 1, body: []byte(row), prefer: "resolution=ignore-duplicates, return=headers-only"}, {door: 1, body: []byte(`{"tags":["a",null],"b":"base64:AA==","doc":{"a":[1,{}]}}`)},
		{door: 3, query: "sku=eq.A&line=eq.1", body: []byte(row)}, {door: 3, query: "sku=eq.B&line=eq.1", body: []byte(row), prefer: "return=representation"},
		{door: 5, body: []byte(`[{"entry":"x"},{"n":1}]`), prefer: "max-affected=5"}, {door: 5, body: []byte(`{}`)}, {door: 8, body: []byte(`[{"sku":"A"},{"sku":"A","n":1}]`)},
		{door: 8, body: []byte(`{"sku":"A","token":1}`)}, {door: 8, body: []byte(`{"sku":"A"}`), prefer: "resolution=merge-duplicates"}, {door: 10, query: "sku=eq.A", body: []byte(`{"sku":"A"}`)},
		{door: 12, query: "sku=A&n=1"}, {door: 13, body: []byte(`{"sku":"A"}`)}, {door: 14, query: "sku=A"}, {door: 15, body: []byte(`{"sku":"A"}`), prefer: "tx=rollback,count=exact"},
	}
	for _, query := range reads {
		list = append(list, order{query: query, prefer: "count=exact"}, order{door: 2, query: "sku=eq.A&" + query, body: []byte(`{"n":1}`)}, order{door: 4, query: "sku=eq.A&" + query})
	}
	for _, query := range pinned {
		for _, door := range []uint8{2, 4, 6, 7, 9, 11} {
			list = append(list, order{door: door, query: query, body: []byte(`{"n":"2"}`), ifMatch: `"e", W/"w"`, prefer: "max-affected=1,handling=strict"})
		}
	}
	for _, operations := range []string{
		`{"op":"insert","table":"stock","rows":` + rows + `}`, `{"op":"upsert","table":"stock","on_conflict":["sku","line"],"rows":[` + row + `]}`,
		`{"op":"upsert","table":"jobs","resolution":"ignore-duplicates","rows":[{"sku":"A"}],"expect_rows":1}`, `{"op":"update","table":"jobs","where":{"sku":"eq.A"},"set":{"n":1}}`,
		`{"op":"update","table":"stock","where":{"sku":"eq.A","n":["gt.1","not.eq.2"],"or":"(note.is.null,doc->a->>b.eq.1)"},"set":{"note":"x"},"increment":{"n":1},"returning":["n","x:doc->>a"]}`,
		`{"op":"delete","table":"log","all":true},{"op":"delete","schema":"shop","table":"stock","where":{"sku":"eq.A"},"if_match":"*","max_rows":1}`,
		`{"op":"call","name":"lift","params":{"sku":"A"}},{"op":"call","name":"raise","params":{"sku":"A"},"expect_rows":1}`,
		`{"op":"delete","table":"stock","where":{"n":"eq.1"}}`, `{"op":"nope"}`, `{"op":"update","table":"stock","set":{"n":1},"increment":{"n":1}}`,
	} {
		for _, locks := range []string{`{"key":"stock:A","holder":"h","token":"1"}`, `{"key":"stock:A","holder":"h","token":"1"},{"key":"log","holder":"g","token":"2"}`, ``} {
			list = append(list, order{door: transactionsDoor, body: []byte(`{"locks":[` + locks + `],"operations":[` + operations + `],"dry_run":false}`)})
		}
	}
	return list
}

// FuzzRequest: whatever is asked of whichever door, it is refused as the
// caller's fault, or becomes statements that hold to the lock and have nothing
// of the caller's in their text.
func FuzzRequest(f *testing.F) {
	for _, o := range orders() {
		f.Add(o.door, o.query, o.prefer, o.accept, o.ifMatch, o.body)
	}
	k := openKiosk(f)
	f.Fuzz(func(t *testing.T, door uint8, query, prefer, accept, ifMatch string, body []byte) {
		k.try(t, order{door, query, prefer, accept, ifMatch, body})
	})
}

func (k *kiosk) try(t *testing.T, o order) []asked {
	t.Helper()
	given := slices.Clone(o.body)
	all, err := k.serve(o)
	if !slices.Equal(given, o.body) {
		t.Fatal("the body was changed")
	}
	if err != nil {
		mustBeRefused(t, o, err)
		return nil
	}
	for _, a := range all {
		k.check(t, o, a)
	}
	return all
}

// refusedByTypes are what PostgreSQL may find wrong with a statement before it
// is run: what the caller asked of a column isn't there for its type. Anything
// else would be the gateway's own mistake.
var refusedByTypes = []string{
	"42883", // no such operator
	"42804", // another type
	"42846", // no such cast
	"42P10", // no unique key on these columns
	"42P18", // no type for a value
	"42725", // several operators would do
	"42704", // no such type or text search configuration
}

// PostgreSQL takes every statement that a request can become: here it is asked.
func TestPostgreSQLReadsWhateverIsAccepted(t *testing.T) {
	t.Parallel()
	k := openKiosk(t)
	accepted := 0
	for _, o := range orders() {
		accepted += k.prepare(t, o)
	}
	if accepted < 100 {
		t.Errorf("only %d of the statements of real requests were accepted", accepted)
	}
	rapid.Check(t, func(r *rapid.T) { k.prepare(t, drawOrder(r)) })
}

func (k *kiosk) prepare(t *testing.T, o order) (accepted int) {
	t.Helper()
	conn, err := k.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, a := range k.try(t, o) {
		_, err := conn.Conn().PgConn().Prepare(t.Context(), "", a.SQL, nil)
		var pg *pgconn.PgError
		switch {
		case err == nil:
			accepted++
		case !errors.As(err, &pg) || !slices.Contains(refusedByTypes, pg.Code):
			t.Fatalf("%+v: %v\n%s", o, err, a.SQL)
		}
	}
	return accepted
}

// sketch puts a request together from what requests are made of.
type sketch struct{ *rapid.T }

func drawOrder(t *rapid.T) order {
	s := sketch{t}
	o := order{door: uint8(rapid.IntRange(0, 11).Draw(t, "door"))}
	door := kioskDoors[o.door]
	columns := map[string][]string{
		"stock": {"sku", "line", "n", "note", "doc", "raw", "tags", "b", "day", "span", "words", "doc->a", "doc->0->>b", `raw->>"x.y"`, `"odd, \"name\""`},
		"log":   {"entry", "n"}, "jobs": {"sku", "n"},
	}[door.target]
	var query []string
	switch door.method {
	case http.MethodGet:
		query = append(s.filters(columns), s.pick("page", "limit=1", "offset=2", "order="+s.pick("column", columns...)+s.pick("direction", "", ".desc", ".asc.nullsfirst")))
		o.prefer = s.pick("prefer", "", "count=exact")
	case http.MethodPost:
		query = []string{s.pick("listed", "", "", "columns=sku,n", "columns=entry,n")}
		o.prefer = s.pick("prefer", "", "resolution=merge-duplicates", "resolution=ignore-duplicates,return=representation", "missing=default", "return=headers-only")
	case http.MethodPut:
		query = []string{"sku=eq.A", s.pick("pin", "line=eq.1", "")}
	default:
		query = append(s.filters(columns), s.pick("pin", "sku=eq.A", "all=true"), s.pick("condition", "n=gt.0", "note=is.null", "entry=eq.x"))
		o.ifMatch = s.pick("if-match", "", "*", `"e"`)
	}
	if o.prefer == "" || rapid.Bool().Draw(t, "selecting") {
		query = append(query, "select="+s.pick("alias", "", "x:", `"'\":":`)+s.pick("column", columns...)+s.pick("cast", "", "::text", "::int"))
		o.prefer = strings.Trim(o.prefer+",return=representation", ",")
	}
	o.query = strings.ReplaceAll(strings.Join(query, "&"), ";", "%3B")
	o.accept = s.pick("accept", "", singularMedia)
	o.body = []byte(s.object(columns))
	if door.method == http.MethodPost && rapid.Bool().Draw(t, "array") {
		o.body = []byte("[" + s.object(columns) + "," + s.object(columns) + "]")
	}
	return o
}

func (s sketch) pick(what string, from ...string) string {
	return rapid.SampledFrom(from).Draw(s.T, what)
}

func (s sketch) filters(columns []string) (all []string) {
	for range rapid.IntRange(0, 2).Draw(s.T, "filters") {
		op, value := s.condition(false)
		all = append(all, s.pick("column", columns...)+"="+op+"."+value)
	}
	if rapid.Bool().Draw(s.T, "grouped") {
		part := func() string {
			op, value := s.condition(true)
			return s.pick("column", columns...) + "." + op + "." + value
		}
		all = append(all, s.pick("group", "or", "and", "not.or")+"=("+part()+","+s.pick("join", "and", "not.or")+"("+part()+","+part()+"))")
	}
	return all
}

func (s sketch) condition(grouped bool) (op, value string) {
	not := s.pick("not", "", "", "not.")
	switch s.pick("kind", "compare", "compare", "is", "in", "any", "special") {
	case "is":
		return not + "is", s.pick("is", "null", "not_null", "true", "unknown")
	case "in":
		return not + "in", s.pick("in", "(A,1)", `("a,b",2)`, "()")
	case "any":
		return not + s.pick("op", "eq", "lt", "like", "imatch") + s.pick("modifier", "(any)", "(all)"), s.pick("any", "{a,b}", "{}")
	case "special":
		op = s.pick("op", "cs", "cd", "ov", "sl", "sr", "nxr", "nxl", "adj", "fts", "plfts", "phfts", "wfts", "fts(english)")
	default:
		op = s.pick("op", "eq", "neq", "gt", "gte", "lt", "lte", "like", "ilike", "match", "imatch", "isdistinct")
	}
	value = s.pick("value", "A", "1", "null", "", "{a,b}", "[1,2)", "a,b", "2026-01-01", "*x*", `\x00`, "'; DROP TABLE shop.log --", "$1", "größe", "--")
	if grouped {
		value = strconv.Quote(value)
	}
	return not + op, value
}

// object has members for some of the columns, and for the primary key.
func (s sketch) object(columns []string) string {
	members := []string{`"n":` + s.pick("n", "1", "null", `"2"`, "1e400")}
	for _, column := range columns {
		if name := unquote(column); name == "sku" || name == "line" {
			members = append(members, `"`+name+`":`+map[string]string{"sku": `"A"`, "line": "1"}[name])
		} else if name != "n" && !strings.Contains(name, "->") && rapid.Bool().Draw(s.T, "given") {
			members = append(members, strconv.Quote(name)+":"+s.pick("json", `"A"`, "1", "null", `{"a":1}`, `["x"]`, `"base64:AA=="`))
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}
