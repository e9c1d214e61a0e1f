package gate

import (
	"context"
	"errors"
	"time"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/lease"
)

// State is what is known about a lock key now.
type State struct {
	Mark   fence.Mark
	Live   bool
	Left   time.Duration
	OfMark bool // the live lease is the one that the mark was granted to
}

// Look returns the state of key. The mark and the lease are read one after the
// other: between them the key can change hands.
func (g *Gate) Look(ctx context.Context, key lease.Key) (State, error) {
	mark, err := g.Mark(ctx, key)
	if err != nil {
		return State{}, err
	}
	current, err := g.Store.Read(ctx, key)
	if err != nil {
		return State{}, err
	}
	return State{
		Mark:   mark,
		Live:   current[0].Live(),
		Left:   current[0].Remaining,
		OfMark: current[0].Live() && current[0].Holder.Digest() == mark.HolderDigest,
	}, nil
}

// Mark returns the mark of key, the zero Mark if it was never granted.
func (g *Gate) Mark(ctx context.Context, key lease.Key) (fence.Mark, error) {
	mark, err := g.Marks.Read(ctx, key)
	return mark, classify(reaching, err)
}

// ListMarks returns up to limit marks whose keys begin with prefix and come
// after after, in byte order.
func (g *Gate) ListMarks(ctx context.Context, prefix string, after lease.Key, limit int) ([]fence.Mark, error) {
	marks, err := g.Marks.List(ctx, prefix, after, limit)
	return marks, classify(reaching, err)
}

// ListRefusals returns up to limit records, newest first.
func (g *Gate) ListRefusals(ctx context.Context, f audit.Filter, limit int) ([]audit.Record, error) {
	records, err := g.Records.List(ctx, f, limit)
	return records, classify(reaching, err)
}

// Refusal returns one record, or audit.ErrNotFound.
func (g *Gate) Refusal(ctx context.Context, id int64) (audit.Record, error) {
	record, err := g.Records.Get(ctx, id)
	if errors.Is(err, audit.ErrNotFound) {
		return record, err
	}
	return record, classify(reaching, err)
}
