package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
)

// kindsSQL adds tables with a column of every kind to the shop.
const kindsSQL = `
CREATE TABLE shop.kinds (
    id    text PRIMARY KEY,
    i2    smallint,
    i4    integer,
    i8    bigint,
    n     numeric,
    money numeric(12,2),
    f8    double precision,
    ok    boolean,
    c3    char(3),
    v3    varchar(3),
    bit3  bit(3),
    b     bytea,
    j     json,
    jb    jsonb,
    ta    text[],
    ia    integer[],
    d     date,
    ts    timestamptz,
    u     uuid,
    note  text DEFAULT 'default'
);
INSERT INTO shop.kinds (id) VALUES ('K');

CREATE TABLE shop.lines (
    id   text NOT NULL DEFAULT 'K',
    seq  bigint GENERATED ALWAYS AS IDENTITY,
    line integer,
    note text DEFAULT 'default',
    more integer DEFAULT 7
);

CREATE TABLE shop."Odd, ""name"".x" (
    id          text PRIMARY KEY,
    "a.b"       text DEFAULT 'dot',
    "a,b"       text DEFAULT 'comma',
    "quo""te"   text DEFAULT 'quote',
    "back\s"    text DEFAULT 'backslash',
    "two words" text DEFAULT 'space',
    "größe"     integer DEFAULT 1,
    "select"    text DEFAULT 'reserved',
    "or"        text DEFAULT 'or'
);
INSERT INTO shop."Odd, ""name"".x" (id) VALUES ('K'), ('a,b'), ('q"q'), ('b\s'), (''), ('(p)'), ('a b'), ('100%'), ('x&y=z'), ('null');
`

const kindsTables = `  - name: shop.kinds
    lock: "kind:{id}"
  - name: shop.lines
    lock: "kind:{id}"
  - name: {schema: shop, name: 'Odd, "name".x'}
    lock: "kind:{id}"
`

// startKinds starts a gateway on the shop and the tables of kindsSQL.
func startKinds(t *testing.T, config string) *testenv.Gateway {
	t.Helper()
	return startOn(t, kindsSQL, devstack.ShopTables+kindsTables, config)
}

// startOn starts a gateway that may do no more than it needs.
func startOn(t *testing.T, sql, tables, config string) *testenv.Gateway {
	t.Helper()
	return testenv.StartGateway(t, optionsOn(t, sql, testenv.GatewayOptions{Tables: tables, Config: config, OwnRole: true}))
}

// startAbove is startOn for sql with functions and triggers that use what no
// configuration names: the gateway is the superuser.
func startAbove(t *testing.T, sql, tables, config string) *testenv.Gateway {
	t.Helper()
	return testenv.StartGateway(t, optionsOn(t, sql, testenv.GatewayOptions{Tables: tables, Config: config}))
}

func optionsOn(t *testing.T, sql string, o testenv.GatewayOptions) testenv.GatewayOptions {
	t.Helper()
	o.Database = testenv.Shop(t)
	o.Database.Exec(t, sql)
	return o
}

