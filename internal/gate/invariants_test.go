package gate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient"
	"github.com/fencegate/fencegate/internal/statement"
)

var origin = audit.Origin{Principal: "test", RequestID: "request-1", RemoteAddress: "127.0.0.1"}

// shelf is a legacy table with one row, and writes to it.
type shelf struct {
	*testing.T
	*world
	gate  *Gate
	table *catalog.Table
}

const shelfKey lease.Key = "item:a"

func newShelf(t *testing.T, options ...func(*Config)) *shelf {
	t.Helper()
	w := newWorld(t)
	w.db.Exec(t, `CREATE TABLE item (id text PRIMARY KEY, value text NOT NULL)`)
	w.db.Exec(t, `INSERT INTO item VALUES ('a', 'before'), ('b', 'before')`)
	template, err := lease.ParseTemplate("item:{id}")
	if err != nil {
		t.Fatal(err)
	}
	tables, err := catalog.Load(t.Context(), w.pool, catalog.Specs{Schemas: []string{"public"}, Tables: []catalog.Spec{{
		Schema: "public", Name: "item", Lock: template,
		Operations: []catalog.Operation{catalog.Select, catalog.Insert, catalog.Update, catalog.Delete},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	table, err := tables.Table("public", "item")
	if err != nil {
		t.Fatal(err)
	}
	return &shelf{T: t, world: w, gate: w.gate(t, options...), table: table}
}

// write sets the row's value under claim.
func (s *shelf) write(claim lease.Claim, value string) (Result, error) {
	return s.gate.Write(s.Context(), Write{
		Principal: auth.Anyone, Claims: []lease.Claim{claim}, Origin: origin,
		Mutations: []statement.Mutation{{
			Op: catalog.Update, Table: s.table, MaxAffected: -1,
			Rows:    []statement.Row{{Names: []string{"value"}, JSON: []byte(`{"value":"` + value + `"}`)}},
			Filters: []statement.Filter{{Column: "id", Op: statement.Eq, Values: []string{"a"}}},
		}},
	})
}

func (s *shelf) value() (value string) {
	s.Helper()
	if err := s.pool.QueryRow(s.Context(), `SELECT value FROM item WHERE id = 'a'`).Scan(&value); err != nil {
		s.Fatal(err)
	}
	return value
}

// refusedFor fails the test unless the write is refused with code, recorded,
// and has changed nothing.
func (s *shelf) refusedFor(claim lease.Claim, code fence.Code) {
	s.Helper()
	if broken := s.refusal(claim, code); broken != "" {
		s.Fatal(broken)
	}
}

func (s *shelf) refusal(claim lease.Claim, code fence.Code) (broken string) {
	before := s.value()
	_, err := s.write(claim, "late")
	var refused *Refused
	switch {
	case !errors.As(err, &refused):
		return fmt.Sprintf("not refused: %v", err)
	case s.value() != before:
		return "refused, but the row has changed"
	case refused.Code != code:
		return fmt.Sprintf("refused with %s, expected %s", refused.Code, code)
	}
	record, err := audit.NewReader(s.pool).Get(s.Context(), refused.AuditID)
	if err != nil || record.Code != string(code) || record.Claim.Token != claim.Token ||
		record.Operation != "update" || record.Disposition != audit.Refused || record.Table != "public.item" {
		return fmt.Sprintf("its record is %+v, %v", record, err)
	}
	return ""
}

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
				if released, err := s.gate.Release(s.Context(), claim, origin); err != nil || !released.Done {
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

// liveElsewhere makes the database look as if it had been dumped, restored and
// used in another cluster in between.
func (s *shelf) liveElsewhere() {
	s.db.Exec(s.T, `INSERT INTO fencegate.epochs (system_identifier, timeline, token_floor)
		SELECT 1, timeline, 0 FROM fencegate.epochs WHERE id = fencegate.current_epoch()`)
}

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
					granted, err := gates[n%2].Acquire(t.Context(), shelfKey, 0, fence.Grantee{})
					if held := (*Held)(nil); errors.As(err, &held) {
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					done++
					mu.Lock()
					if other, twice := holders[granted.Claim.Token]; twice {
						t.Errorf("token %s went to %s and %s", granted.Claim.Token, other, granted.Claim.Holder)
					}
					holders[granted.Claim.Token] = granted.Claim.Holder
					mu.Unlock()
					if n%3 == 0 {
						s.store.Drop(context.Background(), shelfKey, granted.Claim.Holder) // runs out
					} else if _, err := s.gate.Release(t.Context(), granted.Claim, origin); err != nil {
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
		s.grant(t, s.gate, shelfKey)
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
		if _, err := s.gate.Acquire(t.Context(), shelfKey, 0, fence.Grantee{}); err == nil {
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
		if _, err := s.gate.Acquire(t.Context(), shelfKey, 0, fence.Grantee{}); !errors.As(err, &held) || held.Wait < 59*time.Minute {
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

func TestRecords(t *testing.T) {
	t.Parallel()

	t.Run("I7/ARefusalThatCannotBeRecordedStaysARefusal", func(t *testing.T) {
		t.Parallel()
		s := newShelf(t)
		claim := s.grant(t, s.gate, shelfKey)
		s.db.Exec(t, `ALTER TABLE fencegate.refusals ADD CONSTRAINT no_more CHECK (false) NOT VALID`)
		claim.Token++
		_, err := s.write(claim, "late")
		var refused *Refused
		if !errors.As(err, &refused) || refused.AuditErr == nil || s.value() != "before" {
			t.Fatalf("%v, the row holds %q", err, s.value())
		}
	})

	t.Run("I7/EachOfManyRefusalsHasItsOwnRecordAndLiveWritesHaveNone", func(t *testing.T) {
		t.Parallel()
		s := newShelf(t)
		stale := s.grant(t, s.gate, shelfKey)
		s.expire(t, stale)
		live := s.grant(t, s.gate, shelfKey)
		var mu sync.Mutex
		ids := map[int64]bool{}
		var workers sync.WaitGroup
		for range 20 {
			workers.Go(func() {
				for range 10 {
					_, err := s.write(stale, "late")
					var refused *Refused
					if !errors.As(err, &refused) || refused.AuditErr != nil {
						t.Errorf("the late write: %v", err)
						return
					}
					mu.Lock()
					ids[refused.AuditID] = true
					mu.Unlock()
				}
			})
			workers.Go(func() {
				if _, err := s.write(live, "live"); err != nil {
					t.Errorf("I9: the live holder's write: %v", err)
				}
			})
		}
		workers.Wait()
		var records int
		s.pool.QueryRow(t.Context(), `SELECT count(*) FROM fencegate.refusals`).Scan(&records)
		if len(ids) != 200 || records != 200 || s.value() != "live" {
			t.Errorf("%d ids answered, %d records, the row holds %q; expected 200, 200, live", len(ids), records, s.value())
		}
	})
}

// everybodyLives is the real store whose lease check, with a lenient gate, stops
// nobody: the fence stands alone.
type everybodyLives struct{ lockStore }

func (e everybodyLives) Read(ctx context.Context, keys ...lease.Key) ([]lockclient.Reading, error) {
	return make([]lockclient.Reading, len(keys)), nil // nobody else's, and the gate is lenient
}
