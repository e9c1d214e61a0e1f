package pglock

import (
	"context"
	"fmt"
	"time"
)

const (
	sweepPause = time.Minute
	sweepBatch = 1000
	// sweepAfter leaves the rows of keys in use alone: the next holder writes into
	// them, which is cheaper than a row made anew.
	sweepAfter = time.Hour
)

// Run removes, until ctx ends, the rows of leases that nobody dropped and that
// ended long ago. Any number of gateways may: each row is removed once. What
// fails waits for the next time.
func (s *Store) Run(ctx context.Context) error {
	ticker := time.NewTicker(sweepPause)
	defer ticker.Stop()
	for {
		for n := sweepBatch; n == sweepBatch; {
			n, _ = s.Sweep(ctx, sweepAfter)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Sweep removes at most 1000 rows of leases that ended longer than after ago, and
// returns how many. A row that somebody is writing is passed over.
func (s *Store) Sweep(ctx context.Context, after time.Duration) (int, error) {
	const query = `
		WITH ended AS (
			DELETE FROM fencegate.leases
			 WHERE ctid = ANY (ARRAY(
				SELECT ctid
				  FROM fencegate.leases
				 WHERE ends_at < clock_timestamp() - $1::bigint * interval '1 ms'
				 LIMIT $2
				   FOR UPDATE SKIP LOCKED))
			RETURNING 1)
		SELECT count(*) FROM ended`
	var n int
	if err := s.db.QueryRow(ctx, query, after.Milliseconds(), sweepBatch).Scan(&n); err != nil {
		return 0, fmt.Errorf("sweeping ended leases: %w", err)
	}
	return n, nil
}
