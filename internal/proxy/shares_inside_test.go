package proxy

import (
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
