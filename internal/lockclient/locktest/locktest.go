// Package locktest is the contract of lockclient.Store, as a test that every
// backend passes against real servers. Its rules have names, so that a table can
// say which backend keeps which.
package locktest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient"
)

// Backend is a store and what a test can do to its servers. They are the test's
// alone, or behind a wire that is.
type Backend struct {
	Store lockclient.Store
	// Freeze makes the servers keep their connections and answer nothing, until
	// thaw.
	Freeze func(testing.TB) (thaw func())
	// Kill takes the servers away for good. It comes last.
	Kill func(testing.TB)
	// Forget makes the servers forget the scripts they know; nil: there are none.
	Forget func(testing.TB)
	// Except are the rules that the backend does not promise, and why.
	Except map[Rule]string
}

// Rule is one sentence of the contract.
type Rule string

// Results says, for the rules that were tried, whether they held, and for the
// others in a few words why they were not.
type Results map[Rule]string

// Held is what Results says of a rule that held.
const Held = "yes"

// Run tries every rule on the backend that open returns.
func Run(t *testing.T, open func(testing.TB) Backend) Results {
	t.Helper()
	b := open(t)
	s := &suite{Backend: b, results: Results{}}
	for rule, why := range b.Except {
		s.results[rule] = why
	}
	if b.Forget == nil {
		s.results[ForgottenScripts] = "has none"
	}
	t.Run("side by side", func(t *testing.T) {
		for _, r := range rules {
			t.Run(string(r.Rule), func(t *testing.T) {
				t.Parallel()
				s.try(t, r)
			})
		}
	})
	for _, r := range faults {
		t.Run(string(r.Rule), func(t *testing.T) { s.try(t, r) })
	}
	return s.results
}

// suite is one run.
type suite struct {
	Backend
	keys atomic.Int64

	mu      sync.Mutex
	results Results
}

type trial struct {
	Rule
	try func(*testing.T, *suite)
}

