package gate

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/lease"
)

func TestGrants(t *testing.T) {
	t.Parallel()

	t.Run("I1/TokensRiseAfterTheLockServiceLostEverything", func(t *testing.T) {
		t.Parallel()
		s := newShelf(t)
		var last lease.Token
		for range 5 {
			claim := s.grant(t, s.gate, shelfKey)
			if claim.Token <= last {
				t.Fatalf("token %s after %s", claim.Token, last)
			}
			last = claim.Token
			s.expire(t, claim)
		}
	})

	t.Run("I1/TokensStartAboveTheFloorInANewLife", func(t *testing.T) {
		t.Parallel()
		s := newShelf(t)
		first := s.grant(t, s.gate, shelfKey)
		s.expire(t, first)
		floor := time.Now().UnixMilli() - time.Hour.Milliseconds()
		s.liveElsewhere()
		for _, key := range []lease.Key{shelfKey, "item:never granted before"} {
			if claim := s.grant(t, s.gate, key); int64(claim.Token) < floor {
				t.Errorf("token %s of %q is below the new life's floor", claim.Token, key)
			}
		}
		again := s.grant(t, s.gate, "item:another")
		if _, err := s.gate.Marks.Verify(t.Context(), again); err != nil {
			t.Errorf("a grant of the new life: %v", err)
		}
	})

	t.Run("I1/I2/ConcurrentGrantsOfTwoGatewaysNeverRepeatAToken", func(t *testing.T) {
		t.Parallel()
		s := newShelf(t)
		gates := []*Gate{s.gate, s.world.gate(t)}
		var mu sync.Mutex
		holders := map[lease.Token]lease.Holder{}
		var workers sync.WaitGroup
		for n := range 8 {
			workers.Go(func() {
				for done := 0; done < 10; {
					granted, err := gates[n%2].Acquire(t.Context(), Acquisition{Principal: auth.Anyone, Keys: []lease.Key{shelfKey}})
					if held := (*Held)(nil); errors.As(err, &held) {
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					done++
					mu.Lock()
					if other, twice := holders[granted.Leases[0].Claim.Token]; twice {
						t.Errorf("token %s went to %s and %s", granted.Leases[0].Claim.Token, other, granted.Leases[0].Claim.Holder)
					}
					holders[granted.Leases[0].Claim.Token] = granted.Leases[0].Claim.Holder
					mu.Unlock()
					if n%3 == 0 {
						s.store.Drop(context.Background(), shelfKey, granted.Leases[0].Claim.Holder) // runs out
					} else if _, err := s.gate.Release(t.Context(), auth.Anyone, granted.Leases[0].Claim, origin); err != nil {
						t.Error(err)
					}
				}
			})
		}
		workers.Wait()
		var granted, distinct int
		s.pool.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT token) FROM fencegate.grants WHERE event = 'granted'`).Scan(&granted, &distinct)
		if granted != 80 || distinct != 80 || len(holders) != 80 {
			t.Errorf("%d grants, %d distinct tokens in the history, %d seen; expected 80", granted, distinct, len(holders))
		}
	})

	t.Run("I5/AMarkNeitherFallsNorGoes", func(t *testing.T) {
		t.Parallel()
		s := newShelf(t)
		claim := s.grant(t, s.gate, shelfKey)
		claim.Token++
		s.refusedFor(claim, fence.TokenNotGranted) // there is a record to attack
		for _, attack := range []string{
			`UPDATE fencegate.marks SET token = token - 1`,
			`DELETE FROM fencegate.marks`,
			`TRUNCATE fencegate.marks`,
			`UPDATE fencegate.grants SET token = 9`,
			`DELETE FROM fencegate.grants`,
			`DELETE FROM fencegate.refusals`,
			`TRUNCATE fencegate.refusals`,
		} {
			if _, err := s.pool.Exec(t.Context(), attack); err == nil {
				t.Errorf("%s went through", attack)
			}
		}
	})

	t.Run("AFailedGrantGivesTheLeaseBack", func(t *testing.T) {
		t.Parallel()
		s := newShelf(t)
		s.db.Exec(t, `ALTER TABLE fencegate.grants ADD CONSTRAINT no_more CHECK (false) NOT VALID`)
		if _, err := s.gate.Acquire(t.Context(), Acquisition{Principal: auth.Anyone, Keys: []lease.Key{shelfKey}}); err == nil {
			t.Fatal("granted without its history")
		}
		current, err := s.store.Read(t.Context(), shelfKey)
		if err != nil || current[0].Live() {
			t.Fatalf("the lease is still there: %+v, %v", current, err)
		}
	})

	t.Run("ARevokedKeyIsBlockedAndThenGrantedAgain", func(t *testing.T) {
		t.Parallel()
		s := newShelf(t)
		claim := s.grant(t, s.gate, shelfKey)
		s.expire(t, claim)
		s.db.Exec(t, `UPDATE fencegate.marks SET state = 'revoked', blocked_until = clock_timestamp() + interval '1 hour'`)
		var held *Held
		if _, err := s.gate.Acquire(t.Context(), Acquisition{Principal: auth.Anyone, Keys: []lease.Key{shelfKey}}); !errors.As(err, &held) || held.Wait < 59*time.Minute {
			t.Fatalf("acquire while blocked: %v", err)
		}
		s.refusedFor(claim, fence.LeaseRevoked)
		s.db.Exec(t, `UPDATE fencegate.marks SET blocked_until = clock_timestamp()`)
		if again := s.grant(t, s.gate, shelfKey); again.Token != claim.Token+1 {
			t.Fatalf("token %s after %s", again.Token, claim.Token)
		}
	})

	t.Run("AnyIsolationButReadCommittedIsRefused", func(t *testing.T) {
		t.Parallel()
		s := newShelf(t)
		claim := s.grant(t, s.gate, shelfKey)
		for _, level := range []string{"REPEATABLE READ", "SERIALIZABLE"} {
			tx, err := s.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), `SET TRANSACTION ISOLATION LEVEL `+level); err != nil {
				t.Fatal(err)
			}
			if err := admit(t.Context(), tx, claim); err == nil {
				t.Errorf("admitted under %s", level)
			}
			tx.Rollback(t.Context())
		}
	})

	t.Run("GrantsAreDurableWhateverTheRoleSays", func(t *testing.T) {
		t.Parallel()
		s := newShelf(t)
		tx, err := s.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context())
		var setting string
		err = errors.Join(
			func() error { _, err := tx.Exec(t.Context(), `SET LOCAL synchronous_commit = off`); return err }(),
			func() error {
				_, err := tx.Exec(t.Context(), `SELECT fencegate.raise_mark('k', 'h', 0, 0, '', '')`)
				return err
			}(),
			tx.QueryRow(t.Context(), `SHOW synchronous_commit`).Scan(&setting))
		if err != nil || setting != "on" {
			t.Fatalf("a grant commits with synchronous_commit = %s, %v", setting, err)
		}
	})
}
