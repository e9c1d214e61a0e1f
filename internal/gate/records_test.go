package gate

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient"
)

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
