package chaos_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

// shortTTL is what a killed gateway's lease may block its key for.
const shortTTL = 1000

// act is something a worker asks of a gateway. Every act runs under a key of
// its own.
type act struct {
	name    string
	prepare func(k *killing) // through the gateway that is to be killed
	request func(k *killing) testenv.Request
	status  int
	// PostgreSQL does as it was told even if nobody waits for its answer: once a
	// batch with this statement has gone over the wire whole, effect is there.
	statement string
	effect    func(*left)
}

var acts = []act{
	{"acquire", func(*killing) {}, func(k *killing) testenv.Request { return acquireRequest(k.key, k.ttl) }, 201,
		`fencegate.raise_mark(`, func(l *left) { l.mark = "held" }},
	{"write", (*killing).hold, func(k *killing) testenv.Request { return setRequest(k.claim, k.sku, 7) }, 204,
		theUpdate, func(l *left) { l.available, l.journal = 7, 1 }},
	{"bulk insert", (*killing).hold, (*killing).bulk, 201,
		`INSERT INTO "shop"."batch"`, func(l *left) { l.batch = 3 }},
	{"release", (*killing).hold, func(k *killing) testenv.Request { return releaseRequest(k.claim) }, 200,
		`fencegate.release_mark(`, func(l *left) { l.mark = "released" }},
	{"refusal", func(k *killing) { k.claim = k.stale(k.t, k.key) }, func(k *killing) testenv.Request { return setRequest(k.claim, k.sku, 8) }, 412,
		theRecord, func(l *left) { l.refusals = 1 }},
}

// left is what there is in the database under one key.
type left struct {
	available, journal, batch, refusals int
	mark                                string
}

func (k *killing) left() (l left) {
	k.t.Helper()
	const query = `
		SELECT (SELECT available FROM shop.inventory WHERE sku = $1),
		       (SELECT count(*) FROM shop.journal WHERE sku = $1),
		       (SELECT count(*) FROM shop.batch WHERE sku = $1),
		       (SELECT count(*) FROM fencegate.refusals WHERE lock_key = $2),
		       coalesce((SELECT state FROM fencegate.marks WHERE lock_key = $2), 'none')`
	err := k.sql.QueryRow(k.t.Context(), query, k.sku, k.key).Scan(&l.available, &l.journal, &l.batch, &l.refusals, &l.mark)
	must(k.t, err)
	return l
}

// killing is one gateway that is killed in the middle of one act.
type killing struct {
	*plant
	t        *testing.T
	sku, key string
	ttl      int
	claim    testenv.Lease // what the act is done under; of an acquire: what it may have got
	before   left
	struck   atomic.Bool
}

// hold gives the worker its lease.
func (k *killing) hold() {
	k.t.Helper()
	try(k.t, k.Gateway, acquireRequest(k.key, k.ttl), 201).JSON(k.t, &k.claim)
}

// bulk inserts three rows at once.
func (k *killing) bulk() testenv.Request {
	row := fmt.Sprintf(`{"sku":%q,"line":%%d}`, k.sku)
	body := "[" + fmt.Sprintf(row, 1) + "," + fmt.Sprintf(row, 2) + "," + fmt.Sprintf(row, 3) + "]"
	return testenv.Request{Method: http.MethodPost, Path: "/rest/batch", Header: k.claim.Header(), Body: body}
}

// killTables adds a table whose rows come in batches under inventory's keys.
const (
	batchTable = `CREATE TABLE shop.batch (sku text NOT NULL, line integer NOT NULL, PRIMARY KEY (sku, line))`
	killTables = `tables:
  - {name: shop.inventory, lock: "inventory:{sku}"}
  - {name: shop.batch, lock: "inventory:{sku}"}
`
)

// moment is where in an act the gateway dies: around a batch that it sends
// PostgreSQL, or a message that it sends Redis.
type moment struct {
	act   act
	wire  string
	n     int
	batch testenv.Batch // to PostgreSQL
	where where
}

func (m moment) String() string {
	return fmt.Sprintf("%s/%s %d %s", m.act.name, m.wire, m.n, m.where.name)
}

// where is which side of a message, and how much of it the server gets.
type where struct {
	name   string
	extent testenv.Extent
}

