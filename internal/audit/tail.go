package audit

import (
	"context"
	"fmt"
	"time"
)

const (
	tailPause = time.Second
	tailPage  = 500
	// tailOverlap is how far back each look goes: records are in the order of
	// their time, and become visible when their INSERT commits, which takes
	// writeTimeout at most.
	tailOverlap = writeTimeout + time.Second
)

// Tail calls each with the records that f picks, as they are committed, until ctx
// ends or each fails, whose error it returns. With nothing new it calls it with
// none. It begins after from, and then may repeat records that are little older;
// the zero place is now.
func (r *Reader) Tail(ctx context.Context, f Filter, from Place, each func([]Record) error) error {
	start := from.OccurredAt.Add(-tailOverlap)
	if from == (Place{}) {
		var now int64
		if err := r.db.QueryRow(ctx, `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`).Scan(&now); err != nil {
			return fmt.Errorf("asking for the time: %w", err)
		}
		start = time.UnixMicro(now)
	}
	seen := map[int64]time.Time{from.ID: from.OccurredAt}
	for {
		newest, err := r.look(ctx, f, start, seen, each)
		if err != nil {
			return err
		}
		if back := newest.Add(-tailOverlap); back.After(start) {
			start = back
		}
		for id, occurred := range seen {
			if occurred.Before(start) {
				delete(seen, id)
			}
		}
		select {
		case <-time.After(tailPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// look hands on what has come since start and was not seen, and returns the time
// of the newest.
func (r *Reader) look(ctx context.Context, f Filter, start time.Time, seen map[int64]time.Time, each func([]Record) error) (newest time.Time, err error) {
	f.After = Place{OccurredAt: start}
	for {
		records, err := r.List(ctx, f, tailPage)
		if err != nil {
			return newest, err
		}
		var fresh []Record
		for _, record := range records {
			if _, known := seen[record.ID]; !known {
				seen[record.ID] = record.OccurredAt
				fresh = append(fresh, record)
			}
			newest, f.After = record.OccurredAt, record.Place()
		}
		if err := each(fresh); err != nil || len(records) < tailPage {
			return newest, err
		}
	}
}
