package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestNoDoorIsOpenToThoseItIsNotFor(t *testing.T) {
	t.Parallel()
	p := startPeople(t, doorsSQL, doorsTables+doorsRoutines, "")
	w := watch(t, p.Gateway)
	h := hall{Gateway: p.as("worker"), witness: w,
		live: p.as("worker").Acquire(t, "stock:live", 300_000), fresh: p.as("worker").Acquire(t, "stock:fresh", 300_000), spare: p.as("worker").Acquire(t, "stock:spare", 300_000)}
	for _, d := range doors() {
		q := d.ask(d.target(), "live", "", h.locks(d, h.live)...)
		absent := d.ask("no_such_thing", "live", "", h.locks(d, h.live)...)
		t.Run("WithoutCredentials/"+d.name, func(t *testing.T) {
			w.refused(t, p.Gateway, q, want{status: 401, slug: "unauthenticated"})
		})
		t.Run("WithoutARole/"+d.name, func(t *testing.T) {
			answer := p.as("nobody").Do(t, q)
			missing := p.as("nobody").Do(t, absent)
			gone := answer.Status == http.StatusNotFound || answer.Status == http.StatusNotAcceptable && len(d.header) > 0 // a schema
			if !gone || anonymous(answer.Body) != anonymous(missing.Body) {
				t.Errorf("%d %s\nwhat is not there at all: %d %s", answer.Status, answer.Body, missing.Status, missing.Body)
			}
			w.unchanged(t)
		})
		if d.call != "" {
			continue // somebody of another tenant may call nothing
		}
		t.Run("UnderALockOfOthers/"+d.name, func(t *testing.T) {
			w.refused(t, p.as("tenant"), q, want{status: 403, slug: "lock_not_allowed"})
		})
		t.Run("BeyondItsOperations/"+d.name, func(t *testing.T) {
			if d.ops == "update" {
				return
			}
			denied := want{status: 403, slug: "forbidden"}
			if strings.Contains(d.query, "select=") {
				denied.slug = "column_not_allowed"
			}
			w.refused(t, p.as("blind"), q, denied)
		})
	}
	if n := scalar[int](t, w.pool, `SELECT count(*) FROM fencegate.refusals`); n != 0 {
		t.Errorf("%d refusals by the fence are on record", n)
	}
	for _, d := range doors() {
		t.Run("ByTheOneItIsFor/"+d.name, func(t *testing.T) { h.underItsOwnLock(t, d) })
	}
}

// columnCase is what somebody with the columns of a role asks for. what must
// be answered is a status and a slug, and the column at fault.
type columnCase struct {
	method, path, body string
	header             []string
	want               want
}

