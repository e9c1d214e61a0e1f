package gate

import (
	"testing"

	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/lease"
)

// TestRules holds each rule of the fence against a write that breaks it, and
// then against the fence without that rule, which must let the write through.
func TestRules(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]struct {
		code    fence.Code
		prepare func(*shelf) lease.Claim // returns the claim that must be refused
		remove  func(*shelf)
	}{
		"I4/AnOlderTokenIsStale": {
			fence.StaleToken,
			func(s *shelf) lease.Claim {
				old := s.grant(s.T, s.gate, shelfKey)
				s.expire(s.T, old)
				s.grant(s.T, s.gate, shelfKey)
				return old
			},
			func(s *shelf) {
				s.mutate(s.T, "admit", "AND token = p_tokens[i]\n                AND holder = p_holders[i]", "")
				s.mutate(s.T, "verdict", "WHEN p_token < m.token                      THEN 'stale_token'", "")
				s.mutate(s.T, "verdict", "WHEN p_holder <> m.holder                   THEN 'holder_mismatch'", "")
			},
		},
		"I2/TheSameTokenOfAnotherHolderIsRefused": {
			fence.HolderMismatch,
			func(s *shelf) lease.Claim {
				claim := s.grant(s.T, s.gate, shelfKey)
				s.expire(s.T, claim)
				claim.Holder = lease.NewHolder()
				return claim
			},
			func(s *shelf) {
				s.mutate(s.T, "admit", "AND holder = p_holders[i]", "")
				s.mutate(s.T, "verdict", "WHEN p_holder <> m.holder                   THEN 'holder_mismatch'", "")
			},
		},
		"I5/ATokenThatNobodyGrantedIsRefused": {
			fence.TokenNotGranted,
			func(s *shelf) lease.Claim {
				claim := s.grant(s.T, s.gate, shelfKey)
				claim.Token = 1<<63 - 1
				return claim
			},
			func(s *shelf) {
				s.mutate(s.T, "admit", "AND token = p_tokens[i]", "")
				s.mutate(s.T, "verdict", "WHEN p_token > m.token                      THEN 'token_not_granted'", "")
			},
		},
		"I8/NothingAfterTheRelease": {
			fence.LeaseReleased,
			func(s *shelf) lease.Claim {
				claim := s.grant(s.T, s.gate, shelfKey)
				if released, err := s.gate.Release(s.Context(), auth.Anyone, claim, origin); err != nil || !released.Done {
					s.Fatal(released, err)
				}
				return claim
			},
			func(s *shelf) {
				s.mutate(s.T, "admit", "AND state = 'held'", "")
				s.mutate(s.T, "verdict", "WHEN m.state = 'released'                   THEN 'lease_released'", "")
			},
		},
		"I1/NothingFromBeforeTheDatabaseWasRestored": {
			fence.EpochChanged,
			func(s *shelf) lease.Claim {
				claim := s.grant(s.T, s.gate, shelfKey)
				s.liveElsewhere()
				return claim
			},
			func(s *shelf) {
				s.mutate(s.T, "admit", "AND epoch = fencegate.current_epoch()", "")
				s.mutate(s.T, "verdict", "WHEN m.epoch IS DISTINCT FROM fencegate.current_epoch() THEN 'epoch_changed'", "")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShelf(t)
			s.refusedFor(rule.prepare(s), rule.code)
		})
		t.Run(name+"/Control", func(t *testing.T) {
			t.Parallel()
			s := newShelf(t, func(c *Config) { c.Lenient = true; c.Store = everybodyLives{c.Store} })
			rule.remove(s)
			if broken := s.refusal(rule.prepare(s), rule.code); broken == "" {
				t.Fatal("the write is refused even without the rule: this test can't fail")
			}
		})
	}
}
