package proxy_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/testenv"
)

// loose is observed and strict is not; both are under the locks of sku.
const observeSQL = `
CREATE TABLE shop.strict (sku text, line integer DEFAULT 0, n integer DEFAULT 0, PRIMARY KEY (sku, line));
CREATE TABLE shop.loose (LIKE shop.strict INCLUDING ALL, CHECK (n < 100), parent text,
    CONSTRAINT loose_parent FOREIGN KEY (parent, line) REFERENCES shop.strict DEFERRABLE INITIALLY DEFERRED);
INSERT INTO shop.strict (sku) VALUES ('A'), ('B');
INSERT INTO shop.loose (sku, line) VALUES ('A', 0), ('A', 1), ('B', 0);
CREATE TABLE shop.tasks (id text PRIMARY KEY, n integer, token bigint);
INSERT INTO shop.tasks VALUES ('A', 0, 50), ('B', 0, NULL);
`

const observeTables = `tables:
  - {name: shop.strict, lock: "item:{sku}"}
  - {name: shop.loose, lock: "item:{sku}", mode: observe, record_payload: true}
  - {name: shop.tasks, lock: "task:{id}", mode: observe, fence_column: token}
`

func startObserving(t *testing.T, config string) (*testenv.Gateway, *pgxpool.Pool) {
	t.Helper()
	g := startOn(t, observeSQL, observeTables, config)
	return g, g.Database.Pool(t)
}

// observed sends q, which must be applied, and returns what it is observed for.
func observed(t *testing.T, g *testenv.Gateway, q testenv.Request) string {
	t.Helper()
	answer := g.Do(t, q)
	if answer.Status >= 300 {
		t.Fatalf("%s %s: %d %s", q.Method, q.Path, answer.Status, answer.Body)
	}
	return answer.Header.Get("Fencing-Observed")
}

func patching(path, body string, h http.Header) testenv.Request {
	return testenv.Request{Method: http.MethodPatch, Path: "/rest/" + path, Header: h, Body: body}
}

// superseded is a lease of key and the one that followed it.
func superseded(t *testing.T, g *testenv.Gateway, key string) (old, now testenv.Lease) {
	t.Helper()
	old = g.Acquire(t, key, 300_000)
	g.Release(t, old)
	return old, g.Acquire(t, key, 300_000)
}

func TestWhatIsObservedMovesNoMark(t *testing.T) {
	t.Parallel()
	g, _ := startObserving(t, "")
	old, now := superseded(t, g, "item:A")
	if code := observed(t, g, patching("loose?sku=eq.A", `{"n":1}`, old.Header())); code != "stale_token" {
		t.Errorf("observed for %q", code)
	}
	if code := observed(t, g, patching("loose?sku=eq.A", `{"n":2}`, forged("item:A", now.Holder, "9223372036854775807").Header())); code != "token_not_granted" {
		t.Errorf("observed for %q", code)
	}
	for _, table := range []string{"strict", "loose"} {
		if code := observed(t, g, patching(table+"?sku=eq.A", `{"n":3}`, now.Header())); code != "" {
			t.Errorf("the holder's write to %s is observed for %q", table, code)
		}
	}
	mustRefuse(t, g.Do(t, patching("strict?sku=eq.A", `{"n":4}`, old.Header())), want{status: 412, slug: "stale_token"})
	if next := g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/v1/leases/release", Body: now.Claim()}); next.Status != http.StatusOK {
		t.Fatal(next.Body)
	}
	if l := g.Acquire(t, "item:A", 60_000); l.Token != "3" {
		t.Errorf("the next token is %s", l.Token)
	}
}

