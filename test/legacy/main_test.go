// Package legacy_test writes a wide old schema through a gateway and looks at
// what PostgreSQL then has: every type, every kind of relation, odd names. What
// is expected is what PostgreSQL itself makes of the same values.
package legacy_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	testenv.Stop()
	os.Exit(code)
}

// world is a gateway and a way to its database that goes around it.
type world struct {
	*testenv.Gateway
	pool *pgxpool.Pool
}

// limits let a whole book be one value.
const limits = "limits: {max_body_bytes: 16MiB, max_answer_bytes: 64MiB}\n"

// table is one item of the configuration's tables.
type table struct{ schema, name, lock string }

// build starts a gateway on a database with sql in it.
func build(t *testing.T, sql string, tables ...table) *world {
	t.Helper()
	db := testenv.Postgres(t)
	pool := db.Pool(t)
	needExtensions(t, pool)
	db.Exec(t, sql)
	return &world{
		Gateway: testenv.StartGateway(t, testenv.GatewayOptions{Database: db, Tables: yaml(tables), Config: limits}),
		pool:    pool,
	}
}

func yaml(tables []table) string {
	var b strings.Builder
	b.WriteString("tables:\n")
	for _, table := range tables {
		fmt.Fprintf(&b, "  - {name: {schema: %s, name: %s}, lock: %s}\n", jsonText(table.schema), jsonText(table.name), jsonText(table.lock))
	}
	return b.String()
}

// needExtensions ends the test if PostgreSQL lacks one that the schema needs:
// to pass without would say that a type works that nobody has looked at.
func needExtensions(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	const query = `
		SELECT coalesce(string_agg(name, ', '), '')
		  FROM unnest('{citext,cube,hstore,isn,lo,ltree,pg_trgm,seg}'::text[]) AS name
		 WHERE name NOT IN (SELECT name FROM pg_available_extensions)`
	var missing string
	if err := pool.QueryRow(t.Context(), query).Scan(&missing); err != nil {
		t.Fatal(err)
	}
	if missing != "" {
		t.Fatalf("this PostgreSQL lacks the extensions %s: install its contrib package", missing)
	}
}

// quote is text as a literal of SQL.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

func ident(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// null is how rows and text show NULL: no text of PostgreSQL's holds it.
const null = "\x00NULL"

// rows runs SQL in the simple protocol and returns PostgreSQL's own text of
// what its last statement answers.
func (w *world) rows(t testing.TB, sql string) [][]string {
	t.Helper()
	rows, err := w.try(t, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return rows
}

func (w *world) try(t testing.TB, sql string) ([][]string, error) {
	t.Helper()
	conn, err := w.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	results, err := conn.Conn().PgConn().Exec(t.Context(), sql).ReadAll()
	if err != nil || len(results) == 0 {
		return nil, err
	}
	var rows [][]string
	for _, raw := range results[len(results)-1].Rows {
		row := make([]string, len(raw))
		for i, cell := range raw {
			if row[i] = string(cell); cell == nil {
				row[i] = null
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// text is the one column of the answer to sql, its rows joined by lines.
func (w *world) text(t testing.TB, sql string) string {
	t.Helper()
	return strings.Join(firsts(w.rows(t, sql)), "\n")
}

func firsts(rows [][]string) []string {
	texts := make([]string, len(rows))
	for i, row := range rows {
		texts[i] = row[0]
	}
	return texts
}

// refusal is what PostgreSQL refuses sql with, nil if it does not. Nothing of sql
// stays.
func (w *world) refusal(t testing.TB, sql string) *pgconn.PgError {
	t.Helper()
	conn, err := w.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	_, err = conn.Conn().PgConn().Exec(t.Context(), "BEGIN;"+sql).ReadAll()
	if _, end := conn.Conn().PgConn().Exec(t.Context(), "ROLLBACK").ReadAll(); end != nil {
		t.Fatal(end)
	}
	var pg *pgconn.PgError
	if err != nil && !errors.As(err, &pg) {
		t.Fatal(err)
	}
	return pg
}

// stateOf is the SQLSTATE of an error of PostgreSQL's, "" of none.
func stateOf(t testing.TB, err error) string {
	t.Helper()
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &pg):
		t.Fatal(err)
	}
	return pg.Code
}

// send sends one request with what a write needs; prefer "" prefers nothing.
func (w *world) send(t testing.TB, l testenv.Lease, method, path, prefer, body string) testenv.Response {
	t.Helper()
	h := l.Header()
	if prefer != "" {
		h.Set("Prefer", prefer)
	}
	return w.Do(t, testenv.Request{Method: method, Path: "/rest/" + path, Header: h, Body: body})
}

// must ends the test unless the answer is a success.
func must(t testing.TB, answer testenv.Response) testenv.Response {
	t.Helper()
	if answer.Status >= http.StatusBadRequest {
		t.Fatalf("%d %s", answer.Status, answer.Body)
	}
	return answer
}

// refused checks that the answer is this problem, and that nothing was applied.
func refused(t testing.TB, answer testenv.Response, status int, slug, code string) testenv.Problem {
	t.Helper()
	p := answer.Problem(t)
	if answer.Status != status || p.Slug() != slug || p.Code != code || p.Outcome != "not_applied" {
		t.Errorf("%d %s, not %d %s %s: %s", answer.Status, p.Slug(), status, slug, code, shorten(answer.Body))
	}
	return p
}

// members cuts a JSON object or array of objects into its values' own text.
func members(t testing.TB, body string) []map[string]json.RawMessage {
	t.Helper()
	var rows []map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &rows); err != nil {
		t.Fatalf("decoding %s: %v", shorten(body), err)
	}
	return rows
}

func shorten(text string) string {
	if len(text) > 300 {
		return fmt.Sprintf("%s… (%d bytes)", text[:300], len(text))
	}
	return text
}

// jsonText is text as a JSON string, every character as it is where it can be.
func jsonText(text string) string {
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		panic(err) // only of text that is no UTF-8
	}
	return string(quoted)
}

func escape(text string) string { return url.QueryEscape(text) }

func sorted(texts []string) string { return strings.Join(slices.Sorted(slices.Values(texts)), " ") }
