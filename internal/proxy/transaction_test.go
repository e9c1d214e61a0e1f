package proxy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// transaction is the body of one, with the operations as they are written.
func transaction(locks []testenv.Lease, operations string, more ...string) string {
	claims := make([]string, len(locks))
	for i, l := range locks {
		claims[i] = l.Claim()
	}
	return fmt.Sprintf(`{"locks":[%s],"operations":[%s]%s}`, strings.Join(claims, ","), operations, strings.Join(more, ""))
}

func run(body string, header ...string) testenv.Request {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return testenv.Request{Method: http.MethodPost, Path: "/v1/transactions", Header: h, Body: body, Broken: true}
}

// carts is a shop of its own: two kinds of rows under locks of their own, and a
// log under one for the whole table.
const cartsSQL = `
CREATE TABLE shop.stock (sku text PRIMARY KEY, n integer NOT NULL CHECK (n >= 0), note text, seen timestamptz);
CREATE TABLE shop.carts (cart integer, sku text, qty integer, PRIMARY KEY (cart, sku));
CREATE TABLE shop.log (entry text);
INSERT INTO shop.stock VALUES ('A', 10), ('B', 20), ('C', 30);
`

const cartsTables = `tables:
  - name: shop.stock
    lock: "stock:{sku}"
  - name: shop.carts
    lock: "cart:{cart}"
  - name: shop.log
    lock: log
  - name: shop.inventory
    lock: inventory:{sku}
    operations: [select]
`

func startCarts(t *testing.T) *testenv.Gateway {
	t.Helper()
	return startOn(t, cartsSQL, cartsTables, "")
}