func TestColumnsAreForThoseWhoMayUseThem(t *testing.T) {
	t.Parallel()
	p := startPeople(t, doorsSQL, doorsTables+doorsRoutines, "")
	w := watch(t, p.Gateway)
	l := p.as("narrow").Acquire(t, "stock:live", 300_000)
	notThere := func(column string) want { return want{status: 422, slug: "unknown_column", column: column} }
	denied := func(column string) want {
		return want{status: 403, slug: "column_not_allowed", code: "42501", column: column}
	}
	const row = "/rest/stock?sku=eq.live&line=eq.0"
	representation := []string{"Prefer", "return=representation"}
	transaction := func(operation string) string { return `{"locks":[` + l.Claim() + `],"operations":[` + operation + `]}` }
	const where = `"table":"stock","where":{"sku":"eq.live","line":"eq.0"}`
	for name, c := range map[string]columnCase{
		"ReadHidden":            {path: row + "&select=n", want: notThere("n")},
		"ReadHiddenByAPath":     {path: row + "&select=n->x", want: notThere("n")},
		"ReadHiddenByACast":     {path: row + "&select=n::text", want: notThere("n")},
		"ReadHiddenByAnAlias":   {path: row + "&select=*,x:n", want: notThere("n")},
		"ReadWritable":          {path: row + "&select=note", want: denied("note")},
		"FilterByHidden":        {path: row + "&n=eq.0", want: notThere("n")},
		"FilterByHiddenNested":  {path: row + "&or=(sku.eq.x,and(n.eq.0,line.eq.0))", want: notThere("n")},
		"FilterByWritable":      {path: row + "&note=is.null", want: denied("note")},
		"OrderByHidden":         {path: row + "&order=n", want: notThere("n")},
		"OrderByWritable":       {path: row + "&order=note.desc", want: denied("note")},
		"SetHidden":             {method: "PATCH", path: row, body: `{"n":1}`, want: notThere("n")},
		"SetReadable":           {method: "PATCH", path: row, body: `{"line":1}`, want: denied("line")},
		"SetBoth":               {method: "PATCH", path: row, body: `{"note":"x","n":1}`, want: notThere("n")},
		"ReturnHidden":          {method: "PATCH", path: row + "&select=n", body: `{"note":"x"}`, header: representation, want: notThere("n")},
		"ReturnHiddenUnasked":   {method: "PATCH", path: row + "&select=n", body: `{"note":"x"}`, want: notThere("n")},
		"IfMatch":               {method: "PATCH", path: row, body: `{"note":"x"}`, header: []string{"If-Match", `"abc"`}, want: want{status: 403, slug: "column_not_allowed", parameter: "If-Match"}},
		"UpdateFilterByHidden":  {method: "PATCH", path: row + "&n=eq.0", body: `{"note":"x"}`, want: notThere("n")},
		"Insert":                {method: "POST", path: "/rest/stock", body: `{"sku":"live","line":9,"note":"x"}`, want: want{status: 403, slug: "forbidden"}},
		"Upsert":                {method: "POST", path: "/rest/stock", body: `{"sku":"live","line":0,"note":"x"}`, header: []string{"Prefer", "resolution=merge-duplicates"}, want: want{status: 403, slug: "forbidden"}},
		"Put":                   {method: "PUT", path: row, body: `{"sku":"live","line":0,"note":"x"}`, want: want{status: 403, slug: "forbidden"}},
		"Delete":                {method: "DELETE", path: row, want: want{status: 403, slug: "forbidden"}},
		"TransactionSet":        {method: "POST", path: "/v1/transactions", body: transaction(`{"op":"update",` + where + `,"set":{"n":1}}`), want: notThere("n")},
		"TransactionIncrement":  {method: "POST", path: "/v1/transactions", body: transaction(`{"op":"update",` + where + `,"increment":{"n":1}}`), want: notThere("n")},
		"TransactionReturning":  {method: "POST", path: "/v1/transactions", body: transaction(`{"op":"update",` + where + `,"set":{"note":"x"},"returning":["n"]}`), want: notThere("n")},
		"TransactionWhere":      {method: "POST", path: "/v1/transactions", body: transaction(`{"op":"update","table":"stock","where":{"sku":"eq.live","n":"eq.0"},"set":{"note":"x"}}`), want: notThere("n")},
		"TransactionGuardFirst": {method: "POST", path: "/v1/transactions", body: transaction(`{"op":"update",` + where + `,"set":{"note":"x"}},{"op":"update",` + where + `,"set":{"n":1}}`), want: notThere("n")},
		"TransactionInsert":     {method: "POST", path: "/v1/transactions", body: transaction(`{"op":"insert","table":"stock","rows":[{"sku":"live","line":9}]}`), want: want{status: 403, slug: "forbidden"}},
	} {
		t.Run(name, func(t *testing.T) {
			q := testenv.Request{Method: c.method, Path: c.path, Body: c.body, Header: with(l, c.header...)}
			if c.path == "/v1/transactions" {
				q.Header = http.Header{}
			}
			w.refused(t, p.as("narrow"), q, c.want)
			if c.want.slug != "unknown_column" {
				return
			}
			absent := q
			swap := strings.NewReplacer(`"n"`, `"q"`, "=n", "=q", "&n", "&q", ":n", ":q", "(n", "(q")
			absent.Path, absent.Body = swap.Replace(q.Path), swap.Replace(q.Body)
			missing := strings.ReplaceAll(anonymous(p.as("narrow").Do(t, absent).Body), "q", "n")
			if got := strings.ReplaceAll(anonymous(p.as("narrow").Do(t, q).Body), "q", "n"); got != missing {
				t.Errorf("the hidden column is told apart:\n%s\n%s", got, missing)
			}
		})
	}

	blind := p.as("blind")
	for _, path := range []string{row + "&select=sku", row} {
		w.refused(t, blind, testenv.Request{Path: path}, want{status: 403, slug: "forbidden"})
	}
	w.refused(t, blind, testenv.Request{Method: "PATCH", Path: row, Body: `{"note":"x"}`, Header: with(l, representation...)}, want{status: 403, slug: "forbidden"})
	w.refused(t, blind, testenv.Request{Method: "PATCH", Path: row + "&note=eq.y", Body: `{"note":"x"}`, Header: l.Header()}, denied("note"))

	rows := p.as("narrow").Do(t, testenv.Request{Path: row})
	if rows.Status != http.StatusOK || rows.Body != `[{"sku":"live","line":0}]` {
		t.Errorf("all that may be read is %d %s", rows.Status, rows.Body)
	}
	starred := p.as("narrow").Do(t, testenv.Request{Path: row + "&select=n:sku,*"})
	if starred.Status != http.StatusOK || starred.Body != `[{"n":"live","sku":"live","line":0}]` {
		t.Errorf("* and an alias are %d %s", starred.Status, starred.Body)
	}
	single := p.as("narrow").Do(t, testenv.Request{Path: row, Header: http.Header{"Accept": {object}}})
	if single.Status != http.StatusOK || single.Header.Get("ETag") != "" {
		t.Errorf("one object is %d, ETag %q", single.Status, single.Header.Get("ETag"))
	}
	written := p.as("narrow").Do(t, testenv.Request{Method: "PATCH", Path: row, Body: `{"note":"seen"}`, Header: with(l, representation...)})
	if written.Status != http.StatusOK || written.Body != `[{"sku":"live","line":0}]` {
		t.Errorf("a write returns %d %s", written.Status, written.Body)
	}
	if answer := blind.Do(t, testenv.Request{Method: "PATCH", Path: row, Body: `{"note":"blindly"}`, Header: l.Header()}); answer.Status != http.StatusNoContent {
		t.Errorf("a write without reading: %d %s", answer.Status, answer.Body)
	}
	if note := scalar[string](t, w.pool, `SELECT note FROM shop.stock WHERE sku = 'live'`); note != "blindly" {
		t.Errorf("the note is %q", note)
	}
}

