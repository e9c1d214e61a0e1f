package gate

import (
	"context"
	"errors"
	"time"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient"
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
	return stateOf(mark, current[0]), nil
}

// Mark returns the mark of key, the zero Mark if it was never granted.
func (g *Gate) Mark(ctx context.Context, key lease.Key) (fence.Mark, error) {
	mark, err := g.Marks.Read(ctx, key)
	return mark, classify(reaching, err)
}

// ListMarks returns the marks that s picks, in byte order of their keys.
func (g *Gate) ListMarks(ctx context.Context, s fence.Selection) ([]fence.Mark, error) {
	marks, err := g.Marks.List(ctx, s)
	return marks, classify(reaching, err)
}

// ListLeases returns what is known about those of the held marks that s picks
// which have a live lease, and the last key that was looked at: "" says that no
// more are held. Marks and leases are read one after the other.
func (g *Gate) ListLeases(ctx context.Context, s fence.Selection) (live []State, last lease.Key, err error) {
	s.Held = true
	marks, err := g.ListMarks(ctx, s)
	if err != nil || len(marks) == 0 {
		return nil, "", err
	}
	keys := make([]lease.Key, len(marks))
	for i, mark := range marks {
		keys[i] = mark.Key
	}
	readings, err := g.Store.Read(ctx, keys...)
	if err != nil {
		return nil, "", err
	}
	for i, mark := range marks {
		if readings[i].Live() {
			live = append(live, stateOf(mark, readings[i]))
		}
	}
	if len(marks) == s.Limit {
		last = keys[len(keys)-1]
	}
	return live, last, nil
}

func stateOf(mark fence.Mark, current lockclient.Reading) State {
	return State{
		Mark:   mark,
		Live:   current.Live(),
		Left:   current.Remaining,
		OfMark: current.Live() && current.Holder.Digest() == mark.HolderDigest,
	}
}

// ListRefusals returns up to limit records, newest first.
func (g *Gate) ListRefusals(ctx context.Context, f audit.Filter, limit int) ([]audit.Record, error) {
	records, err := g.Records.List(ctx, f, limit)
	return records, classify(reaching, err)
}

// CountRefusals counts by code and step of time; see audit.Reader.Count.
func (g *Gate) CountRefusals(ctx context.Context, f audit.Filter, step time.Duration, most int) ([]audit.Count, error) {
	counts, err := g.Records.Count(ctx, f, step, most)
	return counts, classify(reaching, err)
}

// Story is a record and what its lock key has seen since.
type Story struct {
	audit.Record
	History []audit.Grant // from the grant of the presented token on, oldest first
}

// Refusal returns one record with its story, or audit.ErrNotFound.
func (g *Gate) Refusal(ctx context.Context, id int64) (story Story, err error) {
	story.Record, err = g.Records.Get(ctx, id)
	if errors.Is(err, audit.ErrNotFound) {
		return story, err
	}
	if err == nil {
		story.History, err = g.Records.History(ctx, story.Claim.Key, story.Claim.Token)
	}
	return story, classify(reaching, err)
}

// ListGrants returns up to limit events of key's grants, newest first; with before
// only those of a smaller id.
func (g *Gate) ListGrants(ctx context.Context, key lease.Key, before int64, limit int) ([]audit.Grant, error) {
	grants, err := g.Records.Grants(ctx, key, before, limit)
	return grants, classify(reaching, err)
}

// TailRefusals calls each with what f picks as it is recorded, until ctx ends or
// each fails; see audit.Reader.Tail.
func (g *Gate) TailRefusals(ctx context.Context, f audit.Filter, from audit.Place, each func([]audit.Record) error) error {
	return g.Records.Tail(ctx, f, from, each)
}
