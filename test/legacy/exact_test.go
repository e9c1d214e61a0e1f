package legacy_test

import (
	_ "embed"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

//go:embed types.sql
var typesSQL string

// value is one value: as a request carries it, and as PostgreSQL's own INSERT
// does.
type value struct {
	json string
	sql  string // a literal, quoted
}

// texts are values that travel as the string which is PostgreSQL's literal.
func texts(literals ...string) []value {
	values := make([]value, len(literals))
	for i, literal := range literals {
		values[i] = value{jsonText(literal), quote(literal)}
	}
	return values
}

// numbers are values that travel as numbers of JSON, and as strings.
func numbers(literals ...string) []value {
	var values []value
	for _, literal := range literals {
		values = append(values, value{literal, quote(literal)}, value{jsonText(literal), quote(literal)})
	}
	return values
}

// pairs are values of JSON's own form, each before its literal.
func pairs(jsonAndLiteral ...string) []value {
	var values []value
	for i := 0; i < len(jsonAndLiteral); i += 2 {
		values = append(values, value{jsonAndLiteral[i], quote(jsonAndLiteral[i+1])})
	}
	return values
}

func all(lists ...[]value) []value {
	var values []value
	for _, list := range lists {
		values = append(values, list...)
	}
	return values
}

var sqlNull = []value{{"null", "NULL"}}

// Where the rows of one group begin that came in one way.
const (
	bulk   = 0 // as the mirror has them
	single = 1000
)

// column is one column of legacy.wide, with rows in it that are one test's own.
type column struct {
	*world
	name   string
	group  string
	lease  testenv.Lease
	values []value
}

// open puts values into the mirror and takes the lock of their group.
func (w *world) open(t *testing.T, name string, values []value) *column {
	t.Helper()
	c := &column{world: w, name: name, group: t.Name(), values: values}
	c.lease = w.Acquire(t, "wide:"+c.group, 300_000)
	var insert strings.Builder
	for i, v := range values {
		fmt.Fprintf(&insert, "INSERT INTO legacy.mirror (grp, id, %s) VALUES (%s, %d, %s);\n", ident(name), quote(c.group), i, v.sql)
	}
	if _, err := w.try(t, insert.String()); err != nil {
		t.Fatalf("PostgreSQL itself refuses a value of %s: %v", name, err)
	}
	return c
}

// row is a row of the group as JSON.
func (c *column) row(id int, json string) string {
	return fmt.Sprintf(`{"grp":%s,"id":%d,%s:%s}`, jsonText(c.group), id, jsonText(c.name), json)
}

// batch is the values from the given one on as one body, in rows from begin on.
func (c *column) batch(begin, from int) string {
	var rows []string
	for i := from; i < len(c.values); i++ {
		rows = append(rows, c.row(begin+i, c.values[i].json))
	}
	return "[" + strings.Join(rows, ",") + "]"
}

// where is the query string that names the rows from begin on.
func (c *column) where(begin int) string {
	return fmt.Sprintf("wide?grp=eq.%s&id=gte.%d&id=lt.%d", escape(c.group), begin, begin+single)
}

func (c *column) post(t testing.TB, prefer, body string) testenv.Response {
	t.Helper()
	return c.send(t, c.lease, http.MethodPost, "wide", prefer, body)
}

// forget makes the values from begin on NULL, around the gateway.
func (c *column) forget(t testing.TB, begin int) {
	t.Helper()
	c.rows(t, fmt.Sprintf(`
		DELETE FROM legacy.wide WHERE grp = %[1]s AND id - %[2]d BETWEEN 0 AND 999;
		INSERT INTO legacy.wide (grp, id) SELECT grp, id + %[2]d FROM legacy.mirror WHERE grp = %[1]s`, quote(c.group), begin))
}

// same holds the rows from begin on against the mirror: their text, and the
// very bytes that PostgreSQL stores.
func (c *column) same(t testing.TB, begin int) {
	t.Helper()
	rows := c.rows(t, fmt.Sprintf(`
		SELECT m.id, w.%[1]s, m.%[1]s, w.id IS NOT NULL AND record_image_eq(ROW(w.%[1]s), ROW(m.%[1]s))
		  FROM legacy.mirror AS m
		  LEFT JOIN legacy.wide AS w ON w.grp = m.grp AND w.id = m.id + %[2]d
		 WHERE m.grp = %[3]s
		 ORDER BY m.id`, ident(c.name), begin, quote(c.group)))
	if len(rows) != len(c.values) {
		t.Fatalf("%d rows of %d", len(rows), len(c.values))
	}
	wrong := 0
	for i, row := range rows {
		if row[1] == row[2] && row[3] == "t" {
			continue
		}
		if wrong++; wrong < 4 {
			t.Errorf("%s is stored as %q, and PostgreSQL itself makes %q of it (the same bytes: %s)",
				shorten(c.values[i].json), shorten(row[1]), shorten(row[2]), row[3])
		}
	}
}

// exact writes values in every way that the gateway has and looks at what is
// stored; reads them, sends them back, and looks again; and finds each by eq.
func exact(t *testing.T, w *world, name string, values []value) {
	c := w.open(t, name, values)
	t.Run("BulkInsert", c.bulkInsert)
	t.Run("InsertAndUpdateOneByOne", c.alone)
	t.Run("Upsert", c.upsert)
	t.Run("SentBackAsRead", c.sendBack)
	t.Run("FoundByEq", c.findByEq)
	t.Run("DeletedByEq", c.deleteByEq)
}

func (c *column) bulkInsert(t *testing.T) {
	must(t, c.post(t, "", c.batch(bulk, 0)))
	c.same(t, bulk)
}

// alone writes up to a dozen values in a request each, inserts and updates by
// turns, and holds what the writes answer against what a read does.
func (c *column) alone(t *testing.T) {
	const dozen = 12
	c.forget(t, single)
	c.rows(t, fmt.Sprintf("DELETE FROM legacy.wide WHERE grp = %[1]s AND (id >= %[2]d AND id %% 2 = 0 OR id >= %[2]d + %[3]d)", quote(c.group), single, dozen))
	var answers []string
	send := func(method, path, body string) {
		answer := must(t, c.send(t, c.lease, method, path+"&select="+c.name, full, body))
		answers = append(answers, strings.TrimSuffix(strings.TrimPrefix(answer.Body, "["), "]"))
	}
	for i, v := range c.values[:min(dozen, len(c.values))] {
		if i%2 == 0 {
			send(http.MethodPost, "wide?", c.row(single+i, v.json))
		} else {
			send(http.MethodPatch, fmt.Sprintf("wide?grp=eq.%s&id=eq.%d", escape(c.group), single+i), "{"+jsonText(c.name)+":"+v.json+"}")
		}
	}
	if len(c.values) > dozen {
		send(http.MethodPost, "wide?", c.batch(single, dozen))
	}
	read := must(t, c.Do(t, testenv.Request{Path: "/rest/" + c.where(single) + "&order=id&select=" + c.name}))
	if want := "[" + strings.Join(answers, ",") + "]"; read.Body != want {
		t.Errorf("the writes answer %s, a read %s", shorten(want), shorten(read.Body))
	}
	c.same(t, single)
}

func (c *column) upsert(t *testing.T) {
	c.forget(t, bulk)
	must(t, c.post(t, "resolution=merge-duplicates", c.batch(bulk, 0)))
	c.same(t, bulk)
}

func (c *column) sendBack(t *testing.T) {
	read := must(t, c.Do(t, testenv.Request{Path: "/rest/" + c.where(bulk) + "&order=id&select=grp,id," + c.name}))
	c.forget(t, bulk)
	must(t, c.post(t, "resolution=merge-duplicates", read.Body))
	c.same(t, bulk)
}

// findByEq asks for some values by PostgreSQL's own text of them.
func (c *column) findByEq(t *testing.T) {
	texts := c.stored(t)
	for _, text := range texts[:min(8, len(texts))] {
		want, state := c.found(t, bulk, text)
		answer := c.Do(t, testenv.Request{Path: "/rest/" + c.where(bulk) + "&select=id&" + c.name + "=eq." + escape(text)})
		if state != "" {
			c.noEq(t, answer, state)
			continue
		}
		if got := ids(t, must(t, answer).Body); got != want {
			t.Errorf("eq.%s finds %q, PostgreSQL %q", shorten(text), got, want)
		}
	}
}

// deleteByEq goes by the connections that keep statements prepared, to which the
// type matters and not the value.
func (c *column) deleteByEq(t *testing.T) {
	texts := c.stored(t)
	for _, text := range texts[:1] {
		want, state := c.found(t, single, text)
		answer := c.send(t, c.lease, http.MethodDelete, c.where(single)+"&select=id&"+c.name+"=eq."+escape(text), "return=representation", "")
		if state != "" {
			c.noEq(t, answer, state)
			continue
		}
		if got := ids(t, must(t, answer).Body); got != want {
			t.Errorf("eq.%s deletes %q, PostgreSQL finds %q", shorten(text), got, want)
		}
	}
}

// stored is every text in the mirror that a URL can carry.
func (c *column) stored(t *testing.T) []string {
	t.Helper()
	rows := c.rows(t, fmt.Sprintf(`SELECT %s FROM legacy.mirror WHERE grp = %s ORDER BY id`, ident(c.name), quote(c.group)))
	seen := map[string]bool{null: true}
	var kept []string
	for _, text := range firsts(rows) {
		if !seen[text] && len(text) < 8<<10 {
			kept = append(kept, text)
		}
		seen[text] = true
	}
	return kept
}

// found is what PostgreSQL finds by =, or the SQLSTATE if the type has none. It
// takes a row for one of the column's type only if told so.
func (c *column) found(t *testing.T, begin int, text string) (ids, state string) {
	t.Helper()
	query := fmt.Sprintf(`SELECT id FROM legacy.wide WHERE grp = %s AND id - %d BETWEEN 0 AND 999 AND %s = %s`,
		quote(c.group), begin, ident(c.name), quote(text))
	rows, err := c.try(t, query)
	if stateOf(t, err) == "0A000" {
		typ := c.text(t, `SELECT format_type(atttypid, -1) FROM pg_attribute WHERE attrelid = 'legacy.wide'::regclass AND attname = `+quote(c.name))
		rows, err = c.try(t, query+"::"+typ)
	}
	return sorted(firsts(rows)), stateOf(t, err)
}

func (c *column) noEq(t *testing.T, answer testenv.Response, state string) {
	t.Helper()
	p := answer.Problem(t)
	if answer.Status != http.StatusUnprocessableEntity || p.Code != state {
		t.Errorf("PostgreSQL has no = here (%s); %d %s", state, answer.Status, answer.Body)
	}
}

func ids(t *testing.T, body string) string {
	t.Helper()
	var found []string
	for _, row := range members(t, body) {
		found = append(found, string(row["id"]))
	}
	return sorted(found)
}

// turnedAway sends values that PostgreSQL itself refuses: the gateway must too,
// for the same reason, naming what PostgreSQL names. The first is sent in every way, the others in one.
func turnedAway(t *testing.T, w *world, name string, values []value) {
	c := w.open(t, name, nil)
	c.rows(t, fmt.Sprintf("INSERT INTO legacy.wide (grp, id) VALUES (%s, 0)", quote(c.group)))
	before := c.content(t)
	for i, v := range values {
		why := c.refusal(t, fmt.Sprintf("INSERT INTO legacy.mirror (grp, id, %s) VALUES (%s, 0, %s)", ident(name), quote(c.group), v.sql))
		if why == nil {
			t.Errorf("PostgreSQL itself takes %s", v.sql)
			continue
		}
		for way, answer := range c.ways(t, v, i == 0) {
			p := answer.Problem(t)
			if answer.Status != http.StatusUnprocessableEntity || p.Code != why.Code || p.Column != why.ColumnName ||
				p.Constraint != why.ConstraintName || p.Outcome != "not_applied" {
				t.Errorf("%s %s: %d, not 422 as PostgreSQL has it (%+v): %s", way, shorten(v.json), answer.Status, why, shorten(answer.Body))
			}
		}
	}
	if after := c.content(t); after != before {
		t.Errorf("there is %s, not %s", after, before)
	}
}

func (c *column) ways(t *testing.T, v value, every bool) map[string]testenv.Response {
	t.Helper()
	answers := map[string]testenv.Response{"bulk insert": c.post(t, "", "["+c.row(1, "null")+","+c.row(2, v.json)+"]")}
	if every {
		path := "wide?id=eq.0&grp=eq." + escape(c.group)
		answers["insert"] = c.post(t, "", c.row(1, v.json))
		answers["upsert"] = c.post(t, "resolution=merge-duplicates", c.row(0, v.json))
		answers["update"] = c.send(t, c.lease, http.MethodPatch, path, "", "{"+jsonText(c.name)+":"+v.json+"}")
	}
	return answers
}

// content is the rows of the group, as they are stored.
func (c *column) content(t *testing.T) string {
	t.Helper()
	return c.text(t, "SELECT w FROM legacy.wide AS w WHERE grp = "+quote(c.group)+" ORDER BY id")
}