func TestOneEnforcedTableEnforcesTheWholeTransaction(t *testing.T) {
	t.Parallel()
	g, _ := startObserving(t, "")
	w := watch(t, g)
	old, now := superseded(t, g, "item:A")
	both := `"operations":[{"op":"update","table":"loose","where":{"sku":"eq.A"},"set":{"n":7}},{"op":"update","table":"strict","where":{"sku":"eq.A"},"set":{"n":7}}]}`
	run := func(locks string) testenv.Request {
		return testenv.Request{Method: http.MethodPost, Path: "/v1/transactions", Body: `{` + locks + both, Broken: strings.Contains(locks, `"x"`)}
	}
	w.refused(t, g, run(""), want{status: 428, slug: "fencing_required"})
	w.refused(t, g, run(`"locks":[{"key":"item:A","holder":"h","token":"x"}],`), want{status: 400, slug: "fencing_malformed"})
	w.refused(t, g, run(`"locks":[`+old.Claim()+`],`), want{status: 412, slug: "stale_token"})
	other := g.Acquire(t, "item:B", 60_000)
	w.refused(t, g, run(`"locks":[`+other.Claim()+`],`), want{status: 403, slug: "lock_scope"})
	for _, r := range listed(t, g, "") {
		if r.Disposition != "refused" {
			t.Errorf("recorded as %+v", r)
		}
	}
	if code := observed(t, g, run(`"locks":[`+now.Claim()+`],`)); code != "" {
		t.Errorf("under the right lock it is observed for %q", code)
	}
}

func TestEachLockThatFailsIsRecorded(t *testing.T) {
	t.Parallel()
	g, _ := startObserving(t, "")
	a, _ := superseded(t, g, "item:A")
	b := g.Acquire(t, "item:B", 60_000)
	g.Release(t, b)
	c := g.Acquire(t, "item:C", 60_000)
	answer := g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/v1/transactions",
		Body: `{"locks":[` + b.Claim() + `,` + c.Claim() + `,` + a.Claim() + `],"operations":[
			{"op":"update","table":"loose","where":{"sku":"eq.A"},"set":{"n":7}},{"op":"insert","table":"loose","rows":[{"sku":"C"}]}]}`})
	if answer.Status != http.StatusOK || answer.Header.Get("Fencing-Observed") != "stale_token" {
		t.Errorf("%d %v %s", answer.Status, answer.Header, answer.Body)
	}
	if !strings.HasSuffix(answer.Body, `"locks":[{"key":"item:C","lease_checked":"live","lease_remaining_ms":`+digits(answer.Body)+`}]}`) {
		t.Error(answer.Body)
	}
	var got []string
	for _, r := range listed(t, g, "disposition=admitted") {
		got = append(got, strings.Join([]string{r.Code, r.Key, r.Token, r.Mark, r.Operation, r.Table}, " "))
	}
	slices.Sort(got)
	want := []string{"lease_released item:B 1 1 transaction shop.loose", "stale_token item:A 1 2 transaction shop.loose"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}

// digits is the number that text has last.
func digits(text string) string {
	end := strings.LastIndexFunc(text, func(c rune) bool { return c >= '0' && c <= '9' }) + 1
	return text[strings.LastIndexFunc(text[:end], func(c rune) bool { return c < '0' || c > '9' })+1 : end]
}

func TestWhatIsNotAppliedHasNoRecord(t *testing.T) {
	t.Parallel()
	g, pool := startObserving(t, "")
	for body, status := range map[string]int{
		`{"n":100}`:      http.StatusUnprocessableEntity, // its CHECK
		`{"parent":"Z"}`: http.StatusConflict,            // which only COMMIT finds
		`{"n":"x"}`:      http.StatusUnprocessableEntity,
		`{"no":1}`:       http.StatusUnprocessableEntity,
		`{`:              http.StatusBadRequest,
	} {
		q := patching("loose?sku=eq.A", body, http.Header{"Idempotency-Key": {"k"}})
		q.Broken = body == "{"
		if answer := g.Do(t, q); answer.Status != status || answer.Header.Get("Fencing-Observed") != "" {
			t.Errorf("%s: %d %v %s", body, answer.Status, answer.Header, answer.Body)
		}
	}
	mustRefuse(t, g.Do(t, patching("loose?sku=eq.A", `{"n":1}`, http.Header{"Prefer": {"max-affected=1"}})), want{status: 409, slug: "max_affected_exceeded"})
	if n := scalar[int](t, pool, `SELECT count(*) FROM fencegate.refusals`); n != 0 {
		t.Errorf("%d records of writes that are not there", n)
	}
	if code := observed(t, g, patching("loose?sku=eq.A", `{"n":1}`, http.Header{"Idempotency-Key": {"k"}})); code != "fencing_required" {
		t.Errorf("observed for %q", code)
	}
	if n := scalar[int](t, pool, `SELECT count(*) FROM fencegate.refusals`); n != 1 {
		t.Errorf("%d records of one write", n)
	}
}

