package gate

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient"
)

type lockStore = lockclient.Store

// unreachable is the real store behind a network that is down.
type unreachable struct{ lockStore }

func (unreachable) Read(context.Context, ...lease.Key) ([]lockclient.Reading, error) {
	return nil, lockclient.ErrUnavailable
}

func code(err error) fence.Code {
	var refused *Refused
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

func TestLeaseCheck(t *testing.T) {
	t.Parallel()

	t.Run("WithoutALiveLeaseThereIsNoWrite", func(t *testing.T) {
		t.Parallel()
		s := newShelf(t)
		claim := s.grant(t, s.gate, shelfKey)
		s.expire(t, claim)
		s.refusedFor(claim, LeaseExpired)
	})

	t.Run("AnotherHoldersLeaseMeansLost", func(t *testing.T) {
		t.Parallel()
		s := newShelf(t)
		claim := s.grant(t, s.gate, shelfKey)
		s.expire(t, claim)
		if ok, _, err := s.store.Take(t.Context(), shelfKey, lease.NewHolder(), time.Minute); !ok || err != nil {
			t.Fatal(ok, err)
		}
		s.refusedFor(claim, LeaseLost)
	})

	t.Run("LenientAdmitsAnExpiredHolderWithoutSuccessor", func(t *testing.T) {
		t.Parallel()
		s := newShelf(t, func(c *Config) { c.Lenient = true })
		claim := s.grant(t, s.gate, shelfKey)
		s.expire(t, claim)
		result, err := s.write(claim, "after")
		if err != nil || result.Checks[0].Verdict != Expired || s.value() != "after" {
			t.Fatalf("%+v, %v, %q", result, err, s.value())
		}
		s.grant(t, s.gate, shelfKey)
		s.refusedFor(claim, fence.StaleToken)
	})

	t.Run("NothingIsAdmittedPastTheMaximumLifetime", func(t *testing.T) {
		t.Parallel()
		s := newShelf(t, func(c *Config) { c.Lenient, c.FenceOnly = true, true })
		claim := s.grant(t, s.gate, shelfKey)
		s.expire(t, claim)
		s.db.Exec(t, `UPDATE fencegate.marks SET granted_at = clock_timestamp() - interval '2 hours'`)
		s.refusedFor(claim, LeaseExpired)
		s.gate.Store = unreachable{s.gate.Store}
		s.refusedFor(claim, LeaseExpired)
	})

	t.Run("LockServiceDownMeansUnavailableAndStaleStaysStale", func(t *testing.T) {
		t.Parallel()
		s := newShelf(t)
		old := s.grant(t, s.gate, shelfKey)
		s.expire(t, old)
		claim := s.grant(t, s.gate, shelfKey)
		s.gate.Store = unreachable{s.gate.Store}
		if _, err := s.write(claim, "after"); !errors.Is(err, lockclient.ErrUnavailable) || s.value() != "before" {
			t.Fatalf("%v, %q", err, s.value())
		}
		s.refusedFor(old, fence.StaleToken)
	})

	t.Run("FenceOnlyLetsTheMarkDecideAlone", func(t *testing.T) {
		t.Parallel()
		s := newShelf(t, func(c *Config) { c.FenceOnly = true })
		old := s.grant(t, s.gate, shelfKey)
		s.expire(t, old)
		claim := s.grant(t, s.gate, shelfKey)
		s.gate.Store = unreachable{s.gate.Store}
		if result, err := s.write(claim, "after"); err != nil || result.Checks[0].Verdict != Skipped || s.value() != "after" {
			t.Fatalf("%+v, %v, %q", result, err, s.value())
		}
		s.refusedFor(old, fence.StaleToken)
	})
}

func TestRenew(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	renew := func(claim lease.Claim) error {
		_, err := s.gate.Renew(t.Context(), auth.Anyone, claim, 30*time.Second, origin)
		return err
	}
	claim := s.grant(t, s.gate, shelfKey)

	if renewed, err := s.gate.Renew(t.Context(), auth.Anyone, claim, 30*time.Second, origin); err != nil || renewed.Remaining != 30*time.Second {
		t.Fatalf("a live lease: %+v, %v", renewed, err)
	}
	if current, _ := s.store.Read(t.Context(), shelfKey); current[0].Remaining > 30*time.Second {
		t.Errorf("renewals add up: %s are left", current[0].Remaining)
	}
	stranger := claim
	stranger.Holder = lease.NewHolder()
	if got := code(renew(stranger)); got != fence.HolderMismatch {
		t.Errorf("another holder: %s", got)
	}
	s.db.Exec(t, `UPDATE fencegate.marks SET granted_at = clock_timestamp() - interval '59 minutes 50 seconds'`)
	if renewed, err := s.gate.Renew(t.Context(), auth.Anyone, claim, 30*time.Second, origin); err != nil || renewed.Remaining > 10*time.Second {
		t.Errorf("near its maximum lifetime: %+v, %v", renewed, err)
	}
	s.db.Exec(t, `UPDATE fencegate.marks SET granted_at = clock_timestamp() - interval '2 hours'`)
	if got := code(renew(claim)); got != LeaseExpired {
		t.Errorf("past its maximum lifetime: %s", got)
	}
	s.db.Exec(t, `UPDATE fencegate.marks SET granted_at = clock_timestamp()`)
	s.expire(t, claim)
	if got := code(renew(claim)); got != LeaseExpired {
		t.Errorf("an expired lease: %s", got)
	}
	if current, _ := s.store.Read(t.Context(), shelfKey); current[0].Live() {
		t.Error("the late renewal has revived the lease")
	}
	successor := s.grant(t, s.gate, shelfKey)
	if got := code(renew(claim)); got != fence.StaleToken {
		t.Errorf("after a takeover: %s", got)
	}
	if _, err := s.gate.Release(t.Context(), auth.Anyone, successor, origin); err != nil {
		t.Fatal(err)
	}
	if got := code(renew(successor)); got != fence.LeaseReleased {
		t.Errorf("after its release: %s", got)
	}
	records, err := audit.NewReader(s.pool).List(t.Context(), audit.Filter{Key: shelfKey}, 10)
	if err != nil || len(records) != 5 || records[0].Disposition != audit.Event || records[0].Operation != "renew" {
		t.Errorf("%d events are recorded, %v: %+v", len(records), err, records)
	}
}

func TestRelease(t *testing.T) {
	t.Parallel()

	t.Run("FreesTheKeyAndMayBeRepeated", func(t *testing.T) {
		t.Parallel()
		s := newShelf(t)
		claim := s.grant(t, s.gate, shelfKey)
		for i, reason := range []string{"", "already_released"} {
			released, err := s.gate.Release(t.Context(), auth.Anyone, claim, origin)
			if err != nil || !released.Done || released.Reason != reason {
				t.Fatalf("release %d: %+v, %v", i+1, released, err)
			}
		}
		s.grant(t, s.gate, shelfKey)
	})

	t.Run("OfALostLeaseTouchesNobodysLock", func(t *testing.T) {
		t.Parallel()
		s := newShelf(t)
		old := s.grant(t, s.gate, shelfKey)
		s.expire(t, old)
		live := s.grant(t, s.gate, shelfKey)
		released, err := s.gate.Release(t.Context(), auth.Anyone, old, origin)
		if err != nil || released.Done || released.Reason != string(fence.StaleToken) {
			t.Fatalf("%+v, %v", released, err)
		}
		if _, err := s.write(live, "after"); err != nil {
			t.Fatalf("the live holder's write: %v", err)
		}
	})

	t.Run("ClosesTheMarkAlsoWithTheLockServiceDown", func(t *testing.T) {
		t.Parallel()
		s := newShelf(t)
		claim := s.grant(t, s.gate, shelfKey)
		s.gate.Store = cannotDrop{s.gate.Store}
		if released, err := s.gate.Release(t.Context(), auth.Anyone, claim, origin); err != nil || !released.Done {
			t.Fatalf("%+v, %v", released, err)
		}
		s.refusedFor(claim, fence.LeaseReleased)
	})

	t.Run("I8/WaitsForTheWriteInFlight", func(t *testing.T) {
		t.Parallel()
		s := newShelf(t)
		claim := s.grant(t, s.gate, shelfKey)
		writer := s.session(t)
		tx, err := writer.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := admit(t.Context(), tx, claim); err != nil {
			t.Fatal(err)
		}
		releaser := s.session(t)
		released := make(chan error, 1)
		go func() {
			released <- fence.New(releaser.pool, releaser.pool).Release(context.Background(), claim, "test")
		}()
		for waits := false; !waits; {
			select {
			case err := <-released:
				t.Fatalf("the release did not wait for the write in flight: %v", err)
			default:
			}
			if waits, err = s.blocked(t.Context(), releaser); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-released; err != nil {
			t.Fatal(err)
		}
		s.refusedFor(claim, fence.LeaseReleased)
	})
}

type cannotDrop struct{ lockStore }

func (cannotDrop) Drop(context.Context, lease.Key, lease.Holder) (bool, error) {
	return false, lockclient.ErrUnavailable
}
