package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/testenv"
)

// observing is text of a configuration with everything in it in observe mode.
func observing(config string) string {
	return strings.NewReplacer(`lock: "stock:{sku}"`, `lock: "stock:{sku}", mode: observe`,
		"\n    lock: \"stock:{sku}\"", "\n    lock: \"stock:{sku}\"\n    mode: observe").Replace(config)
}

// scene is a gateway whose tables are all observed, and the claims to try its doors
// with.
type scene struct {
	*testenv.Gateway
	pool        *pgxpool.Pool
	live, spare testenv.Lease
}

func TestEveryDoorLetsThroughWhatItObserves(t *testing.T) {
	t.Parallel()
	g := startOn(t, doorsSQL, observing(doorsTables+doorsRoutines), shortLeases)
	s := scene{Gateway: g, pool: g.Database.Pool(t), live: g.Acquire(t, "stock:live", 300_000), spare: g.Acquire(t, "stock:spare", 300_000)}
	claims := deadClaims(t, g)
	marks := s.marks(t)
	for _, d := range doors() {
		t.Run("WithoutALock/"+d.name, func(t *testing.T) { s.letsThrough(t, d, "live", testenv.Lease{}, "fencing_required") })
		t.Run("WithABrokenLock/"+d.name, func(t *testing.T) {
			s.letsThrough(t, d, "live", forged(s.live.Key, s.live.Holder, "007"), "fencing_malformed")
		})
		for row, dead := range claims {
			t.Run("UnderADeadClaim/"+row+"/"+d.name, func(t *testing.T) { s.letsThrough(t, d, row, dead.claim, dead.code) })
		}
		t.Run("UnderAnotherLock/"+d.name, func(t *testing.T) { s.letsThrough(t, d, "there", s.live, "lock_scope") })
		t.Run("UnderItsOwnLock/"+d.name, func(t *testing.T) { s.letsThrough(t, d, "live", s.live, "") })
		t.Run("NotConfiguredForIt/"+d.name, func(t *testing.T) { s.stillDenies(t, d) })
	}
	if now := s.marks(t); now != marks {
		t.Errorf("the marks have moved to\n%s from\n%s", now, marks)
	}
}

func (s *scene) marks(t *testing.T) string {
	t.Helper()
	return scalar[string](t, s.pool, `SELECT string_agg(m::text, E'\n' ORDER BY lock_key) FROM fencegate.marks AS m`)
}

// ask is d's request under the claim, and under spare if d has two locks; under none
// if the claim is empty.
func (s *scene) ask(d door, row, key string, claim testenv.Lease) testenv.Request {
	switch {
	case claim.Key == "":
		q := d.ask(d.target(), row, key)
		q.Broken = false
		return q
	case d.spare:
		return d.ask(d.target(), row, key, s.spare, claim)
	}
	return d.ask(d.target(), row, key, claim)
}

// letsThrough: the write is applied and told, and has one record of what it would
// have been refused for; none if that is "". A trial leaves neither rows nor record,
// and a repeat nothing more.
func (s *scene) letsThrough(t *testing.T, d door, row string, claim testenv.Lease, code string) {
	t.Helper()
	before, last := s.stock(t, !d.makes), s.newest(t)
	q := s.ask(d, row, code+row+d.name, claim)
	q.Broken = code == "fencing_malformed"
	answer := s.Do(t, q)
	if got := answer.Header.Get("Fencing-Observed"); answer.Status >= 300 || got != code {
		t.Fatalf("%d, Fencing-Observed %q, not %q: %s", answer.Status, got, code, answer.Body)
	}
	after := s.look(t)
	if (after != before) == d.trial {
		t.Errorf("something was written: %t", after != before)
	}
	if token := answer.Header.Get("Fencing-Token"); token != "" && (code != "" || token != claim.Token) {
		t.Errorf("Fencing-Token is %q", token)
	}
	if again := s.Do(t, q); !d.trial && again.Header.Get("Idempotency-Replayed") != "true" || again.Status != answer.Status {
		t.Errorf("the repeat is answered %d %v %s", again.Status, again.Header, again.Body)
	}
	if s.look(t) != after {
		t.Error("the repeat has written")
	}
	s.recordedOnce(t, d, last, claim, code, answer.Header)
}

// stock begins anew, with a row of every name or with none.
func (s *scene) stock(t *testing.T, full bool) (look string) {
	t.Helper()
	if _, err := s.pool.Exec(t.Context(), `DELETE FROM shop.stock`); err != nil {
		t.Fatal(err)
	}
	if full {
		if _, err := s.pool.Exec(t.Context(), `INSERT INTO shop.stock (sku) SELECT sku FROM shop.read_only`); err != nil {
			t.Fatal(err)
		}
	}
	return s.look(t)
}

// look is all that the doors can write to.
func (s *scene) look(t *testing.T) string {
	t.Helper()
	return scalar[string](t, s.pool, `SELECT coalesce(string_agg(r::text, ' ' ORDER BY sku, line), '') FROM shop.stock AS r`)
}

func (s *scene) newest(t *testing.T) string {
	t.Helper()
	for _, r := range listed(t, s.Gateway, "limit=1") {
		return r.ID
	}
	return ""
}

func (s *scene) recordedOnce(t *testing.T, d door, last string, claim testenv.Lease, code string, h http.Header) {
	t.Helper()
	records := listed(t, s.Gateway, "limit=2")
	if code == "" || d.trial {
		if len(records) > 0 && records[0].ID != last {
			t.Errorf("recorded as %+v", records[0])
		}
		return
	}
	r := records[0]
	if code == "fencing_malformed" { // as much as there was of it
		claim.Token = ""
		if d.route == transact {
			claim.Key = ""
		}
	}
	if r.ID == last || len(records) > 1 && last != "" && records[1].ID != last {
		t.Errorf("not recorded once: %+v after %s", records, last)
	}
	if r.Code != code || r.Disposition != "admitted" || r.Key != claim.Key || r.Token != claim.Token ||
		r.RequestID != h.Get("Request-Id") || r.Operation == "" || !strings.Contains(r.Table, d.target()) {
		t.Errorf("recorded as %+v, not as %s under %+v", r, code, claim)
	}
}

// stillDenies: what has nothing to do with the lock is as it is under enforcement.
func (s *scene) stillDenies(t *testing.T, d door) {
	denied := want{status: 403, slug: "forbidden", code: "42501"}
	if d.call != "" {
		denied = want{status: 404, slug: "unknown_routine"}
	}
	last := s.newest(t)
	before := s.look(t)
	for _, target := range d.denied() {
		mustRefuse(t, s.Do(t, d.ask(target, "live", "", s.live)), denied)
	}
	if s.look(t) != before {
		t.Error("something was written")
	}
	if now := s.newest(t); now != last {
		t.Errorf("it has the record %s", now)
	}
}