func TestARecordSaysAsMuchAsARefusals(t *testing.T) {
	t.Parallel()
	g, _ := startObserving(t, "")
	old, _ := superseded(t, g, "item:A")
	h := with(old, "Idempotency-Key", "mine", "Request-Id", "request-7")
	observed(t, g, patching("loose?sku=eq.A", `{"n":1}`, h))
	records := listed(t, g, "disposition=admitted&table=shop.loose&key=item:A&code=stale_token")
	if len(records) != 1 {
		t.Fatalf("%+v", records)
	}
	answer := g.Do(t, testenv.Request{Path: "/v1/refusals/" + records[0].ID})
	var r struct {
		Code, Disposition, Operation, Client, Principal string
		Holder                                          string `json:"holder_digest"`
		Digest                                          string `json:"payload_sha256"`
		Key                                             string `json:"idempotency_key"`
		Remote                                          string `json:"remote_address"`
		Request                                         string `json:"request_id"`
		Payload                                         json.RawMessage
		SupersededBy                                    struct{ Token string } `json:"superseded_by"`
	}
	answer.JSON(t, &r)
	if r.Operation != "update" || r.Client != t.Name() || r.Principal != "anyone" || len(r.Holder) != 16 || len(r.Digest) != 64 ||
		r.Key != "mine" || r.Remote != "127.0.0.1" || r.Request != "request-7" || r.SupersededBy.Token != "2" ||
		string(r.Payload) != `[{"operation":0,"table":"shop.loose","rows":[{"n":1}]}]` {
		t.Error(answer.Body)
	}
}

func TestObservedWritesAreCoveredByNoLockAndStillBounded(t *testing.T) {
	t.Parallel()
	g, pool := startObserving(t, "")
	l := g.Acquire(t, "item:A", 60_000)
	touched := func(n int) int { return scalar[int](t, pool, `SELECT count(*) FROM shop.loose WHERE n = $1`, n) }
	for _, each := range []struct {
		query, body, code string
		h                 http.Header
		rows              int
	}{
		{"loose?line=eq.0", `{"n":1}`, "lock_scope", l.Header(), 2},                    // its lock is not pinned
		{"loose?sku=in.(A)", `{"n":2}`, "lock_scope", l.Header(), 2},                   // nor here
		{"loose?sku=eq.B", `{"n":3}`, "lock_scope", l.Header(), 1},                     // it is another
		{"loose?sku=eq.Z", `{"n":4}`, "lock_scope", l.Header(), 0},                     // another, and no row
		{"loose?sku=eq.A", `{"n":5}`, "", l.Header(), 2},                               // its own
		{"loose?all=true", `{"n":6}`, "fencing_required", nil, 3},                      // all of them
		{"loose?line=eq.1", `{"n":7}`, "fencing_required", nil, 1},                     // no lock at all
		{"loose?sku=eq.A&line=eq.1", `{"n":8,"sku":"Q"}`, "lock_scope", l.Header(), 1}, // out of its scope
	} {
		if code := observed(t, g, patching(each.query, each.body, each.h)); code != each.code {
			t.Errorf("%s is observed for %q, not %q", each.query, code, each.code)
		}
		n := int(each.body[5] - '0')
		if got := touched(n); got != each.rows {
			t.Errorf("%s touched %d rows, not %d", each.query, got, each.rows)
		}
	}
	for _, h := range []http.Header{nil, l.Header()} {
		mustRefuse(t, g.Do(t, patching("loose", `{"n":9}`, h)), want{status: 400, slug: "filter_required", parameter: "all"})
		mustRefuse(t, g.Do(t, testenv.Request{Method: http.MethodDelete, Path: "/rest/loose", Header: h}), want{status: 400, slug: "filter_required"})
	}
	q := testenv.Request{Method: http.MethodPost, Path: "/rest/loose", Header: with(l, "Prefer", "resolution=merge-duplicates"), Body: `[{"sku":"A","n":11},{"sku":"B","n":11},{"sku":"N","n":11}]`}
	if code := observed(t, g, q); code != "lock_scope" || touched(11) != 3 {
		t.Errorf("the upsert is observed for %q and touched %d rows", code, touched(11))
	}
	if records := listed(t, g, "disposition=admitted"); len(records) != 8 {
		t.Errorf("%d records of 8 writes", len(records))
	}
}