var (
	unsent     = where{"unsent", testenv.Nothing}
	torn       = where{"torn", testenv.Torn}
	sent       = where{"sent", testenv.Whole} // dead before the server acts
	unanswered = where{"unanswered", testenv.Whole}
)

// TestAGatewayKilledAnywhereLeavesNothingHalf kills a gateway around every
// message that any act sends or gets.
func TestAGatewayKilledAnywhereLeavesNothingHalf(t *testing.T) {
	t.Parallel()
	survivor := build(t, options{GatewayOptions: testenv.GatewayOptions{Tables: killTables}, setup: batchTable})
	moments := everyMoment(t, survivor)
	t.Logf("%d moments", len(moments))
	places := make(chan struct{}, 4)
	sideBySide(t, moments, moment.String, func(t *testing.T, m moment) {
		places <- struct{}{}
		defer func() { <-places }()
		killAt(t, survivor, m)
	})
	wantOrderedGrants(t, survivor.sql)
}

// everyMoment does each act once, whole, to see what it sends.
func everyMoment(t *testing.T, survivor *plant) []moment {
	var all []moment
	for _, a := range acts {
		k := done(t, survivor, a)
		batches := k.batches()
		if !k.told(a) {
			t.Fatalf("%s sends no %s:\n%s", a.name, a.statement, k.pg.Story())
		}
		for _, where := range []where{unsent, torn, sent, unanswered} {
			for n, batch := range batches {
				if where != torn || len(batch.Messages) > 1 {
					all = append(all, moment{a, "postgres", n + 1, batch, where})
				}
			}
			for n := range k.redis.Requests() {
				if where != torn { // half a command is none
					all = append(all, moment{act: a, wire: "redis", n: n + 1, where: where})
				}
			}
		}
	}
	return all
}

// done returns once the act has been done by a gateway that nothing happens to.
func done(t *testing.T, survivor *plant, a act) *killing {
	t.Helper()
	for range tries {
		k := poised(t, survivor, survivor, a)
		answer := k.Do(t, a.request(k))
		if !tooSlow(t, answer) {
			wantStatus(t, answer, a.status)
			return k
		}
	}
	t.Fatalf("%s was not done in %d tries", a.name, tries)
	return nil
}

// batches are those of the act: not those that open connections, prepare
// statements or ask whether a connection lives, which come when they like, nor
// what the gateway does on its own.
func (k *killing) batches() []testenv.Batch {
	return slices.DeleteFunc(k.pg.Batches(), func(b testenv.Batch) bool {
		return b.Kind != testenv.Work || b.Executes(`DELETE FROM fencegate.answers`)
	})
}

// told reports whether PostgreSQL has been told what the act wants of it.
func (k *killing) told(a act) bool {
	return slices.ContainsFunc(k.pg.Batches(), func(b testenv.Batch) bool {
		return b.Executes(a.statement) && b.Forwarded == testenv.Whole
	})
}

var kills atomic.Int64

func newKilling(t *testing.T, survivor, victim *plant, ttl int) *killing {
	t.Helper()
	sku, key := survivor.item(t, fmt.Sprint("K", kills.Add(1)))
	return &killing{plant: victim, t: t, sku: sku, key: key, ttl: ttl}
}

// poised is ready to do the act, after doing it once under another key.
func poised(t *testing.T, survivor, victim *plant, a act) *killing {
	t.Helper()
	other := newKilling(t, survivor, victim, 60000)
	a.prepare(other)
	try(t, victim.Gateway, a.request(other), a.status)
	k := newKilling(t, survivor, victim, shortTTL)
	a.prepare(k)
	k.before = k.left()
	k.pg.Reset()
	k.redis.Reset()
	return k
}

// tries is how often a machine may be too slow for one moment.
const tries = 10

// tooSlow reports whether it was: the lease, short so that a dead gateway's is
// soon over, ran out before the write came, or Redis did not answer in time.
func tooSlow(t *testing.T, answer testenv.Response) bool {
	t.Helper()
	slow := answer.Header.Get("Fencing-Refused") == "lease_expired" ||
		answer.Status == http.StatusServiceUnavailable && answer.Problem(t).Slug() == "lock_service_unavailable"
	if slow {
		t.Logf("too slow: %s", answer.Body)
	}
	return slow
}

