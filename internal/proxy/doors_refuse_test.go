package proxy_test

import (
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// Each row that there is to write to has a lock of its own.
const doorsSQL = `
CREATE TABLE shop.stock (sku text, line integer DEFAULT 0, n integer DEFAULT 0, note text, PRIMARY KEY (sku, line));
CREATE TABLE shop.read_only (LIKE shop.stock INCLUDING ALL);
CREATE TABLE shop.no_insert (LIKE shop.stock INCLUDING ALL);
CREATE TABLE shop.no_update (LIKE shop.stock INCLUDING ALL);
CREATE TABLE shop.no_delete (LIKE shop.stock INCLUDING ALL);
CREATE FUNCTION shop.fill() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY '{stock,read_only,no_insert,no_update,no_delete}'::text[] LOOP
        EXECUTE format('TRUNCATE shop.%I', t);
        EXECUTE format($q$INSERT INTO shop.%I (sku) VALUES ('live'), ('there'), ('stale'), ('released'), ('other'), ('future'), ('expired'), ('never')$q$, t);
    END LOOP;
END $$;
SELECT shop.fill();
CREATE FUNCTION shop.lift(sku text) RETURNS integer LANGUAGE sql AS
    $$ UPDATE shop.stock AS s SET n = n + 1 WHERE s.sku = $1 RETURNING n $$;
CREATE FUNCTION shop.hidden(sku text) RETURNS integer LANGUAGE sql AS
    $$ UPDATE shop.stock AS s SET n = n + 1 WHERE s.sku = $1 RETURNING n $$;
CREATE FUNCTION shop.lift_all(sku text) RETURNS void LANGUAGE sql AS
    $$ UPDATE shop.stock SET n = n + 1 $$;
`

const doorsTables = `tables:
  - {name: shop.stock, lock: "stock:{sku}"}
  - {name: shop.read_only, lock: "stock:{sku}", operations: [select]}
  - {name: shop.no_insert, lock: "stock:{sku}", operations: [select, update, delete]}
  - {name: shop.no_update, lock: "stock:{sku}", operations: [select, insert, delete]}
  - {name: shop.no_delete, lock: "stock:{sku}", operations: [select, insert, update]}
`

const doorsRoutines = `statements:
  - name: raise
    sql: UPDATE shop.stock SET n = n + 1 WHERE sku = :sku RETURNING n
    params: {sku: text}
    lock: "stock:{sku}"
  - name: count_all
    sql: SELECT count(*) FROM shop.stock WHERE sku <> :sku
    params: {sku: text}
    lock: "stock:{sku}"
functions:
  - {name: shop.lift, lock: "stock:{sku}"}
  - {name: shop.lift_all, lock: "stock:{sku}"}
`

// dead is a claim that the fence must refuse, and for what.
type dead struct {
	claim testenv.Lease
	code  string
}

// deadClaims are one for the row of each name.
func deadClaims(t *testing.T, g *testenv.Gateway) map[string]dead {
	t.Helper()
	acquire := func(row string) testenv.Lease { return g.Acquire(t, "stock:"+row, 300_000) }
	stale := acquire("stale")
	g.Release(t, stale)
	acquire("stale")
	released := acquire("released")
	g.Release(t, released)
	mine, other, future := acquire("mine"), acquire("other"), acquire("future")
	expired := g.Acquire(t, "stock:expired", 100)
	awaitExpiry(t, g, expired.Key)
	return map[string]dead{
		"stale":    {stale, "stale_token"},
		"released": {released, "lease_released"},
		"other":    {forged(other.Key, mine.Holder, other.Token), "holder_mismatch"},
		"future":   {forged(future.Key, future.Holder, "1000"), "token_not_granted"},
		"never":    {forged("stock:never", mine.Holder, mine.Token), "token_not_granted"},
		"expired":  {expired, "lease_expired"},
	}
}

func forged(key, holder, token string) testenv.Lease {
	return testenv.Lease{Key: key, Holder: holder, Token: token,
		Headers: map[string]string{"Lock-Key": key, "Lock-Holder": holder, "Fencing-Token": token}}
}

func TestNoDoorPassesTheFence(t *testing.T) {
	t.Parallel()
	g := startOn(t, doorsSQL, doorsTables+doorsRoutines, shortLeases)
	h := hall{
		refusals: map[string]refusal{},
		Gateway:  g, witness: watch(t, g), dead: deadClaims(t, g),
		live: g.Acquire(t, "stock:live", 300_000), fresh: g.Acquire(t, "stock:fresh", 300_000), spare: g.Acquire(t, "stock:spare", 300_000),
	}
	count := func(table string) int { return scalar[int](t, h.pool, `SELECT count(*) FROM fencegate.`+table) }
	for _, d := range doors() {
		t.Run("WithoutALock/"+d.name, func(t *testing.T) { h.withoutALock(t, d) })
		t.Run("NotConfiguredForIt/"+d.name, func(t *testing.T) { h.notConfigured(t, d) })
	}
	if records, keys := count("refusals"), count("answers"); records != 0 || keys != 0 {
		t.Errorf("requests that the fence never saw have %d records and used up %d idempotency keys", records, keys)
	}
	for _, d := range doors() {
		t.Run("UnderADeadClaim/"+d.name, func(t *testing.T) { h.underADeadClaim(t, d) })
		t.Run("UnderAnotherLock/"+d.name, func(t *testing.T) { h.underAnotherLock(t, d) })
	}
	h.everyRefusalIsRecorded(t)
	for _, d := range doors() {
		t.Run("UnderItsOwnLock/"+d.name, func(t *testing.T) { h.underItsOwnLock(t, d) })
	}
}

// hall is a gateway, and the claims to try its doors with.
type hall struct {
	*testenv.Gateway
	*witness
	dead               map[string]dead
	live, fresh, spare testenv.Lease
	refusals           map[string]refusal // that must be recorded, by their ids
}

func (h *hall) locks(d door, l testenv.Lease) []testenv.Lease {
	if d.spare {
		return []testenv.Lease{h.spare, l}
	}
	return []testenv.Lease{l}
}

func (h *hall) withoutALock(t *testing.T, d door) {
	h.refused(t, h.Gateway, d.ask(d.target(), "live", d.name), want{status: 428, slug: "fencing_required"})
	for name := range h.live.Header() {
		if d.route == transact { // its locks stand in the body, and nowhere else
			q := d.ask(d.target(), "live", d.name)
			q.Header.Set(name, h.live.Header().Get(name))
			h.refused(t, h.Gateway, q, want{status: 400, slug: "unsupported_header", parameter: name})
			continue
		}
		q := d.ask(d.target(), "live", d.name, h.live)
		q.Header.Del(name)
		h.refused(t, h.Gateway, q, want{status: 428, slug: "fencing_required", parameter: name})
	}
}

func (h *hall) notConfigured(t *testing.T, d door) {
	denied := want{status: 403, slug: "forbidden", code: "42501"}
	if d.call != "" {
		denied = want{status: 404, slug: "unknown_routine"}
	}
	for _, target := range d.denied() {
		h.refused(t, h.Gateway, d.ask(target, "live", d.name, h.locks(d, h.live)...), denied)
	}
}

func (h *hall) underADeadClaim(t *testing.T, d door) {
	for row, dead := range h.dead {
		answer := h.Do(t, d.ask(d.target(), row, row+d.name, h.locks(d, dead.claim)...))
		p := mustRefuse(t, answer, want{status: 412, slug: dead.code})
		if got := answer.Header.Get("Fencing-Refused"); got != dead.code {
			t.Errorf("Fencing-Refused is %q", got)
		}
		h.unchanged(t)
		h.recorded(d, p, dead.claim, dead.code)
	}
}

func (h *hall) underAnotherLock(t *testing.T, d door) {
	rows := []string{"there"}
	switch {
	case d.makes:
		rows = []string{"absent"}
	case d.ops == "insert update":
		rows = []string{"there", "absent"}
	}
	for _, row := range rows {
		p := h.refused(t, h.Gateway, d.ask(d.target(), row, row+d.name, h.locks(d, h.live)...), want{status: 403, slug: "lock_scope"})
		h.recorded(d, p, h.live, "lock_scope")
	}
}

// recorded notes what the record of a refusal must say.
func (h *hall) recorded(d door, p testenv.Problem, claim testenv.Lease, code string) {
	h.refusals[p.AuditID] = refusal{Code: code, Key: claim.Key, Token: claim.Token, RequestID: p.RequestID, Table: d.target()}
}

func (h *hall) everyRefusalIsRecorded(t *testing.T) {
	t.Helper()
	records := listed(t, h.Gateway, "limit=1000")
	for _, r := range records {
		want := h.refusals[r.ID]
		if r.Code != want.Code || r.Disposition != "refused" || r.Key != want.Key || r.Token != want.Token || r.RequestID != want.RequestID ||
			r.Operation == "" || !strings.Contains(r.Table, want.Table) {
			t.Errorf("recorded as %+v, not %+v", r, want)
		}
	}
	if len(records) != len(h.refusals) {
		t.Errorf("%d records of %d refusals", len(records), len(h.refusals))
	}
}

// underItsOwnLock shows that nothing but the lock was missing, and that the
// idempotency keys of requests that could not be applied are free.
func (h *hall) underItsOwnLock(t *testing.T, d door) {
	row, l := "live", h.live
	if d.makes {
		row, l = "fresh", h.fresh
	}
	answer := h.Do(t, d.ask(d.target(), row, d.name, h.locks(d, l)...))
	if answer.Status >= 300 || answer.Header.Get("Idempotency-Replayed") != "" {
		t.Errorf("%d %v %s", answer.Status, answer.Header, answer.Body)
	}
	if changed := h.look(t) != h.before; changed == d.trial {
		t.Errorf("something was written: %t", changed)
	}
	if _, err := h.pool.Exec(t.Context(), `SELECT shop.fill()`); err != nil {
		t.Fatal(err)
	}
}