func TestRecordsAreTheirOwners(t *testing.T) {
	t.Parallel()
	p := startPeople(t, doorsSQL, doorsTables+doorsRoutines, "")
	l := p.as("worker").Acquire(t, "stock:live", 300_000)
	mine := p.refusalOf(t, "worker", l)
	theirs := p.refusalOf(t, "second", l)

	for name, ids := range map[string][]string{"worker": {mine}, "second": {theirs}, "tenant": nil, "nobody": nil, "operator": {theirs, mine}} {
		var got []string
		for _, r := range listed(t, p.as(name), "") {
			got = append(got, r.ID)
		}
		if strings.Join(got, " ") != strings.Join(ids, " ") {
			t.Errorf("%s sees the records %v, want %v", name, got, ids)
		}
		exported := p.as(name).Do(t, testenv.Request{Path: "/v1/refusals", Header: http.Header{"Accept": {"application/x-ndjson"}}})
		if n := strings.Count(exported.Body, "\n"); n != len(ids) {
			t.Errorf("%s exports %d records of %d", name, n, len(ids))
		}
	}
	stranger := p.as("worker").Do(t, testenv.Request{Path: "/v1/refusals/" + theirs})
	nothing := p.as("worker").Do(t, testenv.Request{Path: "/v1/refusals/999999"})
	if stranger.Status != http.StatusNotFound || anonymous(stranger.Body) != anonymous(nothing.Body) {
		t.Errorf("another's record: %d %s\nnone at all: %s", stranger.Status, stranger.Body, nothing.Body)
	}
	mustRefuse(t, p.as("worker").Do(t, testenv.Request{Path: "/v1/refusals?principal=second"}), want{status: 403, slug: "forbidden"})
	mustRefuse(t, p.as("worker").Do(t, testenv.Request{Path: "/v1/refusals/stream?principal=second"}), want{status: 403, slug: "forbidden"})

	var state struct {
		Live bool
		Mark *struct{ Token string }
	}
	p.as("second").Do(t, testenv.Request{Path: "/v1/leases?key=stock:live"}).JSON(t, &state)
	if !state.Live || state.Mark != nil {
		t.Errorf("a worker sees of another's lease %+v", state)
	}
	p.as("operator").Do(t, testenv.Request{Path: "/v1/leases?key=stock:live"}).JSON(t, &state)
	if state.Mark == nil || state.Mark.Token != l.Token {
		t.Errorf("an administrator sees %+v", state)
	}
	for name, count := range map[string]int{"worker": 1, "tenant": 0, "nobody": 0, "operator": 1} {
		var page struct{ Leases []any }
		p.as(name).Do(t, testenv.Request{Path: "/v1/leases"}).JSON(t, &page)
		if len(page.Leases) != count {
			t.Errorf("%s lists %d leases, want %d", name, len(page.Leases), count)
		}
	}
}

