package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/lease"
)

// arrive is an attempt that passed the lease check when its leases were alive,
// and reaches the database only now.
func (s *shelf) arrive(claims []lease.Claim, once Once) error {
	w := s.under(claims, once)
	plan, err := w.plan()
	if err != nil {
		return err
	}
	_, err = s.gate.commit(s.Context(), w, plan, false)
	return err
}

// under is a write of row a under any claims, which are sorted by key.
func (s *shelf) under(claims []lease.Claim, once Once) Write {
	w := s.appending(claims[0], once)
	w.Claims = claims
	return w
}

// manyClaims lists the sets of claims on item:a and item:b that a worker could
// present: each lock left out, right, or one of them with a token that nobody
// granted, or with another holder.
func manyClaims(a, b lease.Claim) (sets [][]lease.Claim) {
	variants := func(claim lease.Claim) [][]lease.Claim {
		forged, mistyped := claim, claim
		forged.Token = 1<<63 - 1
		mistyped.Holder = lease.NewHolder()
		return [][]lease.Claim{nil, {claim}, {forged}, {mistyped}}
	}
	for i, one := range variants(a) {
		for j, other := range variants(b) {
			if set := slices.Concat(one, other); len(set) > 0 && (i < 2 || j < 2) {
				sets = append(sets, set)
			}
		}
	}
	return sets
}

// retries sends a request under every set of claims, and again, as an attempt that
// comes late, under every other. between is what happens to the tombstone of a
// refused one. It returns what is not as it should be.
func retries(s *shelf, a, b lease.Claim, between func(once Once, refused []lease.Claim)) (violations []string) {
	sets := manyClaims(a, b)
	for i, first := range sets {
		for j, next := range sets {
			once := Once{Key: fmt.Sprint("request-", i, "-", j), Fingerprint: "f"}
			before := s.value()
			_, err := s.gate.Write(s.Context(), s.under(first, once))
			refused := refusals(err)
			if len(refused) == 0 {
				if err != nil || s.value() == before {
					s.Fatalf("%v: %v, the row holds %q", first, err, s.value())
				}
				continue
			}
			between(once, first)
			late := s.arrive(next, once)
			if broken := judge(first, next, []lease.Claim{a, b}, all(refused), late); broken != "" {
				violations = append(violations, fmt.Sprintf("%s: refused under %v (%v), then under %v: %v", broken, first, err, next, late))
			}
			if after := s.value(); (late == nil) != (after != before) {
				s.Fatalf("%v, the row went from %q to %q", late, before, after)
			}
		}
	}
	return violations
}

// all are the refusals of a write that was recorded as the first of them.
func all(refused []*Refused) []*Refused { return append(refused, refused[0].Others...) }

// judge tells what is wrong about err, which an attempt under the claims next met
// after one under first was refused.
func judge(first, next, granted []lease.Claim, refused []*Refused, err error) string {
	ended := slices.ContainsFunc(refused, func(r *Refused) bool {
		return r.Code == LeaseExpired && slices.Contains(next, r.Claim)
	})
	honest := !slices.ContainsFunc(next, func(c lease.Claim) bool { return !slices.Contains(granted, c) })
	covered := slices.ContainsFunc(next, func(c lease.Claim) bool { return c.Key == shelfKey })
	again := refusals(err)
	switch {
	case err == nil && (ended || slices.Equal(first, next)):
		return "APPLIED after it was refused"
	case err != nil && honest && covered && !ended && !slices.Equal(first, next):
		return "STOPPED though nothing that it presents was refused"
	case err != nil && len(again) == 0:
		return "NO REFUSAL"
	case slices.ContainsFunc(again, func(r *Refused) bool { return r.Claim.Key != "" && !slices.Contains(next, r.Claim) }):
		return "ABOUT a claim that was not presented"
	case len(again) > 0 && strings.Contains(again[0].Detail, "refused before") &&
		!slices.ContainsFunc(refused, func(r *Refused) bool { return r.Claim == again[0].Claim && r.Code == again[0].Code }):
		return "ABOUT another claim than was refused before"
	}
	return ""
}

