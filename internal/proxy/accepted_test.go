package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/statement"
	"github.com/fencegate/fencegate/internal/testenv"
)

const acceptedSQL = `
CREATE SCHEMA shop;
CREATE TABLE shop.stock (sku text, line integer DEFAULT 0, n bigint, note text, doc jsonb, raw json, tags text[], b bytea,
	day date, span int4range, words tsvector, "odd, ""name""" text, PRIMARY KEY (sku, line));
CREATE TABLE shop.log (entry text, n integer);
CREATE TABLE shop.jobs (sku text PRIMARY KEY, n integer, token bigint);
CREATE FUNCTION shop.lift(sku text, n integer DEFAULT 1) RETURNS integer LANGUAGE sql AS $$ SELECT 1 $$;
`

// kiosk decodes requests and builds their statements, and goes no further.
type kiosk struct {
	server *Server
	tables *catalog.Snapshot
	pool   *pgxpool.Pool
	names  []string // that a statement may quote
}

func openKiosk(t testing.TB) *kiosk {
	t.Helper()
	db := testenv.Postgres(t)
	db.Exec(t, acceptedSQL)
	template := func(text string) lease.Template {
		lock, err := lease.ParseTemplate(text)
		if err != nil {
			t.Fatal(err)
		}
		return lock
	}
	k := &kiosk{pool: db.Pool(t), names: []string{"shop", "stock", "log", "jobs", "lift", "C"}}
	k.server = &Server{Config: Config{Limits: Limits{BodyBytes: 1 << 20, AnswerBytes: 1 << 20, Rows: 20, Filters: 10}}}
	var err error
	k.tables, err = catalog.Load(t.Context(), k.pool, catalog.Specs{
		Schemas: []string{"shop"},
		Tables: []catalog.Spec{
			{Schema: "shop", Name: "stock", Lock: template("stock:{sku}")},
			{Schema: "shop", Name: "log", Lock: template("log")},
			{Schema: "shop", Name: "jobs", Lock: template("stock:{sku}"), FenceColumn: "token"},
		},
		Routines: []catalog.RoutineSpec{
			{Schema: "shop", Name: "lift", Lock: template("stock:{sku}"), Expect: -1},
			{Name: "raise", Lock: template("stock:{sku}"), Text: []string{"SELECT ", "::text AS sku, 1 AS n"}, Uses: []string{"sku"},
				Declared: []catalog.ParamSpec{{Name: "sku", Type: "text"}}, Expect: -1},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"stock", "log", "jobs"} {
		table, _ := k.tables.Table("shop", name)
		for _, column := range table.Columns {
			k.names = append(k.names, column.Name)
		}
	}
	return k
}

// order is a request as a fuzzer makes one up.
type order struct {
	door                           uint8
	query, prefer, accept, ifMatch string
	body                           []byte
}

// The doors of a kiosk, by number: what they do, to what.
var kioskDoors = []struct {
	method, target string
}{
	{http.MethodGet, "stock"}, {http.MethodPost, "stock"}, {http.MethodPatch, "stock"}, {http.MethodPut, "stock"}, {http.MethodDelete, "stock"},
	{http.MethodPost, "log"}, {http.MethodPatch, "log"}, {http.MethodDelete, "log"},
	{http.MethodPost, "jobs"}, {http.MethodPatch, "jobs"}, {http.MethodPut, "jobs"}, {http.MethodDelete, "jobs"},
	{http.MethodGet, "rpc/lift"}, {http.MethodPost, "rpc/lift"}, {http.MethodGet, "rpc/raise"}, {http.MethodPost, "rpc/raise"},
	{http.MethodPost, "transactions"},
}

const transactionsDoor = 16

// asked is a statement and what it is made of: a mutation or a query.
type asked struct {
	statement.Statement
	mutation *statement.Mutation
}

// serve returns what a request becomes, or why it is refused.
func (k *kiosk) serve(o order) ([]asked, error) {
	door := kioskDoors[int(o.door)%len(kioskDoors)]
	r := &http.Request{Method: door.method, URL: &url.URL{Path: "/rest/" + door.target, RawQuery: o.query}, Body: gatheredOf(o.body, nil),
		Header: http.Header{"Content-Type": {"application/json"}}}
	for name, value := range map[string]string{"Prefer": o.prefer, "Accept": o.accept, "If-Match": o.ifMatch} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	if door.target == "transactions" {
		prefer, err := parsePrefer(r.Header)
		if err := cmp.Or(err, prefer.forTransaction()); err != nil {
			return nil, err
		}
		write, err := k.server.decodeTransaction(r, k.tables, prefer)
		if err != nil {
			return nil, err
		}
		return build(write.Mutations, write.Claims)
	}
	if door.method == http.MethodGet {
		return k.read(r, door.target)
	}
	r.Header.Set("Lock-Key", "stock:A")
	r.Header.Set("Lock-Holder", "h")
	r.Header.Set("Fencing-Token", "1")
	d, err := k.decoding(door.method, door.target)(r, k.tables)
	if err != nil {
		return nil, err
	}
	return build(d.Mutations, d.Claims)
}

func (k *kiosk) decoding(method, target string) decoding {
	ops := map[string]catalog.Operation{http.MethodPost: catalog.Insert, http.MethodPatch: catalog.Update, http.MethodDelete: catalog.Delete}
	routine, called := strings.CutPrefix(target, "rpc/")
	switch {
	case called:
		return k.server.call(routine)
	case method == http.MethodPut:
		return k.server.putInto(target)
	}
	return k.server.toTable(target, ops[method])
}

func (k *kiosk) read(r *http.Request, target string) ([]asked, error) {
	var d decodedRead
	var err error
	if routine, called := strings.CutPrefix(target, "rpc/"); called {
		d, err = k.server.decodeReadingCall(r, k.tables, routine)
	} else {
		d, err = k.server.decodeRead(r, k.tables, target)
	}
	if err != nil {
		return nil, err
	}
	s, err := statement.BuildQuery(d.Query)
	return []asked{{Statement: s}}, err
}

func build(mutations []statement.Mutation, claims []lease.Claim) (all []asked, err error) {
	for i := range mutations {
		statements, err := statement.Build(mutations[i], claims)
		if err != nil {
			return nil, err
		}
		for _, s := range statements {
			all = append(all, asked{s, &mutations[i]})
		}
	}
	return all, nil
}

// mustBeRefused: what is not accepted is the caller's fault, and told as that.
func mustBeRefused(t *testing.T, o order, err error) {
	t.Helper()
	f := faultOf(err)
	if errors.Is(err, statement.ErrNotPinned) {
		return // the gate makes a refusal of it
	}
	if f.status < 400 || f.status > 499 || f.detail == "" || f.slug == "" {
		t.Fatalf("%+v is answered with %+v, for %v", o, f, err)
	}
}

var (
	quotedName   = regexp.MustCompile(`"(?:[^"]|"")*"`)
	literal      = regexp.MustCompile(`E?'(?:[^']|'')*'`)
	placeholder  = regexp.MustCompile(`\$([0-9]+)`)
	plain        = regexp.MustCompile(`^[A-Za-z0-9_ \n$().,:=<>&|~!@*#+\-\[\]?]*$`)
	covering     = regexp.MustCompile(`\([^\n]*\) COLLATE pg_catalog\.Q = (\$[0-9]+::pg_catalog\.text|ANY \(\$[0-9]+::pg_catalog\.text\[\]\))`)
	literalsKept = []string{"stock:", ",", "log", "", "null", "{}", "}", "base64:", "base64"}
)

// check holds a statement to what every statement must be: made of the
// gateway's own words and the tables' names, and bound to the lock.
func (k *kiosk) check(t *testing.T, o order, a asked) {
	t.Helper()
	wrong := func(what string) { t.Fatalf("%s, of %+v:\n%s", what, o, a.SQL) }
	text := literal.ReplaceAllStringFunc(a.SQL, func(quoted string) string {
		inner := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(quoted, "E"), "'"), "'"), "''", "'")
		if !slices.Contains(literalsKept, inner) {
			wrong(fmt.Sprintf("the literal %s", quoted))
		}
		return "L"
	})
	text = quotedName.ReplaceAllStringFunc(text, func(quoted string) string {
		if name := strings.ReplaceAll(quoted[1:len(quoted)-1], `""`, `"`); !slices.Contains(k.names, name) {
			wrong(fmt.Sprintf("the name %s", quoted))
		}
		return "Q"
	})
	if !plain.MatchString(text) || strings.Contains(text, "--") {
		wrong("more than the gateway's own words")
	}
	used := map[int]bool{}
	for _, found := range placeholder.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(found[1])
		used[n] = true
	}
	if len(used) != len(a.Args) || len(used) > 0 && !used[len(a.Args)] {
		wrong(fmt.Sprintf("%d arguments", len(a.Args)))
	}
	if a.mutation != nil {
		checkBound(*a.mutation, text, wrong)
	}
}

