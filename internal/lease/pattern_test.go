package lease_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fencegate/fencegate/internal/lease"
)

func TestPattern(t *testing.T) {
	t.Parallel()

	t.Run("OnlyWhatItSaysMatches", func(t *testing.T) {
		t.Parallel()
		acme := map[string]string{"tenant": "acme", "odd": "a:b", "empty": ""}
		for _, c := range []struct {
			pattern string
			yes, no []lease.Key
		}{
			{"inventory", []lease.Key{"inventory"}, []lease.Key{"inventory:", "Inventory", "inventor", "xinventory"}},
			{"inventory:*", []lease.Key{"inventory:", "inventory:SKU-1", "inventory:*"}, []lease.Key{"inventory", "nventory:1"}},
			{"*", []lease.Key{"a", "*", "ü"}, nil},
			{"tenant:{claim.tenant}:*", []lease.Key{"tenant:acme:1", "tenant:acme:"},
				[]lease.Key{"tenant:acme", "tenant:acme2:1", "tenant:{claim.tenant}:1", "tenant::1", "tenant:*:1"}},
			{"tenant:{claim.tenant}", []lease.Key{"tenant:acme"}, []lease.Key{"tenant:acme:1", "tenant:acm"}},
			{"{claim.tenant}/{{x}}", []lease.Key{"acme/{x}"}, []lease.Key{"acme/x"}},
			{"a:{claim.odd}:*", nil, []lease.Key{"a:a:b:1", "a:a:1"}},
			{"a:{claim.empty}:*", nil, []lease.Key{"a::1"}},
			{"a:{claim.missing}:*", nil, []lease.Key{"a::1", "a:missing:1"}},
		} {
			p, err := lease.ParsePattern(c.pattern)
			if err != nil || p.String() != c.pattern {
				t.Fatalf("%q is read as %q, %v", c.pattern, p, err)
			}
			for _, key := range c.yes {
				if !p.Matches(key, acme) {
					t.Errorf("%q does not match %q", c.pattern, key)
				}
			}
			for _, key := range c.no {
				if p.Matches(key, acme) {
					t.Errorf("%q matches %q", c.pattern, key)
				}
			}
		}
	})

	t.Run("MistakesAreNamed", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"", "a*b", "**", "{x}", "{claim.}", "{claim.x", "a:{claim.x}*", "a:{claim.x}-*", "{claim.x}{claim.y}", "a:{claim.x}b"} {
			if p, err := lease.ParsePattern(text); !errors.Is(err, lease.ErrMalformed) {
				t.Errorf("%q is read as %q, %v", text, p, err)
			}
		}
	})

	t.Run("TheZeroValueMatchesNothing", func(t *testing.T) {
		t.Parallel()
		for _, key := range []lease.Key{"", "a"} {
			if (lease.Pattern{}).Matches(key, nil) {
				t.Errorf("it matches %q", key)
			}
		}
	})

	t.Run("NoTenantReachesAnother", rapid.MakeCheck(func(t *rapid.T) {
		value := rapid.StringMatching(`[a-c:/*{}.-]{0,4}`)
		mine, theirs := value.Draw(t, "mine"), value.Draw(t, "theirs")
		p, err := lease.ParsePattern(rapid.SampledFrom([]string{"t:{claim.x}:*", "{claim.x}/*", "t:{claim.x}"}).Draw(t, "pattern"))
		if err != nil {
			t.Fatal(err)
		}
		key := lease.Key(strings.ReplaceAll(p.String(), "{claim.x}", theirs))
		if mine != theirs && p.Matches(key, map[string]string{"x": mine}) && p.Matches(key, map[string]string{"x": theirs}) {
			t.Fatalf("%q matches %q for %q and %q", p, key, mine, theirs)
		}
	}))
}

func FuzzPattern(f *testing.F) {
	for _, text := range []string{"*", "a:*", "t:{claim.x}:*", "{claim.x}/{claim.y}", "{{}}", "{claim.x}*", "a*b", "{claim.x", "\x00*", "ü:*"} {
		f.Add(text, "t:acme:1", "acme")
	}
	f.Fuzz(func(t *testing.T, text, key, value string) {
		p, err := lease.ParsePattern(text)
		if err != nil {
			return
		}
		claims := map[string]string{}
		for _, name := range p.Claims() {
			claims[name] = value
		}
		again, err := lease.ParsePattern(p.String())
		if err != nil || again.Matches(lease.Key(key), claims) != p.Matches(lease.Key(key), claims) {
			t.Errorf("%q is written as %q, which is another one: %v", text, p, err)
		}
		if len(claims) > 0 && p.Matches(lease.Key(key), claims) && !strings.Contains(key, value) {
			t.Errorf("%q matches %q without its claim %q", text, key, value)
		}
	})
}

func TestAPatternMatchesAllOfALockOrNot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, lock string
		all           bool
	}{
		{"*", "item:{id}", true}, {"*", "{id}", true}, {"item:*", "item:{id}", true}, {"it*", "item:{id}", true}, {"item:*", "item:{a}:{b}", true},
		{"item:1*", "item:{id}", false}, {"item:", "item:{id}", false}, {"items*", "item:{id}", false}, {"item:*", "{id}", false},
		{"all", "all", true}, {"al*", "all", true}, {"a", "all", false},
		{"tenant:{claim.t}:*", "tenant:{t}:{id}", false}, {"tenant:{claim.t}:*", "tenant:acme:{id}", true}, {"tenant:{claim.no}:*", "tenant:acme:{id}", false},
	} {
		p, err := lease.ParsePattern(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		lock, err := lease.ParseTemplate(c.lock)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.MatchesAll(lock, map[string]string{"t": "acme"}); got != c.all {
			t.Errorf("%s of %s: %t", c.pattern, c.lock, got)
		}
	}
}