func TestTransaction(t *testing.T) {
	t.Parallel()
	g := startCarts(t)
	a, b, cart := g.Acquire(t, "stock:A", 60000), g.Acquire(t, "stock:B", 60000), g.Acquire(t, "cart:1", 60000)
	locks := []testenv.Lease{b, cart, a}
	w := watch(t, g)
	const move = `
		{"op":"update","table":"stock","where":{"sku":"eq.A","n":"gte.1"},"increment":{"n":-1},"set":{"note":"x"},"expect_rows":1,"returning":["n","label:note"]},
		{"op":"insert","table":"carts","rows":[{"cart":1,"sku":"A","qty":1},{"cart":1,"sku":"Z"}]},
		{"op":"upsert","table":"carts","on_conflict":["cart","sku"],"rows":[{"cart":1,"sku":"A","qty":5}],"returning":["*"]},
		{"op":"upsert","table":"carts","resolution":"ignore-duplicates","rows":[{"cart":1,"sku":"Z","qty":9}]},
		{"op":"delete","table":"carts","where":{"cart":"eq.1","or":"(sku.eq.Z,sku.eq.Y)","qty":["is.null","not.gt.3"]},"max_rows":10},
		{"op":"delete","table":"carts","where":{"cart":"eq.1","sku":"eq.Z"},"max_rows":10,"returning":["sku"]}`

	t.Run("ATrialChangesNothing", func(t *testing.T) {
		answer := g.Do(t, run(transaction(locks, move, `,"dry_run":true`), "Idempotency-Key", "move"))
		if answer.Status != 200 || !strings.Contains(answer.Body, `"dry_run":true`) {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
		w.unchanged(t)
	})

	t.Run("WhatIsPreferredHoldsOrIsRefused", func(t *testing.T) {
		answer := g.Do(t, run(transaction(locks, move), "Prefer", "tx=rollback, timezone=Asia/Tokyo"))
		if answer.Status != 200 || !strings.Contains(answer.Body, `"dry_run":true`) || answer.Header.Get("Preference-Applied") != "tx=rollback, timezone=Asia/Tokyo" {
			t.Errorf("%d %v %s", answer.Status, answer.Header, answer.Body)
		}
		w.unchanged(t)
		for _, prefer := range []string{"max-affected=0", "return=minimal", "count=exact", "resolution=ignore-duplicates", "missing=default", "tx=maybe"} {
			w.refused(t, g, run(transaction(locks, move), "Prefer", prefer), want{status: 400, slug: "invalid_preference", parameter: "Prefer"})
		}
	})

	t.Run("RowsAreAnsweredAsTheyAreKept", func(t *testing.T) {
		exec(t, g, `CREATE TABLE shop.papers (id text PRIMARY KEY, doc json, n integer)`)
		const odd = `{"a":1,"a":"\ud800"}`
		exec(t, g, `INSERT INTO shop.papers VALUES ('P', '`+odd+`', 0)`)
		options := g.Options
		options.Tables = "tables: [{name: shop.papers, lock: 'paper:{id}'}]\n"
		g := testenv.StartGateway(t, options)
		answer := g.Do(t, run(transaction([]testenv.Lease{g.Acquire(t, "paper:P", 60000)}, `{"op":"update","table":"papers","where":{"id":"eq.P"},"increment":{"n":1},"returning":["doc","n"]}`)))
		if answer.Status != 200 || !strings.Contains(answer.Body, `{"doc":`+odd+`,"n":1}`) {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})

	t.Run("AllOfItIsDoneInOrder", func(t *testing.T) {
		for attempt := range 2 {
			answer := g.Do(t, run(transaction(locks, move), "Idempotency-Key", "move"))
			var got struct {
				Operations json.RawMessage
				Locks      []struct {
					Key, LeaseChecked string
				}
			}
			answer.JSON(t, &got)
			const want = `[{"affected":1,"rows":[{"n":9,"label":"x"}]},{"affected":2},{"affected":1,"rows":[{"cart":1,"sku":"A","qty":5}]},` +
				`{"affected":0},{"affected":0},{"affected":1,"rows":[{"sku":"Z"}]}]`
			if answer.Status != 200 || string(got.Operations) != want {
				t.Errorf("%d %s", answer.Status, answer.Body)
			}
			if replayed := answer.Header.Get("Idempotency-Replayed") == "true"; replayed != (attempt == 1) || replayed != (len(got.Locks) == 0) {
				t.Errorf("attempt %d: %v %s", attempt, answer.Header, answer.Body)
			}
		}
		if n := scalar[int](t, w.pool, `SELECT n FROM shop.stock WHERE sku = 'A'`); n != 9 {
			t.Errorf("applied more than once: %d left", n)
		}
	})

	t.Run("ARetryMayComeUnderNewerLocks", func(t *testing.T) {
		again := g.Acquire(t, "stock:C", 60000)
		const op = `{"op":"update","table":"stock","where":{"sku":"eq.C"},"increment":{"n":1}}`
		first := g.Do(t, run(transaction([]testenv.Lease{again}, op), "Idempotency-Key", "newer"))
		g.Release(t, again)
		second := g.Do(t, run(transaction([]testenv.Lease{g.Acquire(t, "stock:C", 60000)}, op), "Idempotency-Key", "newer"))
		if first.Status != 200 || second.Status != 200 || second.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%d, %d %s", first.Status, second.Status, second.Body)
		}
		other := g.Do(t, run(transaction([]testenv.Lease{a}, `{"op":"delete","table":"stock","where":{"sku":"eq.A"}}`), "Idempotency-Key", "newer"))
		mustRefuse(t, other, want{status: 422, slug: "idempotency_key_reused"})
	})

	t.Run("OfSeveralLocksTheLeastTimeIsTold", func(t *testing.T) {
		answer := g.Do(t, run(transaction(locks, `{"op":"delete","table":"carts","where":{"cart":"eq.1","sku":"eq.none"}}`)))
		if answer.Status != 200 || answer.Header.Get("Lease-Remaining-Ms") == "" || answer.Header.Get("Fencing-Token") != "" {
			t.Errorf("%d %v", answer.Status, answer.Header)
		}
	})
}

func TestTransactionIsRefusedWhole(t *testing.T) {
	t.Parallel()
	g := startCarts(t)
	a, b := g.Acquire(t, "stock:A", 60000), g.Acquire(t, "stock:B", 60000)
	both := []testenv.Lease{a, b}
	const good = `{"op":"update","table":"stock","where":{"sku":"eq.A"},"set":{"note":"first"}},`
	w := watch(t, g)
	for name, c := range map[string]struct {
		operation string
		want      want
	}{
		"TooFewRows":            {`{"op":"update","table":"stock","where":{"sku":"eq.B","n":"gt.99"},"set":{"note":"x"},"expect_rows":1}`, want{status: 409, slug: "too_few_rows"}},
		"TooManyRows":           {`{"op":"delete","table":"stock","where":{"sku":"eq.B"},"max_rows":0}`, want{status: 409, slug: "max_affected_exceeded"}},
		"MoreThanExpected":      {`{"op":"delete","table":"stock","where":{"sku":"eq.B"},"expect_rows":0}`, want{status: 409, slug: "max_affected_exceeded"}},
		"AnUpsertTooMany":       {`{"op":"upsert","table":"stock","rows":[{"sku":"A","n":1}],"max_rows":0}`, want{status: 409, slug: "max_affected_exceeded"}},
		"AnIgnoredRowExpected":  {`{"op":"upsert","table":"stock","resolution":"ignore-duplicates","rows":[{"sku":"A","n":1}],"expect_rows":1}`, want{status: 409, slug: "too_few_rows"}},
		"UnevenRowsWithABound":  {`{"op":"insert","table":"stock","rows":[{"sku":"A","n":1},{"sku":"B","n":1,"note":"x"}],"expect_rows":2}`, want{status: 422, slug: "mixed_rows"}},
		"ACheckOfTheTable":      {`{"op":"update","table":"stock","where":{"sku":"eq.B"},"increment":{"n":-21}}`, want{status: 422, slug: "check_violation", code: "23514"}},
		"AnOverflow":            {`{"op":"update","table":"stock","where":{"sku":"eq.B"},"increment":{"n":2147483647}}`, want{status: 422, slug: "invalid_value", code: "22003", column: "n"}},
		"ADuplicate":            {`{"op":"insert","table":"stock","rows":[{"sku":"B","n":1}]}`, want{status: 409, slug: "unique_violation", code: "23505"}},
		"AnotherETag":           {`{"op":"update","table":"stock","where":{"sku":"eq.B"},"set":{"note":"x"},"if_match":"\"e\""}`, want{status: 412, slug: "precondition_failed"}},
		"ARowOutsideTheLocks":   {`{"op":"update","table":"stock","where":{"sku":"eq.C"},"set":{"note":"x"}}`, want{status: 403, slug: "lock_scope"}},
		"ARowMovedOut":          {`{"op":"update","table":"stock","where":{"sku":"eq.A"},"set":{"sku":"C2"}}`, want{status: 403, slug: "lock_scope"}},
		"AnInsertOutside":       {`{"op":"insert","table":"carts","rows":[{"cart":1,"sku":"A"}]}`, want{status: 403, slug: "lock_scope"}},
		"AnUpsertOutside":       {`{"op":"upsert","table":"stock","rows":[{"sku":"C","n":1}]}`, want{status: 403, slug: "lock_scope"}},
		"NoPin":                 {`{"op":"delete","table":"stock","where":{"n":"gt.1"}}`, want{status: 403, slug: "lock_scope"}},
		"NoWhere":               {`{"op":"delete","table":"stock"}`, want{status: 403, slug: "lock_scope"}},
		"NoWhereOfAWholeTable":  {`{"op":"delete","table":"log"}`, want{status: 400, slug: "filter_required"}},
		"AWholeTableNotLocked":  {`{"op":"delete","table":"log","all":true}`, want{status: 403, slug: "lock_scope"}},
		"AnOperationNotAllowed": {`{"op":"delete","table":"inventory","where":{"sku":"eq.SKU-1"}}`, want{status: 403, slug: "forbidden"}},
		"AnUnknownTable":        {`{"op":"delete","table":"marks"}`, want{status: 404, slug: "unknown_table", code: "PGRST205", pointer: "/operations/1/table"}},
		"AnotherSchema":         {`{"op":"delete","schema":"fencegate","table":"marks"}`, want{status: 404, slug: "unknown_table", pointer: "/operations/1/table"}},
		"NoTable":               {`{"op":"delete"}`, want{status: 400, slug: "malformed_operation", pointer: "/operations/1/table"}},
		"AnUnknownOp":           {`{"op":"merge","table":"stock"}`, want{status: 400, slug: "malformed_operation", pointer: "/operations/1/op"}},
		"AnUnknownMember":       {`{"op":"delete","table":"stock","wher":{}}`, want{status: 400, slug: "malformed_json", pointer: "/operations/1/wher"}},
		"AMemberOfAnotherOp":    {`{"op":"delete","table":"stock","set":{"n":1}}`, want{status: 400, slug: "malformed_operation", pointer: "/operations/1/set"}},
		"AnUnknownColumn":       {`{"op":"update","table":"stock","where":{"sku":"eq.A"},"set":{"nope":1}}`, want{status: 422, slug: "unknown_column", column: "nope", pointer: "/operations/1"}},
		"AnUnknownIncrement":    {`{"op":"update","table":"stock","where":{"sku":"eq.A"},"increment":{"nope":1}}`, want{status: 422, slug: "unknown_column", column: "nope"}},
		"AnUnknownFilter":       {`{"op":"update","table":"stock","where":{"sku":"eq.A","nope":"eq.1"},"set":{"n":1}}`, want{status: 422, slug: "unknown_column", column: "nope"}},
		"AnUnknownReturning":    {`{"op":"delete","table":"stock","where":{"sku":"eq.A"},"returning":["nope"]}`, want{status: 422, slug: "unknown_column", column: "nope"}},
		"ABrokenFilter":         {`{"op":"delete","table":"stock","where":{"sku":"A"}}`, want{status: 400, slug: "malformed_query", pointer: "/operations/1/where/sku"}},
		"AFilterThatIsANumber":  {`{"op":"delete","table":"stock","where":{"sku":"eq.A","n":1}}`, want{status: 400, slug: "malformed_operation", pointer: "/operations/1/where/n"}},
		"ABrokenReturning":      {`{"op":"delete","table":"stock","where":{"sku":"eq.A"},"returning":["count()"]}`, want{status: 400, slug: "malformed_query", pointer: "/operations/1/returning"}},
		"ARowThatIsNone":        {`{"op":"insert","table":"stock","rows":[{"sku":"A","n":1},7]}`, want{status: 400, slug: "malformed_json", pointer: "/operations/1/rows/1"}},
		"AMemberTwice":          {`{"op":"insert","table":"stock","rows":[{"sku":"A","sku":"B"}]}`, want{status: 400, slug: "malformed_json", pointer: "/operations/1/rows/0/sku"}},
		"SetAndIncrementOfOne":  {`{"op":"update","table":"stock","where":{"sku":"eq.A"},"set":{"n":1},"increment":{"n":1}}`, want{status: 400, slug: "malformed_operation", pointer: "/operations/1/increment/n"}},
		"AnIncrementByNull":     {`{"op":"update","table":"stock","where":{"sku":"eq.A"},"increment":{"n":null}}`, want{status: 400, slug: "malformed_operation", pointer: "/operations/1/increment/n"}},
		"NothingToSet":          {`{"op":"update","table":"stock","where":{"sku":"eq.A"}}`, want{status: 400, slug: "empty_body"}},
		"NoRows":                {`{"op":"insert","table":"stock","rows":[]}`, want{status: 400, slug: "malformed_operation", pointer: "/operations/1/rows"}},
		"TwoBounds":             {`{"op":"delete","table":"stock","where":{"sku":"eq.A"},"expect_rows":1,"max_rows":1}`, want{status: 400, slug: "malformed_operation", pointer: "/operations/1/max_rows"}},
		"ANegativeBound":        {`{"op":"delete","table":"stock","where":{"sku":"eq.A"},"expect_rows":-1}`, want{status: 400, slug: "malformed_operation", pointer: "/operations/1/expect_rows"}},
		"AnUnknownResolution":   {`{"op":"upsert","table":"stock","resolution":"replace","rows":[{"sku":"A"}]}`, want{status: 400, slug: "malformed_operation", pointer: "/operations/1/resolution"}},
		"NoUniqueKey":           {`{"op":"upsert","table":"stock","on_conflict":["n"],"rows":[{"sku":"A","n":1}]}`, want{status: 422, slug: "no_conflict_key", code: "42P10"}},
	} {
		t.Run(name, func(t *testing.T) {
			answer := g.Do(t, run(transaction(both, good+c.operation)))
			var p struct{ Operation *int }
			answer.JSON(t, &p)
			if c.want.pointer == "" || c.want.pointer == "/operations/1" {
				if p.Operation == nil || *p.Operation != 1 {
					t.Errorf("no operation is blamed: %s", answer.Body)
				}
			}
			if answer.Status == 412 {
				if answer.Problem(t).Slug() != c.want.slug {
					t.Errorf("%d %s", answer.Status, answer.Body)
				}
			} else {
				mustRefuse(t, answer, c.want)
			}
			w.unchanged(t)
		})
	}
}

func TestTransactionLocks(t *testing.T) {
	t.Parallel()
	g := startCarts(t)
	const op = `{"op":"update","table":"stock","where":{"sku":"eq.A"},"increment":{"n":1}}`
	w := watch(t, g)

	t.Run("AreRead", func(t *testing.T) {
		l := g.Acquire(t, "stock:A", 60000)
		claim := fmt.Sprintf(`{"key":%q,"holder":%q,"token":%q}`, l.Key, l.Holder, l.Token)
		for locks, want := range map[string]want{
			``:                                            {status: 428, slug: "fencing_required", pointer: "/locks"},
			claim + `,` + claim:                           {status: 400, slug: "fencing_malformed", pointer: "/locks/1/key"},
			strings.Repeat(claim+`,`, 32) + claim:         {status: 400, slug: "too_many_locks", pointer: "/locks"},
			`{"key":"a,b","holder":"h","token":"1"}`:      {status: 400, slug: "fencing_malformed", pointer: "/locks/0/key"},
			`{"key":"a","holder":"","token":"1"}`:         {status: 400, slug: "fencing_malformed", pointer: "/locks/0/holder"},
			`{"key":"a","holder":"h","token":"01"}`:       {status: 400, slug: "fencing_malformed", pointer: "/locks/0/token"},
			`{"key":"a","holder":"h","token":1}`:          {status: 400, slug: "malformed_json", pointer: "/locks/0/token"},
			`{"key":"a","holder":"h","token":"1","x":""}`: {status: 400, slug: "malformed_json", pointer: "/locks/0/x"},
		} {
			w.refused(t, g, run(`{"locks":[`+locks+`],"operations":[`+op+`]}`), want)
		}
		w.refused(t, g, run(transaction([]testenv.Lease{l}, op), "Lock-Key", "stock:A"), want{status: 400, slug: "unsupported_header", parameter: "Lock-Key"})
		w.refused(t, g, run(transaction([]testenv.Lease{l}, "")), want{status: 400, slug: "empty_batch", pointer: "/operations"})
		w.refused(t, g, run(transaction([]testenv.Lease{l}, strings.Repeat(op+",", 100)+op)), want{status: 413, slug: "too_many_operations"})
		w.refused(t, g, run(transaction([]testenv.Lease{l}, `{"op":"insert","table":"log","rows":[`+strings.Repeat("{},", 1000)+`{}]}`)), want{status: 413, slug: "too_many_rows"})
		g.Release(t, l)
	})

	t.Run("EachThatFailedHasItsRecord", func(t *testing.T) {
		dead, released, good := g.Acquire(t, "stock:dead", 60000), g.Acquire(t, "stock:released", 60000), g.Acquire(t, "stock:A", 60000)
		g.Release(t, dead)
		g.Acquire(t, "stock:dead", 60000)
		g.Release(t, released)
		answer := g.Do(t, run(transaction([]testenv.Lease{released, good, dead}, op)))
		p := mustRefuse(t, answer, want{status: 412, slug: "stale_token"})
		var more struct {
			Refusals []struct {
				Code    string
				LockKey string `json:"lock_key"`
				AuditID string `json:"audit_id"`
			}
		}
		answer.JSON(t, &more)
		if len(more.Refusals) != 2 || more.Refusals[0].AuditID != p.AuditID || more.Refusals[1].Code != "lease_released" || more.Refusals[1].LockKey != "stock:released" {
			t.Errorf("%s", answer.Body)
		}
		for _, r := range more.Refusals {
			record := g.Do(t, testenv.Request{Path: "/v1/refusals/" + r.AuditID})
			if !strings.Contains(record.Body, `"operation":"update"`) || !strings.Contains(record.Body, `"table":"shop.stock"`) || !strings.Contains(record.Body, r.Code) {
				t.Errorf("%s", record.Body)
			}
		}
		w.unchanged(t)
	})

	t.Run("TheMarksOfAllAreComparedWithLeasesAlive", func(t *testing.T) {
		// The leases are alive, so that only the fence itself can refuse.
		one, two := g.Acquire(t, "stock:1", 60000), g.Acquire(t, "stock:2", 60000)
		exec(t, g, `UPDATE fencegate.marks SET token = token + 1 WHERE lock_key IN ('stock:1', 'stock:2')`)
		answer := g.Do(t, run(transaction([]testenv.Lease{two, one}, op+`,{"op":"delete","table":"carts","where":{"cart":"eq.1"}}`)))
		p := mustRefuse(t, answer, want{status: 412, slug: "stale_token"})
		record := g.Do(t, testenv.Request{Path: "/v1/refusals/" + p.AuditID})
		if !strings.Contains(record.Body, `"operation":"transaction"`) || !strings.Contains(record.Body, `"table":"shop.stock, shop.carts"`) {
			t.Errorf("%s", record.Body)
		}
		if p.LockKey != "stock:1" || strings.Count(answer.Body, `"audit_id"`) != 3 {
			t.Errorf("%s", answer.Body)
		}
		w.unchanged(t)
	})

	t.Run("ARefusedKeyIsFreeUnderANewGrantOfOne", func(t *testing.T) {
		kept, lost := g.Acquire(t, "log", 60000), g.Acquire(t, "stock:B", 60000)
		g.Release(t, lost)
		const op = `{"op":"update","table":"stock","where":{"sku":"eq.B"},"increment":{"n":1}},{"op":"insert","table":"log","rows":[{"entry":"x"}]}`
		mustRefuse(t, g.Do(t, run(transaction([]testenv.Lease{kept, lost}, op), "Idempotency-Key", "k")), want{status: 412, slug: "lease_released"})
		answer := g.Do(t, run(transaction([]testenv.Lease{kept, g.Acquire(t, "stock:B", 60000)}, op), "Idempotency-Key", "k"))
		if answer.Status != 200 || answer.Header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})
}

// Two workers that hold the same locks can't be; two transactions under the same
// locks, sent at once, can.
func TestTransactionsInOppositeOrderDoNotDeadlock(t *testing.T) {
	t.Parallel()
	g := startOn(t, cartsSQL+`INSERT INTO shop.stock SELECT 'S' || i, 0 FROM generate_series(1, 20) AS i;`, cartsTables, "")
	var locks []testenv.Lease
	var forth []string
	for i := range 20 {
		sku := fmt.Sprintf("S%d", i+1)
		locks = append(locks, g.Acquire(t, "stock:"+sku, 60000))
		forth = append(forth, fmt.Sprintf(`{"op":"update","table":"stock","where":{"sku":"eq.%s"},"increment":{"n":1}}`, sku))
	}
	back, reversed := slices.Clone(forth), slices.Clone(locks)
	slices.Reverse(back)
	slices.Reverse(reversed)
	const rounds = 25
	var workers sync.WaitGroup
	for _, body := range []string{
		transaction(locks, strings.Join(forth, ",")), transaction(reversed, strings.Join(back, ",")),
		transaction(locks, strings.Join(back, ",")), transaction(reversed, strings.Join(forth, ",")),
	} {
		workers.Go(func() {
			for range rounds {
				if answer := g.Do(t, run(body)); answer.Status != 200 {
					t.Errorf("%d %s", answer.Status, answer.Body)
				}
			}
		})
	}
	workers.Wait()
	pool := g.Database.Pool(t)
	if low := scalar[int](t, pool, `SELECT min(n) FROM shop.stock WHERE sku LIKE 'S%'`); low != 4*rounds {
		t.Errorf("a row was written %d times, not %d", low, 4*rounds)
	}
	if n := scalar[int](t, pool, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}