func TestNobodySendsMoreThanTheyMay(t *testing.T) {
	t.Parallel()
	p := startPeople(t, doorsSQL, doorsTables+doorsRoutines, "")
	slow := p.as("slow")
	ask := testenv.Request{Path: "/rest/stock?sku=eq.live"}
	var throttled testenv.Response
	for range 10 {
		answer := slow.Do(t, ask)
		if policy := answer.Header.Get("RateLimit-Policy"); policy != `"principal";q=1;w=1` || answer.Header.Get("RateLimit") == "" {
			t.Errorf("RateLimit-Policy %q, RateLimit %q", policy, answer.Header.Get("RateLimit"))
		}
		if answer.Status == http.StatusTooManyRequests {
			throttled = answer
			break
		}
	}
	if throttled.Status == 0 {
		t.Fatal("ten requests in a row kept a pace of one a second")
	}
	mustRefuse(t, throttled, want{status: 429, slug: "rate_limited"})
	if answer := p.as("worker").Do(t, ask); answer.Status != http.StatusOK || answer.Header.Get("RateLimit") != "" {
		t.Errorf("somebody else: %d, RateLimit %q", answer.Status, answer.Header.Get("RateLimit"))
	}
}

func TestAPageOfLeasesTellsNoKeyOfOthers(t *testing.T) {
	t.Parallel()
	p := startPeople(t, doorsSQL, doorsTables+doorsRoutines, "")
	p.as("worker").Acquire(t, "stock:live", 300_000)
	for _, key := range []string{"tenant:acme:1", "tenant:acme:2"} {
		p.as("tenant").Acquire(t, key, 300_000)
	}
	p.as("worker").Acquire(t, "stock:there", 300_000)
	for name, want := range map[string]string{"worker": "stock:live stock:there", "tenant": "tenant:acme:1 tenant:acme:2", "nobody": ""} {
		var got []string
		for cursor, pages := "", 0; pages < 10; pages++ {
			answer := p.as(name).Do(t, testenv.Request{Path: "/v1/leases?limit=1" + cursor})
			var page struct {
				Leases []struct{ Key string }
				Next   string `json:"next_cursor"`
			}
			answer.JSON(t, &page)
			for _, l := range page.Leases {
				got = append(got, l.Key)
			}
			if page.Next == "" {
				break
			}
			if !strings.Contains(want, page.Next) {
				t.Errorf("%s is told another's key: %s", name, answer.Body)
			}
			cursor = "&cursor=" + page.Next
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s lists %q, not %q", name, got, want)
		}
	}
}

func TestAnIncrementDoesNotTellWhatMayNotBeRead(t *testing.T) {
	t.Parallel()
	p := startPeople(t, doorsSQL, doorsTables+doorsRoutines, "")
	l := p.as("adder").Acquire(t, "stock:live", 300_000)
	p.Database.Exec(t, `UPDATE shop.stock SET n = 1000 WHERE sku = 'live'`)
	for _, delta := range []int{1, 2147482647, 2147482648} { // the last one would overflow
		answer := p.as("adder").Do(t, testenv.Request{Method: "POST", Path: "/v1/transactions", Body: fmt.Sprintf(
			`{"dry_run":true,"locks":[%s],"operations":[{"op":"update","table":"stock","where":{"sku":"eq.live"},"increment":{"n":%d}}]}`, l.Claim(), delta)})
		mustRefuse(t, answer, want{status: 403, slug: "column_not_allowed", column: "n"})
	}
}