// killed returns once a gateway has died at that moment.
func killed(t *testing.T, survivor *plant, m moment) *killing {
	t.Helper()
	for range tries {
		k := poised(t, survivor, survivor.sibling(t), m.act)
		k.arm(m)
		answer, err := k.Try(t, t.Context(), m.act.request(k))
		switch {
		case k.struck.Load():
			return k
		case err != nil || !tooSlow(t, answer):
			t.Fatalf("it was not killed: %v %d %s\n%s", err, answer.Status, answer.Body, k.pg.Story())
		}
	}
	t.Fatalf("no gateway came to this moment in %d tries", tries)
	return nil
}

func killAt(t *testing.T, survivor *plant, m moment) {
	k := killed(t, survivor, m)
	// What the dead gateway had sent is acted upon, then nothing of it is left.
	k.pg.Settle()
	k.redis.Settle()
	k.wantForwarded(m)
	k.wantEffect(m)
	if t.Failed() {
		t.Logf("what %s sent PostgreSQL:\n%s", k.key, k.pg.Story())
	}

	highest := one[int64](t, k.sql, `SELECT coalesce(max(token), 0) FROM fencegate.marks WHERE lock_key = $1`, k.key)
	k.findClaim(m)
	leases := survivor.leases(t)
	if left := leases.PTTL(t.Context(), leases.prefix+k.key).Val(); left > shortTTL*time.Millisecond || left == -1 {
		t.Errorf("the lease blocks its key for %s", left)
	}
	next, err := leases.takeOver(t, survivor.Gateway, k.key, 60000)
	must(t, err)
	if token(t, next) <= highest {
		t.Errorf("token %s, the mark was at %d", next.Token, highest)
	}
	before := one[int](t, k.sql, `SELECT available FROM shop.inventory WHERE sku = $1`, k.sku)
	if k.claim.Token != "" {
		wantProblem(t, set(t, survivor.Gateway, k.claim, k.sku, 99), 412, "stale_token")
	}
	if now := one[int](t, k.sql, `SELECT available FROM shop.inventory WHERE sku = $1`, k.sku); now != before {
		t.Errorf("the dead claim wrote %d", now)
	}
	wantStatus(t, set(t, survivor.Gateway, next, k.sku, 3), 204)
}

// arm makes the gateway die at m.
func (k *killing) arm(m moment) {
	die := func() { k.struck.Store(true); k.Kill(k.t) }
	send := func() testenv.Extent { die(); return m.where.extent }
	lose := func() bool { die(); return false }
	switch {
	case m.wire == "postgres" && m.where == unanswered:
		k.pg.OnAnswer(m.batch.Like, lose)
	case m.wire == "postgres":
		k.pg.OnBatch(m.batch.Like, send)
	case m.where == unanswered:
		k.redis.OnReply(m.n, lose)
	default:
		k.redis.OnRequest(m.n, func() bool { return send() == testenv.Whole })
	}
}

// wantForwarded checks that the gateway died at that moment, so that what is
// wanted in the database is wanted with reason.
func (k *killing) wantForwarded(m moment) {
	k.t.Helper()
	if m.wire != "postgres" {
		return
	}
	got := k.batches()
	if len(got) != m.n || !got[m.n-1].Like(m.batch) || got[m.n-1].Forwarded != m.where.extent {
		k.t.Errorf("it died after %d batches, not with number %d forwarded: %s", len(got), m.n, m.where.extent)
	}
}

// wantEffect checks that the act has its whole effect if the database was told,
// and else none.
func (k *killing) wantEffect(m moment) {
	k.t.Helper()
	want := k.before
	if k.told(m.act) {
		m.act.effect(&want)
	}
	if got := k.left(); got != want {
		k.t.Errorf("left is %+v, want %+v", got, want)
	}
}

// findClaim looks up what a killed acquire had got, which nobody was told.
func (k *killing) findClaim(m moment) {
	k.t.Helper()
	if m.act.name != "acquire" {
		return
	}
	var holder, tokenText string
	err := k.sql.QueryRow(k.t.Context(), `SELECT holder, token::text FROM fencegate.marks WHERE lock_key = $1`, k.key).Scan(&holder, &tokenText)
	if err != nil {
		return // it was not granted
	}
	k.claim = testenv.Lease{Key: k.key, Holder: holder, Token: tokenText, Headers: map[string]string{
		"Lock-Key": k.key, "Lock-Holder": holder, "Fencing-Token": tokenText,
	}}
}
