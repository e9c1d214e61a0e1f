package locktest

import (
	"context"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/lease"
)

// cancellable is a context with what ends it.
type cancellable struct {
	context.Context
	cancel context.CancelFunc
}

func contextEnds(t *testing.T, s *suite) {
	s.wantUnavailable(t, func() cancellable {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		return cancellable{ctx, cancel}
	})
	s.wantUnavailable(t, func() cancellable {
		ctx, cancel := context.WithDeadline(t.Context(), time.Now())
		return cancellable{ctx, cancel}
	})
}

// forgottenScripts makes each call the first after the scripts were forgotten.
func forgottenScripts(t *testing.T, s *suite) {
	key := s.key()
	s.Forget(t)
	s.take(t, key, "me", long)
	s.Forget(t)
	s.wantExtended(t, true, key, "me", long)
	s.Forget(t)
	s.wantHeld(t, key, "me")
	s.Forget(t)
	s.wantDropped(t, true, key, "me")
}

// frozenServers also checks that what was there is there again once they answer.
func frozenServers(t *testing.T, s *suite) {
	key := s.key()
	s.take(t, key, "me", time.Hour)
	thaw := s.Freeze(t)
	s.wantUnavailable(t, func() cancellable {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		return cancellable{ctx, cancel}
	})
	thaw()
	s.awaitHeld(t, key, "me")
}

func goneServers(t *testing.T, s *suite) {
	s.awaitTaken(t, s.key(), "me")
	s.Kill(t)
	s.wantUnavailable(t, func() cancellable {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		return cancellable{ctx, cancel}
	})
}

// awaitTaken takes key once the store answers: servers that were frozen may need a
// while to find each other again.
func (s *suite) awaitTaken(t testing.TB, key lease.Key, holder lease.Holder) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for {
		taken, r, err := s.Store.Take(ctx, key, holder, time.Hour)
		if err == nil && taken {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%t %+v %v", taken, r, err)
		}
	}
}

// awaitHeld returns once the store answers again, and that holder has key.
func (s *suite) awaitHeld(t testing.TB, key lease.Key, holder lease.Holder) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for {
		readings, err := s.Store.Read(ctx, key)
		if err == nil && readings[0].HeldBy(holder) {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%+v %v", readings, err)
		}
	}
}