// atOnce sends requests that don't depend on each other, some at a time: each that
// makes the gateway look at its tables waits up to 100 ms for that, and others can
// wait for the same look.
func atOnce(t *testing.T, g *testenv.Gateway, requests []testenv.Request, check func(testenv.Request, testenv.Response)) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(16)
	for _, q := range requests {
		group.Go(func() error {
			answer, err := g.Try(t, t.Context(), q)
			if err != nil {
				return fmt.Errorf("%s %s: %w", q.Method, q.Path, err)
			}
			check(q, answer)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// want is what a refused request must answer. Empty strings aren't compared.
type want struct {
	status    int
	slug      string
	code      string
	parameter string
	pointer   string
	column    string
}

// witness sees whether anything in the schema shop has changed.
type witness struct {
	pool   *pgxpool.Pool
	before string
}

func watch(t testing.TB, g *testenv.Gateway) *witness {
	t.Helper()
	w := &witness{pool: g.Database.Pool(t)}
	w.before = w.look(t)
	return w
}

func (w *witness) look(t testing.TB) string {
	t.Helper()
	const query = `
		SELECT string_agg(query_to_xml(format('SELECT x::text AS row FROM %I.%I AS x ORDER BY 1', schemaname, tablename),
		                               true, true, '')::text, '' ORDER BY tablename)
		  FROM pg_tables
		 WHERE schemaname = 'shop'`
	var all string
	if err := w.pool.QueryRow(t.Context(), query).Scan(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

func (w *witness) unchanged(t testing.TB) {
	t.Helper()
	if now := w.look(t); now != w.before {
		t.Errorf("something was written:\n%s\nnot\n%s", now, w.before)
	}
}

// refused sends q and checks the problem that it must meet, and that nothing
// was written.
func (w *witness) refused(t testing.TB, g *testenv.Gateway, q testenv.Request, want want) testenv.Problem {
	t.Helper()
	p := mustRefuse(t, g.Do(t, q), want)
	w.unchanged(t)
	return p
}

func mustRefuse(t testing.TB, answer testenv.Response, want want) testenv.Problem {
	t.Helper()
	p := answer.Problem(t)
	if answer.Status != want.status || p.Status != want.status || p.Slug() != want.slug {
		t.Errorf("%d %s, not %d %s: %s", answer.Status, p.Slug(), want.status, want.slug, answer.Body)
	}
	for _, member := range []struct{ name, got, want string }{
		{"code", p.Code, want.code}, {"parameter", p.Parameter, want.parameter},
		{"pointer", p.Pointer, want.pointer}, {"column", p.Column, want.column},
	} {
		if member.want != "" && member.got != member.want {
			t.Errorf("%s is %q, not %q: %s", member.name, member.got, member.want, answer.Body)
		}
	}
	if p.Outcome != "not_applied" || p.Detail == "" || p.Message != p.Detail || p.Title == "" || p.Code == "" {
		t.Errorf("the problem is not whole: %s", answer.Body)
	}
	if p.RequestID == "" || answer.Header.Get("Request-Id") != p.RequestID || answer.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("headers %v of %s", answer.Header, answer.Body)
	}
	if p.Retryable != (answer.Header.Get("Retry-After") != "") {
		t.Errorf("retryable is %t, Retry-After is %q", p.Retryable, answer.Header.Get("Retry-After"))
	}
	if fence := answer.Header.Get("Fencing-Refused"); (fence != "") != (answer.Status == http.StatusPreconditionFailed) {
		t.Errorf("%d with Fencing-Refused %q", answer.Status, fence)
	}
	if strings.Contains(answer.Body, `"details"`) {
		t.Errorf("PostgreSQL's DETAIL left the gateway: %s", answer.Body)
	}
	return p
}

// with returns l's headers and further ones, given as name, value, name, value…
func with(l testenv.Lease, more ...string) http.Header {
	h := l.Header()
	for i := 0; i < len(more); i += 2 {
		h.Add(more[i], more[i+1])
	}
	return h
}

func scalar[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	var value T
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// wire sends bytes that no HTTP client would, and returns the answer.
func wire(t testing.TB, g *testenv.Gateway, lines ...string) testenv.Response {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	method, _, _ := strings.Cut(lines[0], " ")
	text := lines[0] + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
	for _, header := range lines[1:] {
		text += header + "\r\n"
	}
	if _, err := conn.Write([]byte(text + "\r\n")); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	return whole(t, resp)
}

func whole(t testing.TB, resp *http.Response) testenv.Response {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return testenv.Response{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}
}

func exec(t testing.TB, g *testenv.Gateway, sql string) {
	t.Helper()
	g.Database.Exec(t, sql)
}

// sorted puts parts separated by | in order.
func sorted(list string) string {
	return strings.Join(slices.Sorted(strings.SplitSeq(list, "|")), "|")
}