func TestAFenceColumnKeepsOnlyTokensThatTheMarkKnows(t *testing.T) {
	t.Parallel()
	g, pool := startObserving(t, "")
	token := func(id string) string {
		return scalar[string](t, pool, `SELECT coalesce(token::text, 'null') FROM shop.tasks WHERE id = $1`, id)
	}
	is := func(what, id, want string) {
		t.Helper()
		if got := token(id); got != want {
			t.Errorf("%s leaves %s, not %s", what, got, want)
		}
	}
	old, now := superseded(t, g, "task:A")
	huge := forged("task:A", now.Holder, "9223372036854775807")
	for name, h := range map[string]http.Header{"no lock": nil, "a stale one": old.Header(), "a forged one": huge.Header()} {
		observed(t, g, patching("tasks?id=eq.A", `{"n":1}`, h))
		is("an update under "+name, "A", "50")
		observed(t, g, testenv.Request{Method: http.MethodPut, Path: "/rest/tasks?id=eq.A", Header: h, Body: `{"id":"A","n":2}`})
		is("a merge under "+name, "A", "50")
	}
	if code := observed(t, g, patching("tasks?id=eq.A", `{"n":1}`, now.Header())); code != "" {
		t.Errorf("the holder's write is observed for %q", code)
	}
	is("the holder", "A", now.Token)
	exec(t, g, `UPDATE shop.tasks SET token = 9000 WHERE id = 'A'`)
	if code := observed(t, g, patching("tasks?id=eq.A", `{"n":1}`, now.Header())); code != "stale_token" {
		t.Errorf("a row with a higher token is observed for %q", code)
	}
	is("a row with a higher token", "A", "9000")
	c := g.Acquire(t, "task:C", 60_000)
	observed(t, g, testenv.Request{Method: http.MethodPost, Path: "/rest/tasks", Header: c.Header(), Body: `{"id":"C"}`})
	is("its holder's insert", "C", c.Token)
	observed(t, g, testenv.Request{Method: http.MethodPost, Path: "/rest/tasks", Header: huge.Header(), Body: `{"id":"D"}`})
	is("an insert under a forged one", "D", "0")
	observed(t, g, testenv.Request{Method: http.MethodPost, Path: "/rest/tasks", Body: `{"id":"E"}`})
	is("an insert under none", "E", "null")
	observed(t, g, testenv.Request{Method: http.MethodPost, Path: "/v1/transactions", Body: `{"locks":[` + now.Claim() + `,` + c.Claim() + `],"operations":[
		{"op":"upsert","table":"tasks","rows":[{"id":"A"},{"id":"C"},{"id":"F"}]}]}`})
	is("under several locks a row", "C", c.Token)
	is("a row of none of them", "F", "0")
}

// Idempotency keys know no modes: a tombstone stops what it stops under enforcement.
func TestATombstoneHoldsInObserveMode(t *testing.T) {
	t.Parallel()
	address, prefix := testenv.Redis(t)
	db := testenv.Postgres(t)
	db.Exec(t, `CREATE SCHEMA shop;`+observeSQL)
	start := func(mode string) *testenv.Gateway {
		return testenv.StartGateway(t, testenv.GatewayOptions{Database: db, RedisURL: address, KeyPrefix: prefix,
			Tables: "tables:\n  - {name: shop.strict, lock: \"item:{sku}\", mode: " + mode + "}\n"})
	}
	enforcing, observing := start("enforce"), start("observe")
	old, _ := superseded(t, enforcing, "item:A")
	q := patching("strict?sku=eq.A", `{"n":1}`, with(old, "Idempotency-Key", "k"))
	mustRefuse(t, enforcing.Do(t, q), want{status: 412, slug: "stale_token"})
	if code := observed(t, observing, q); code != "stale_token" {
		t.Errorf("what the mark alone refused is observed for %q", code)
	}
	scope := patching("strict?sku=eq.B", `{"n":1}`, with(enforcing.Acquire(t, "item:A2", 60_000), "Idempotency-Key", "s"))
	mustRefuse(t, enforcing.Do(t, scope), want{status: 403, slug: "lock_scope"})
	mustRefuse(t, observing.Do(t, scope), want{status: 403, slug: "lock_scope"})
	scope.Header = http.Header{"Idempotency-Key": {"s"}}
	if code := observed(t, observing, scope); code != "fencing_required" {
		t.Errorf("without the claim that was refused it is observed for %q", code)
	}
}

