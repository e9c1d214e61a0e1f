package gate

import (
	"errors"
	"testing"

	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/statement"
)

// A door that forgets the lock must not open the fence.
func TestNothingIsWrittenWithoutALockUnlessAllOfItIsObserved(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	seen := *s.table
	seen.Observe = true
	change := func(observed bool) statement.Mutation {
		m := s.change("late")
		if observed {
			m.Table = &seen
		}
		return m
	}
	without := &Unclaimed{Code: FencingRequired, Claim: lease.Claim{Key: shelfKey}}
	for name, each := range map[string]struct {
		unclaimed *Unclaimed
		mutations []statement.Mutation
		passes    bool
	}{
		"Enforced":              {without, []statement.Mutation{change(false)}, false},
		"OneOfTwoEnforced":      {without, []statement.Mutation{change(true), change(false)}, false},
		"Nothing":               {without, nil, false},
		"ObservedAndNotSaidWhy": {nil, []statement.Mutation{change(true)}, false},
		"Observed":              {without, []statement.Mutation{change(true)}, true},
	} {
		s.db.Exec(t, `UPDATE item SET value = 'before'`)
		result, err := s.gate.Write(t.Context(), Write{Principal: auth.Anyone, Origin: origin, Unclaimed: each.unclaimed, Mutations: each.mutations})
		if passed := err == nil && s.value() == "late"; passed != each.passes || !passed && !errors.Is(err, ErrUnclaimed) {
			t.Errorf("%s: %v, the row has %q", name, err, s.value())
		}
		if each.passes && (len(result.Observed) != 1 || result.Observed[0].Code != FencingRequired || result.Observed[0].AuditID == 0 || result.Observed[0].Claim.Key != shelfKey) {
			t.Errorf("%s: %+v", name, result)
		}
	}
}

// A claim that the fence would admit has its mark locked, so that a grant waits for
// its write in observe mode as well; any other locks nothing.
func TestAnObservedHolderIsOvertakenByNoGrant(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	old := s.grant(t, s.gate, shelfKey)
	s.expire(t, old)
	now := s.grant(t, s.gate, shelfKey)
	for claim, waits := range map[lease.Claim]bool{now: true, old: false} {
		tx, err := s.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `SELECT fencegate.admit(ARRAY[$1], ARRAY[$2], ARRAY[$3::bigint], true)`,
			string(claim.Key), claim.Holder.Wire(), int64(claim.Token)); err != nil {
			t.Fatal(err)
		}
		const raise = `SET lock_timeout = '50ms'; UPDATE fencegate.marks SET state = 'held'; RESET lock_timeout`
		if _, err := s.pool.Exec(t.Context(), raise); (err != nil) != waits {
			t.Errorf("token %s: %v", claim.Token, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
