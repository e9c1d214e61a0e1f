package chaos_test

import (
	"fmt"
	"net/http"
	"sync"
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
}

var acts = []act{
	{"acquire", func(*killing) {}, func(k *killing) testenv.Request { return acquireRequest(k.key, shortTTL) }, 201},
	{"write", (*killing).hold, func(k *killing) testenv.Request { return setRequest(k.claim, k.sku, 7) }, 204},
	{"bulk insert", (*killing).hold, (*killing).bulk, 201},
	{"release", (*killing).hold, func(k *killing) testenv.Request { return releaseRequest(k.claim) }, 200},
	{"refusal", func(k *killing) { k.claim = k.stale(k.t, k.key) }, func(k *killing) testenv.Request { return setRequest(k.claim, k.sku, 8) }, 412},
}

// killing is one gateway that is killed in the middle of one act.
type killing struct {
	*plant
	t        *testing.T
	sku, key string
	claim    testenv.Lease // what the act is done under; of an acquire: what it may have got
}

// hold gives the worker its lease.
func (k *killing) hold() { k.claim = k.Acquire(k.t, k.key, shortTTL) }

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

// moment is where in an act the gateway dies.
type moment struct {
	act   act
	wire  string
	where string // "unsent", "sent" (dead before the server acts), "unanswered"
	n     int
}

func (m moment) String() string { return fmt.Sprintf("%s/%s %d %s", m.act.name, m.wire, m.n, m.where) }

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
		k, warmed := poised(t, survivor, survivor, "count-"+a.name, a)
		wantStatus(t, k.Do(t, a.request(k)), a.status)
		for time.Since(warmed) > pingAfter { // a ping may have been counted
			k, warmed = poised(t, survivor, survivor, "count-"+a.name, a)
			wantStatus(t, k.Do(t, a.request(k)), a.status)
		}
		for wire, count := range map[string]int{"postgres": k.pg.Requests(), "redis": k.redis.Requests()} {
			for n := range count {
				for _, where := range []string{"unsent", "sent", "unanswered"} {
					all = append(all, moment{a, wire, where, n + 1})
				}
			}
		}
	}
	return all
}

var kills struct {
	sync.Mutex
	n int
}

func newKilling(t *testing.T, survivor, victim *plant, name string) *killing {
	t.Helper()
	kills.Lock()
	kills.n++
	n := kills.n
	kills.Unlock()
	sku, key := survivor.item(t, fmt.Sprintf("K%d", n))
	return &killing{plant: victim, t: t, sku: sku, key: key}
}

// poised is warm and arranged within so short a time that the pools will not ask
// an idle connection whether it lives: that would be a message more.
func poised(t *testing.T, survivor, victim *plant, name string, a act) (_ *killing, warmed time.Time) {
	t.Helper()
	for {
		k := newKilling(t, survivor, victim, name)
		k.warm(a)
		warmed = time.Now()
		k.arrange(a)
		if time.Since(warmed) < pingAfter/2 {
			return k, warmed
		}
	}
}

// warm does the act once under another key, so that what follows is that act's
// own messages alone.
func (k *killing) warm(a act) {
	k.t.Helper()
	other := newKilling(k.t, k.plant, k.plant, "")
	a.prepare(other)
	wantStatus(k.t, k.Do(k.t, a.request(other)), a.status)
}

func (k *killing) arrange(a act) {
	a.prepare(k)
	k.pg.Reset()
	k.redis.Reset()
}

// killed returns once a gateway has died at that moment.
func killed(t *testing.T, survivor *plant, m moment) *killing {
	t.Helper()
	for range 5 {
		k, _ := poised(t, survivor, survivor.sibling(t), m.String(), m.act)
		k.arm(m)
		answer, err := k.Try(t, t.Context(), m.act.request(k))
		if err != nil {
			return k
		}
		t.Logf("it was not killed: %d %s", answer.Status, answer.Body)
	}
	t.Fatal("five gateways were not killed at this moment")
	return nil
}

func killAt(t *testing.T, survivor *plant, m moment) {
	k := killed(t, survivor, m)
	// What the dead gateway had sent is acted upon, then nothing of it is left.
	k.pg.Settle()
	k.redis.Settle()
	k.wantWhole(m)

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
	wire := k.pg
	if m.wire == "redis" {
		wire = k.redis
	}
	die := func(forward bool) func() bool {
		return func() bool { k.Kill(k.t); return forward }
	}
	switch m.where {
	case "unsent":
		wire.OnRequest(m.n, die(false))
	case "sent":
		wire.OnRequest(m.n, die(true))
	case "unanswered":
		wire.OnReply(m.n, die(false))
	}
}

// wantWhole checks that what the act changes was changed as a whole or not at
// all, and did happen if the database was told to.
func (k *killing) wantWhole(m moment) {
	k.t.Helper()
	available := one[int](k.t, k.sql, `SELECT available FROM shop.inventory WHERE sku = $1`, k.sku)
	entries := one[int](k.t, k.sql, `SELECT count(*) FROM shop.journal WHERE sku = $1`, k.sku)
	batch := one[int](k.t, k.sql, `SELECT count(*) FROM shop.batch WHERE sku = $1`, k.sku)
	told := m.wire == "postgres" && m.where != "unsent"
	want := map[bool][3]int{}
	switch m.act.name {
	case "write":
		want[true] = [3]int{7, 1, 0}
	case "bulk insert":
		want[true] = [3]int{0, 0, 3}
	}
	// Nobody was answered, so what had left the gateway may be there or not (I6),
	// whole in any case; what had not left it is not there.
	if got := [3]int{available, entries, batch}; got != want[false] && !(told && got == want[true]) {
		k.t.Errorf("available, journal, batch: %v, want %v or, once sent, %v", got, want[false], want[true])
	}
	recorded := 0
	if m.act.name == "refusal" && told && m.n == 2 {
		recorded = 1
	}
	if n := one[int](k.t, k.sql, `SELECT count(*) FROM fencegate.refusals WHERE lock_key = $1`, k.key); n > recorded {
		k.t.Errorf("%d records of a refusal, want %d at most", n, recorded)
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