// TestTombstones holds every refused attempt against every attempt that comes late
// or corrected, while the leases live and after one of them has ended.
func TestTombstones(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ended  []lease.Key
		breaks []string // what a ranking by the sum of the tokens gets wrong
	}{
		"LeasesLive":       {nil, []string{"STOPPED", "ABOUT"}},
		"OneHasEnded":      {[]lease.Key{shelfKey}, []string{"APPLIED", "ABOUT"}},
		"TheOtherHasEnded": {[]lease.Key{"item:b"}, []string{"APPLIED", "STOPPED", "ABOUT"}},
	} {
		stage := func(t *testing.T) (*shelf, lease.Claim, lease.Claim) {
			s := newCounter(t)
			a, b := s.grant(t, s.gate, shelfKey), s.grant(t, s.gate, "item:b")
			for _, claim := range []lease.Claim{a, b} {
				if slices.Contains(c.ended, claim.Key) {
					s.expire(t, claim)
				}
			}
			return s, a, b
		}
		t.Run("I6/"+name, func(t *testing.T) {
			t.Parallel()
			s, a, b := stage(t)
			if violations := retries(s, a, b, func(Once, []lease.Claim) {}); len(violations) > 0 {
				t.Fatalf("%d violations:\n%s", len(violations), strings.Join(violations, "\n"))
			}
		})
		t.Run("I6/"+name+"/Control", func(t *testing.T) {
			t.Parallel()
			s, a, b := stage(t)
			violations := retries(s, a, b, func(once Once, refused []lease.Claim) {
				const query = `UPDATE fencegate.answers SET stops = jsonb_build_array(jsonb_build_object('code', code, 'rank', $1::text)) WHERE idempotency_key = $2`
				if _, err := s.pool.Exec(t.Context(), query, sumOf(refused), once.Key); err != nil {
					t.Fatal(err)
				}
			})
			for _, kind := range c.breaks {
				if !slices.ContainsFunc(violations, func(v string) bool { return strings.HasPrefix(v, kind) }) {
					t.Errorf("ranked by the sum of their tokens, no attempt is wrongly %s: this test can't fail", kind)
				}
			}
		})
	}
}

func sumOf(claims []lease.Claim) string {
	sum := uint64(0)
	for _, claim := range claims {
		sum += uint64(claim.Token)
	}
	return fmt.Sprint(min(sum, 1<<63-1))
}

func TestATombstoneForgetsWhatTheMarkHasLeftBehind(t *testing.T) {
	t.Parallel()
	s := newCounter(t)
	once := Once{Key: "request", Fingerprint: "f"}
	for range 5 {
		claim := s.grant(t, s.gate, shelfKey)
		s.expire(t, claim)
		if got := code(second(s.append(claim, once))); got != LeaseExpired {
			t.Fatalf("refused with %q", got)
		}
	}
	var stops string
	if err := s.pool.QueryRow(t.Context(), `SELECT string_agg(s ->> 'claims', ' ') FROM fencegate.answers, jsonb_array_elements(stops) AS s`).Scan(&stops); err != nil {
		t.Fatal(err)
	}
	if strings.Count(stops, "token") != 1 || !strings.Contains(stops, `"token": "5"`) {
		t.Errorf("stopped are %s", stops)
	}
}

func TestAStoppedAttemptIsRecordedAgainstTheRefusedClaim(t *testing.T) {
	t.Parallel()
	s := newCounter(t)
	once := Once{Key: "request", Fingerprint: "f"}
	a, b := s.grant(t, s.gate, shelfKey), s.grant(t, s.gate, "item:b")
	s.expire(t, b)
	for attempt := range 2 {
		_, err := s.gate.Write(t.Context(), s.under([]lease.Claim{a, b}, once))
		var refused *Refused
		if !errors.As(err, &refused) || refused.Code != LeaseExpired {
			t.Fatal(err)
		}
		record, err := audit.NewReader(s.pool).Get(t.Context(), refused.AuditID)
		if err != nil || record.Claim.Key != b.Key || record.HolderDigest != b.Holder.Digest() || record.Claim.Token != b.Token {
			t.Errorf("attempt %d is recorded as %+v, %v", attempt, record, err)
		}
		s.gate.Store, s.gate.Lenient = everybodyLives{s.gate.Store}, true // the second one passes the lease check
	}
	if _, err := s.append(a, once); err != nil {
		t.Errorf("without the lock that ended: %v", err)
	}
}