func (s *suite) try(t *testing.T, r trial) {
	s.mu.Lock()
	_, settled := s.results[r.Rule]
	s.mu.Unlock()
	if settled {
		return
	}
	defer func() { // a fatal error ends the test right there
		held := Held
		if t.Failed() {
			held = "NO"
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.results[r.Rule] = held
	}()
	r.try(t, s)
}

// key returns a key that nobody has used.
func (s *suite) key() lease.Key { return lease.Key(fmt.Sprint("locktest:", s.keys.Add(1))) }

const (
	long = time.Minute
	// short is over soon, and longer than a busy machine needs for a few calls.
	short = 1500 * time.Millisecond
	// within bounds what should take a moment.
	within = 20 * time.Second
)

func (s *suite) take(t testing.TB, key lease.Key, holder lease.Holder, ttl time.Duration) lockclient.Reading {
	t.Helper()
	taken, r, err := s.Store.Take(t.Context(), key, holder, ttl)
	if err != nil || !taken {
		t.Fatalf("taking: %t %+v %v", taken, r, err)
	}
	return r
}

func (s *suite) read(t testing.TB, keys ...lease.Key) []lockclient.Reading {
	t.Helper()
	readings, err := s.Store.Read(t.Context(), keys...)
	if err != nil {
		t.Fatalf("reading: %v", err)
	}
	if len(readings) != len(keys) {
		t.Fatalf("%d readings of %d keys", len(readings), len(keys))
	}
	return readings
}

func (s *suite) wantExtended(t testing.TB, want bool, key lease.Key, holder lease.Holder, ttl time.Duration) {
	t.Helper()
	if did, err := s.Store.Extend(t.Context(), key, holder, ttl); err != nil || did != want {
		t.Fatalf("extending: %t %v, want %t", did, err, want)
	}
}

func (s *suite) wantDropped(t testing.TB, want bool, key lease.Key, holder lease.Holder) {
	t.Helper()
	if did, err := s.Store.Drop(t.Context(), key, holder); err != nil || did != want {
		t.Fatalf("dropping: %t %v, want %t", did, err, want)
	}
}

func (s *suite) wantHeld(t testing.TB, key lease.Key, holder lease.Holder) lockclient.Reading {
	t.Helper()
	r := s.read(t, key)[0]
	if !r.HeldBy(holder) {
		t.Fatalf("%q has it for %s, want %q", r.Holder, r.Remaining, holder)
	}
	return r
}

func (s *suite) wantFree(t testing.TB, key lease.Key) {
	t.Helper()
	if r := s.read(t, key)[0]; r.Live() {
		t.Fatalf("%q has it for %s, want nobody", r.Holder, r.Remaining)
	}
}

// slack is what a reading may be short of: a quorum gives away a hundredth and
// 2 ms for the drift of its clocks, and counts from before it asked.
func slack(ttl time.Duration) time.Duration { return ttl/50 + 20*time.Millisecond }

// wantLeft checks that a lease set to ttl between began and set has what it must
// have left, by a reading taken between asked and now.
func wantLeft(t testing.TB, left, ttl time.Duration, began, set, asked time.Time) {
	t.Helper()
	least := ttl - time.Since(began) - slack(ttl)
	most := ttl - asked.Sub(set) + time.Millisecond // whole milliseconds
	if left > min(ttl, most) || left < least {
		t.Fatalf("%s are left of %s, want %s to %s", left, ttl, least, min(ttl, most))
	}
	if left%time.Millisecond != 0 {
		t.Fatalf("%s are left, want whole milliseconds", left)
	}
}

// expired returns once the store says that nobody has the key. A lease of ttl
// that was set between began and now must not end early, and not be seen late.
func (s *suite) expired(t testing.TB, key lease.Key, ttl time.Duration, began, set time.Time) {
	t.Helper()
	pace := time.NewTicker(2 * time.Millisecond)
	defer pace.Stop()
	for ; ; <-pace.C {
		asked := time.Now()
		live := s.read(t, key)[0].Live()
		switch {
		case live && asked.Sub(set) > ttl+slack(ttl):
			t.Fatalf("alive %s after it was set to %s", asked.Sub(set), ttl)
		case !live && time.Since(began) < ttl-slack(ttl):
			t.Fatalf("over %s after it was set to %s", time.Since(began), ttl)
		case !live:
			return
		}
	}
}

// takeOver takes key from a lease that ends at end, which a quorum's reading may
// say a little early, and returns when it asked.
func (s *suite) takeOver(t testing.TB, key lease.Key, holder lease.Holder, ttl time.Duration, end time.Time) time.Time {
	t.Helper()
	for {
		asked := time.Now()
		taken, r, err := s.Store.Take(t.Context(), key, holder, ttl)
		if err != nil || !taken && asked.After(end.Add(slack(short))) {
			t.Fatalf("taking what is free: %t %+v %v", taken, r, err)
		}
		if taken {
			return asked
		}
	}
}

// wantUnavailable checks the four calls' errors; each is bounded by the context
// that newContext returns, and must not outlast it by much.
func (s *suite) wantUnavailable(t testing.TB, newContext func() (ctx cancellable)) {
	t.Helper()
	key, holder := s.key(), lease.NewHolder()
	for name, call := range map[string]func(cancellable) error{
		"Take":   func(c cancellable) error { _, _, err := s.Store.Take(c, key, holder, long); return err },
		"Read":   func(c cancellable) error { _, err := s.Store.Read(c, key, "locktest:another"); return err },
		"Extend": func(c cancellable) error { _, err := s.Store.Extend(c, key, holder, long); return err },
		"Drop":   func(c cancellable) error { _, err := s.Store.Drop(c, key, holder); return err },
	} {
		ctx := newContext()
		began := time.Now()
		err := call(ctx)
		ctx.cancel()
		if !errors.Is(err, lockclient.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", name, err)
		}
		if took := time.Since(began); took > within {
			t.Errorf("%s took %s", name, took)
		}
	}
}
