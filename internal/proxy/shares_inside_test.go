package proxy

import (
	"fmt"
	"testing"

	"github.com/fencegate/fencegate/internal/auth"
)

func TestAnotherTokenOfAPrincipalGivesNoNewPace(t *testing.T) {
	t.Parallel()
	policy := auth.NewPolicy([]auth.Role{
		{Name: "slow", Limits: auth.Limits{PerSecond: 1}}, {Name: "fast", Limits: auth.Limits{PerSecond: 2}},
	})
	s, passed := newShares(), 0
	for i := range 200 {
		role := []string{"slow", "fast"}[i%2]
		if _, ok := s.comes(policy.Principal("jwt:one", []string{role}, nil)); ok {
			passed++
		}
	}
	if passed > 10 {
		t.Errorf("%d requests at once passed a pace of at most 2 a second", passed)
	}
}

func TestPrincipalsThatAreGoneAreForgotten(t *testing.T) {
	t.Parallel()
	s, stays := newShares(), auth.Unrestricted("jwt:stays")
	s.enter(stays, writing, 1, 1)
	for n := range 100_000 {
		p := auth.Unrestricted(fmt.Sprintf("jwt:%d", n))
		s.enter(p, writing, 1, 1)
		s.leave(p, writing, 1)
	}
	if len(s.of) > 2*manyShares {
		t.Errorf("%d principals are kept", len(s.of))
	}
	if s.enter(stays, writing, 1, 1) {
		t.Error("who is still here was forgotten")
	}
}