func TestAForgedTokenIsNotHeldAgainstTheRightOne(t *testing.T) {
	t.Parallel()
	s := newCounter(t)
	claim := s.grant(t, s.gate, shelfKey)
	once := Once{Key: "request", Fingerprint: "f"}
	forged := claim
	forged.Token = 1<<63 - 1
	for range 2 {
		if got := code(second(s.append(forged, once))); got != fence.TokenNotGranted {
			t.Fatalf("refused with %q", got)
		}
	}
	if result, err := s.append(claim, once); err != nil || result.Replayed || s.value() != written {
		t.Errorf("%+v, %v, the row holds %q", result, err, s.value())
	}
}

// An attempt under right claims waits for its turn in one gateway, and another
// under a mistyped holder is to be refused. In the same gateway that waits for the
// first; what another gateway has under way nobody can know.
func TestARefusalWaitsForWhatIsUnderWayInTheSameGateway(t *testing.T) {
	t.Parallel()
	for name, same := range map[string]bool{"TheSame": true, "AnotherControl": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newCounter(t)
			claim := s.grant(t, s.gate, shelfKey)
			mistyped := claim
			mistyped.Holder = lease.NewHolder()
			once := Once{Key: "request", Fingerprint: "f"}
			first, letGo := s.inLine(claim, once)
			at := s.gate
			if !same {
				at = s.world.gate(t, remembering)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second) // of which it waits a third
			defer cancel()
			_, err := at.Write(ctx, s.appending(mistyped, once))
			if same && !errors.Is(err, ErrKeyBusy) || !same && code(err) != fence.HolderMismatch {
				t.Fatalf("while the first is under way: %v", err)
			}
			letGo()
			if err := <-first; err != nil || s.value() != written {
				t.Fatalf("%v, the row holds %q", err, s.value())
			}
			if result, err := at.Write(t.Context(), s.appending(mistyped, once)); err != nil || !result.Replayed {
				t.Errorf("afterwards: %+v, %v", result, err)
			}
			if len(s.gate.attempts.running) != 0 {
				t.Errorf("%d are still noted", len(s.gate.attempts.running))
			}
		})
	}
}

func TestARefusalUnderTheSameClaimsWaitsForNothing(t *testing.T) {
	t.Parallel()
	s := newCounter(t)
	claim := s.grant(t, s.gate, shelfKey)
	once := Once{Key: "request", Fingerprint: "f"}
	first, letGo := s.inLine(claim, once)
	s.expire(t, claim)
	if got := code(second(s.append(claim, once))); got != LeaseExpired {
		t.Errorf("while the first is under way it is refused with %q", got)
	}
	letGo()
	if got := code(<-first); got != LeaseExpired || s.value() != "before" {
		t.Errorf("the first is refused with %q, the row holds %q", got, s.value())
	}
}

// inLine sends a write that waits for its turn until letGo is called.
func (s *shelf) inLine(claim lease.Claim, once Once) (outcome <-chan error, letGo func()) {
	s.Helper()
	var giveBack []func()
	for range atOnce {
		done, err := s.gate.turns.take(s.Context(), []lease.Claim{claim})
		if err != nil {
			s.Fatal(err)
		}
		giveBack = append(giveBack, done)
	}
	ended := make(chan error, 1)
	go func() { ended <- second(s.append(claim, once)) }()
	for users := atOnce; users == atOnce; {
		s.gate.turns.mu.Lock()
		users = s.gate.turns.keys[claim.Key].users
		s.gate.turns.mu.Unlock()
	}
	return ended, func() {
		for _, done := range giveBack {
			done()
		}
	}
}