func TestObservedWritesGoOnWithoutTheLockService(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	db.Exec(t, `CREATE SCHEMA shop;`+observeSQL)
	redis := testenv.OwnRedis(t)
	g := testenv.StartGateway(t, testenv.GatewayOptions{Database: db, Tables: observeTables, RedisURL: redis.URL(), KeyPrefix: "t:"})
	old, now := superseded(t, g, "item:A")
	if err := redis.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, each := range []struct {
		code string
		h    http.Header
	}{{"lock_service_unavailable", now.Header()}, {"stale_token", old.Header()}, {"fencing_required", nil}} {
		if code := observed(t, g, patching("loose?sku=eq.A", `{"n":1}`, each.h)); code != each.code {
			t.Errorf("observed for %q, not %q", code, each.code)
		}
	}
	mustRefuse(t, g.Do(t, patching("strict?sku=eq.A", `{"n":1}`, now.Header())), want{status: 503, slug: "lock_service_unavailable"})
	if records := listed(t, g, "disposition=admitted"); len(records) != 3 {
		t.Errorf("%+v", records)
	}
}

func TestAnAdmittedWriteThatCannotBeRecordedIsLetThrough(t *testing.T) {
	t.Parallel()
	g, pool := startObserving(t, "")
	exec(t, g, `DO $$ DECLARE week regclass; BEGIN
		FOR week IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'fencegate.refusals'::regclass LOOP
			EXECUTE 'DROP TABLE ' || week;
		END LOOP; END $$`)
	if code := observed(t, g, patching("loose?sku=eq.A", `{"n":1}`, nil)); code != "fencing_required" {
		t.Errorf("observed for %q", code)
	}
	if records := listed(t, g, ""); len(records) != 1 || records[0].Disposition != "admitted" {
		t.Errorf("after the week's partition was missing there is %+v", records)
	}
	exec(t, g, `ALTER TABLE fencegate.refusals ADD CONSTRAINT no_more CHECK (false) NOT VALID`)
	if code := observed(t, g, patching("loose?sku=eq.A", `{"n":2}`, nil)); code != "fencing_required" || scalar[int](t, pool, `SELECT max(n) FROM shop.loose`) != 2 {
		t.Errorf("observed for %q", code)
	}
	if n := len(listed(t, g, "")); n != 1 || !strings.Contains(g.Log(), "an admitted write could not be recorded") {
		t.Errorf("%d records, and the log is\n%s", n, g.Log())
	}
}

func TestAnObservedWriteKeepsNoHolderWaiting(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	db.Exec(t, `CREATE SCHEMA shop;`+observeSQL)
	g := testenv.StartGateway(t, testenv.GatewayOptions{Database: db, Tables: observeTables,
		Config: "database: {url: '" + db.URL + "', lock_timeout: 20s, statement_timeout: 25s}\nlimits: {request_timeout: 30s}\n"})
	pool := db.Pool(t)
	old, now := superseded(t, g, "item:A")
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), `SELECT FROM shop.loose WHERE line = 1 FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	late := make(chan testenv.Response)
	for range 4 { // more than have their turn under one key
		go func() {
			answer, _ := g.Try(t, t.Context(), patching("loose?sku=eq.A&line=eq.1", `{"n":1}`, old.Header()))
			late <- answer
		}()
	}
	const waiting = `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'fencegate' AND datname = current_database() AND wait_event_type = 'Lock'`
	for scalar[int](t, pool, waiting) < 4 {
	}
	for _, table := range []string{"loose?line=eq.0&", "strict?"} {
		if code := observed(t, g, patching(table+"sku=eq.A", `{"n":2}`, now.Header())); code != "" {
			t.Errorf("the holder is observed for %q", code)
		}
	}
	g.Release(t, now)
	if next := g.Acquire(t, "item:A", 60_000); next.Token != "3" {
		t.Errorf("the next token is %s", next.Token)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if answer := <-late; answer.Status != http.StatusNoContent || answer.Header.Get("Fencing-Observed") != "stale_token" {
			t.Errorf("%d %v %s", answer.Status, answer.Header, answer.Body)
		}
	}
	if n := len(listed(t, g, "disposition=admitted")); n != 4 {
		t.Errorf("%d records of 4 writes", n)
	}
}