// checkBound: every write checks its rows, and can only find rows that the lock
// covers.
func checkBound(m statement.Mutation, text string, wrong func(string)) {
	if strings.Count(text, "fencegate.check_rows(") != 1 {
		wrong("the rows are not checked")
	}
	answered := text[strings.LastIndex(text, "\nSELECT ")+1:]
	if !covering.MatchString(answered) {
		wrong("the lock is not compared")
	}
	switch {
	case m.Op == catalog.Insert && m.Upsert != nil && m.Upsert.Merge:
		_, update, _ := strings.Cut(text, "DO UPDATE SET")
		if _, condition, found := strings.Cut(update, "\n   WHERE fencegate.check_covered("); !found || !covering.MatchString(condition) {
			wrong("a row that is merged is not held to the lock")
		}
	case m.Op == catalog.Update, m.Op == catalog.Delete:
		_, after, _ := strings.Cut(text, "\n   WHERE ")
		conditions, _, found := strings.Cut(after, "\n  RETURNING ")
		last := strings.LastIndex(conditions, "\n     AND ")
		if !found || !covering.MatchString(conditions[last+1:]) || outside(conditions, " OR ") {
			wrong("a row that is found is not held to the lock")
		}
	}
	if m.Table != nil && m.Table.FenceColumn != "" && (m.Op != catalog.Insert || m.Upsert != nil && m.Upsert.Merge) && !strings.Contains(text, "fencegate.check_row_token(") {
		wrong("the row's token is not compared")
	}
}

// outside reports whether sep stands outside all parentheses, or these don't
// match.
func outside(text, sep string) bool {
	depth := 0
	for i := range text {
		switch {
		case text[i] == '(':
			depth++
		case text[i] == ')':
			depth--
		case depth == 0 && strings.HasPrefix(text[i:], sep):
			return true
		}
		if depth < 0 {
			return true
		}
	}
	return depth != 0
}
