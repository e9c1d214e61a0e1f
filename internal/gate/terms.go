package gate

import (
	"fmt"
	"strings"
	"time"

	"github.com/fencegate/fencegate/internal/lease"
)

// Terms bounds leases. All are needed: Min <= Default <= Max <= Lifetime.
type Terms struct {
	Min, Default, Max time.Duration // of one lease or renewal
	Lifetime          time.Duration // from the grant to the last renewal's end
}

// Namespace is a family of lock keys with terms of its own.
type Namespace struct {
	Prefix string // of its lock keys
	Terms
}

func (t Terms) rise() bool {
	return t.Min >= time.Millisecond && t.Min <= t.Default && t.Default <= t.Max && t.Max <= t.Lifetime
}

func terms(namespaces []Namespace) []Terms {
	all := make([]Terms, len(namespaces))
	for i, n := range namespaces {
		all[i] = n.Terms
	}
	return all
}

// TermsOf returns the terms of key.
func (g *Gate) TermsOf(key lease.Key) Terms {
	found, longest := g.Terms, -1
	for _, n := range g.Namespaces {
		if len(n.Prefix) > longest && strings.HasPrefix(string(key), n.Prefix) {
			found, longest = n.Terms, len(n.Prefix)
		}
	}
	return found
}

// ttlOf returns the time that a lease of each of keys is asked for; asked 0 takes
// the shortest of their defaults.
func (g *Gate) ttlOf(asked time.Duration, keys ...lease.Key) (time.Duration, error) {
	ttl := asked
	for _, key := range keys {
		t := g.TermsOf(key)
		if asked == 0 && (ttl == 0 || t.Default < ttl) {
			ttl = t.Default
		}
		if asked != 0 && (asked < t.Min || asked > t.Max) {
			return 0, fmt.Errorf("%w: %s, allowed for %q are %s to %s", ErrTTL, asked, key.Wire(), t.Min, t.Max)
		}
	}
	return ttl, nil
}
