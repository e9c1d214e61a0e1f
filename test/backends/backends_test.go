package backends_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient"
	"github.com/fencegate/fencegate/internal/lockclient/locktest"
	"github.com/fencegate/fencegate/internal/testenv"
)

// What a gateway on the lock service does, beyond the contract.
const (
	everyDayWorks locktest.Rule = "a gateway on it takes, writes under, renews and gives back a lease"
	allLost       locktest.Rule = "all leases lost: late writers are refused, the next holder gets through"
	oldHolder     locktest.Rule = "an old holder named again: it is refused, and the next holder gets through"
	notBelieved   locktest.Rule = "a server that is no master any more, or has no majority, is not believed"
	serverLost    locktest.Rule = "leases outlive the loss of a server"
)

// backend is a column of the table.
type backend struct {
	name   string
	open   func(testing.TB) locktest.Backend
	serve  func(testing.TB) *service
	except map[locktest.Rule]string
}

// service is a lock service for a gateway. Servers are this test's alone.
type service struct {
	yaml   string
	db     *testenv.Database // nil: a new one
	store  lockclient.Store  // the gateway's leases
	lose   func(testing.TB)  // all of them
	strike func(testing.TB)  // takes a server away, but what was acknowledged
	// demote makes old, or without it the service itself, worth no belief.
	demote func(testing.TB) (old lockclient.Store)
}

const (
	redisPrefix = "fencegate:lease:"
	etcdPrefix  = "fencegate/lease/"
	replicated  = "yes, if it was replicated"
)

var backends = []backend{
	{"Redis", openRedis, serveRedis, map[locktest.Rule]string{serverLost: "one server"}},
	{"Sentinel", openSentinel, serveSentinel, map[locktest.Rule]string{serverLost: replicated}},
	{"Cluster", openCluster, serveCluster, map[locktest.Rule]string{serverLost: replicated}},
	{"Redlock", openRedlock, serveRedlock, nil},
	{"PostgreSQL", openPostgres, servePostgres, map[locktest.Rule]string{notBelieved: "one server", serverLost: "one server"}},
	{"etcd", openEtcd, serveEtcd, nil},
}

func TestBackends(t *testing.T) {
	t.Parallel()
	table := newTable()
	t.Run("each", func(t *testing.T) {
		for _, b := range backends {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				t.Run("contract", func(t *testing.T) {
					t.Parallel()
					table.add(b.name, locktest.Run(t, b.open))
				})
				t.Run("gateway", func(t *testing.T) {
					t.Parallel()
					table.add(b.name, b.prove(t))
				})
			})
		}
	})
	table.compare(t)
}

// The variants are held to the contract as well, and have no column.
func TestVariantsKeepTheContract(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) locktest.Backend{
		"Redlock without a minority": openMinorityGone, "PostgreSQL behind a pooler": openPooled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locktest.Run(t, open)
		})
	}
}

// prove runs what a gateway on the backend has to stand, the worst at the end.
func (b backend) prove(t *testing.T) locktest.Results {
	s := b.serve(t)
	var p *plant
	if s.db != nil {
		p = buildOn(t, s.db, s.yaml)
	} else {
		p = build(t, s.yaml)
	}
	results := locktest.Results{}
	for _, proof := range []struct {
		rule  locktest.Rule
		prove func(*testing.T)
	}{
		{everyDayWorks, func(t *testing.T) { everyDay(t, p) }},
		{allLost, func(t *testing.T) { leasesLost(t, p, s.lose) }},
		{oldHolder, func(t *testing.T) { namedAgain(t, p, s) }},
		{serverLost, func(t *testing.T) {
			if s.strike != nil {
				leasesKept(t, p, s.strike)
			}
		}},
		{notBelieved, func(t *testing.T) {
			if s.demote != nil {
				wantNoBelief(t, s)
			}
		}},
	} {
		held := t.Run(string(proof.rule), proof.prove)
		results[proof.rule] = locktest.Held
		if why, not := b.except[proof.rule]; not {
			results[proof.rule] = why
		}
		if !held {
			results[proof.rule] = "NO"
		}
	}
	return results
}

// namedAgain makes the lock service name a holder of before, as one does that goes
// back to an earlier state.
func namedAgain(t *testing.T, p *plant, s *service) {
	const ghostTTL = 3 * time.Second
	sku, key := p.item(t)
	ghost := p.acquire(t, key, 60000)
	p.Release(t, ghost)
	honest := p.acquire(t, key, 60000)
	wantStatus(t, p.set(t, honest, sku, 1), 204)
	dropped, err := s.store.Drop(t.Context(), lease.Key(key), lease.Holder(honest.Holder))
	if err != nil || !dropped {
		t.Fatalf("dropping the gateway's lease: %t %v", dropped, err)
	}
	taken, r, err := s.store.Take(t.Context(), lease.Key(key), lease.Holder(ghost.Holder), ghostTTL)
	if err != nil || !taken {
		t.Fatalf("taking it back: %t %+v %v", taken, r, err)
	}
	wantRefused(t, p.set(t, ghost, sku, 2), "stale_token")
	wantRefused(t, p.set(t, honest, sku, 3), "lease_lost", "lease_expired")
	p.wantAvailable(t, sku, 1)
	wantOvertaken(t, p, sku, honest, 60000)
	wantRefused(t, p.set(t, ghost, sku, 5), "stale_token")
}

// wantNoBelief checks that whatever is asked of a server that is not to be
// believed, yes and no alike, is unavailable.
func wantNoBelief(t *testing.T, s *service) {
	const held, free = lease.Key("held"), lease.Key("free")
	taken, _, err := s.store.Take(t.Context(), held, "me", time.Hour)
	if err != nil || !taken {
		t.Fatalf("taking: %t %v", taken, err)
	}
	store := s.demote(t)
	for name, ask := range map[string]func() error{
		"taking what is free":          func() error { _, _, err := store.Take(t.Context(), free, "me", time.Hour); return err },
		"taking what is held":          func() error { _, _, err := store.Take(t.Context(), held, "another", time.Hour); return err },
		"taking what is one's own":     func() error { _, _, err := store.Take(t.Context(), held, "me", time.Hour); return err },
		"reading":                      func() error { _, err := store.Read(t.Context(), held, free); return err },
		"extending one's own":          func() error { _, err := store.Extend(t.Context(), held, "me", time.Hour); return err },
		"extending another's":          func() error { _, err := store.Extend(t.Context(), held, "another", time.Hour); return err },
		"extending what is not there":  func() error { _, err := store.Extend(t.Context(), free, "me", time.Hour); return err },
		"dropping another's":           func() error { _, err := store.Drop(t.Context(), held, "another"); return err },
		"dropping what is not there":   func() error { _, err := store.Drop(t.Context(), free, "me"); return err },
		"dropping one's own, the last": func() error { _, err := store.Drop(t.Context(), held, "me"); return err },
	} {
		if err := ask(); !errors.Is(err, lockclient.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", name, err)
		}
	}
}
