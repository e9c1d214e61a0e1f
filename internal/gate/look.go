package gate

import (
	"context"
	"errors"
	"time"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/auth"
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

// Look returns the state of key, or an error that wraps auth.ErrDenied. The mark and the lease are read one after the
// other: between them the key can change hands.
func (g *Gate) Look(ctx context.Context, p auth.Principal, key lease.Key) (State, error) {
	if err := auth.AllowLook(p, key); err != nil {
		return State{}, err
	}
	mark, err := g.mark(ctx, key)
	if err != nil {
		return State{}, err
	}
	current, err := g.Store.Read(ctx, key)
	if err != nil {
		return State{}, err
	}
	return stateOf(mark, current[0]), nil
}

// Mark returns the mark of key, the zero Mark if it was never granted, to an
// administrator.
func (g *Gate) Mark(ctx context.Context, p auth.Principal, key lease.Key) (fence.Mark, error) {
	if err := auth.AllowAdmin(p, seeingMarks); err != nil {
		return fence.Mark{}, err
	}
	return g.mark(ctx, key)
}

func (g *Gate) mark(ctx context.Context, key lease.Key) (fence.Mark, error) {
	mark, err := g.Marks.Read(ctx, key)
	return mark, classify(reaching, err)
}

const seeingMarks = "seeing marks and grants"

// ListMarks returns the marks that s picks, in byte order of their keys, to an
// administrator.
func (g *Gate) ListMarks(ctx context.Context, p auth.Principal, s fence.Selection) ([]fence.Mark, error) {
	if err := auth.AllowAdmin(p, seeingMarks); err != nil {
		return nil, err
	}
	return g.listMarks(ctx, s)
}

func (g *Gate) listMarks(ctx context.Context, s fence.Selection) ([]fence.Mark, error) {
	marks, err := g.Marks.List(ctx, s)
	return marks, classify(reaching, err)
}

// looksRound is how many marks are read at once for somebody who may not see all.
const looksRound = 1000

// ListLeases returns what is known about those of the held marks that s picks
// which have a live lease and which p may see, and the last key of these that was
// looked at: "" says that no more are held. A key that p may not see is never told,
// not as a place to go on from either. Marks and leases are read one after the other.
func (g *Gate) ListLeases(ctx context.Context, p auth.Principal, s fence.Selection) (live []State, last lease.Key, err error) {
	seen, more, err := g.heldMarks(ctx, p, s)
	if err != nil || len(seen) == 0 {
		return nil, "", err
	}
	keys := make([]lease.Key, len(seen))
	for i, mark := range seen {
		keys[i] = mark.Key
	}
	readings, err := g.Store.Read(ctx, keys...)
	if err != nil {
		return nil, "", err
	}
	for i, mark := range seen {
		if readings[i].Live() {
			live = append(live, stateOf(mark, readings[i]))
		}
	}
	if more {
		last = keys[len(keys)-1]
	}
	return live, last, nil
}

// heldMarks returns up to s.Limit held marks that p may see, and whether there may be
// more. It passes over the others however many they are.
func (g *Gate) heldMarks(ctx context.Context, p auth.Principal, s fence.Selection) (seen []fence.Mark, more bool, err error) {
	most := s.Limit
	s.Held = true
	if !p.Admin {
		s.Limit = max(most, looksRound)
	}
	for {
		marks, err := g.listMarks(ctx, s)
		if err != nil {
			return nil, false, err
		}
		for _, mark := range marks {
			if auth.AllowLook(p, mark.Key) != nil {
				continue
			}
			if seen = append(seen, mark); len(seen) == most {
				return seen, true, nil
			}
		}
		if len(marks) < s.Limit {
			return seen, false, nil
		}
		s.After = marks[len(marks)-1].Key
	}
}

func stateOf(mark fence.Mark, current lockclient.Reading) State {
	return State{
		Mark:   mark,
		Live:   current.Live(),
		Left:   current.Remaining,
		OfMark: current.Live() && current.Holder.Digest() == mark.HolderDigest,
	}
}

// own narrows f to what p may see: an administrator everything, anybody else their
// own.
func own(p auth.Principal, f audit.Filter) (audit.Filter, error) {
	if p.Admin {
		return f, nil
	}
	if p.Name == "" || f.Principal != "" && f.Principal != p.Name {
		return f, auth.AllowAdmin(p, "seeing the refusals of others")
	}
	f.Principal = p.Name
	return f, nil
}

// ListRefusals returns up to limit records that p may see, newest first.
func (g *Gate) ListRefusals(ctx context.Context, p auth.Principal, f audit.Filter, limit int) (records []audit.Record, err error) {
	f, err = own(p, f)
	if err != nil {
		return nil, err
	}
	err = g.looking(ctx, p, func() (err error) {
		records, err = g.Records.List(ctx, f, limit)
		return err
	})
	return records, err
}

// CountRefusals counts what p may see by code and step of time; see
// audit.Reader.Count.
func (g *Gate) CountRefusals(ctx context.Context, p auth.Principal, f audit.Filter, step time.Duration, most int) (counts []audit.Count, err error) {
	f, err = own(p, f)
	if err != nil {
		return nil, err
	}
	err = g.looking(ctx, p, func() (err error) {
		counts, err = g.Records.Count(ctx, f, step, most)
		return err
	})
	return counts, err
}

// Story is a record and what its lock key has seen since.
type Story struct {
	audit.Record
	History []audit.Grant // from the grant of the presented token on, oldest first; an administrator's
}

// Refusal returns one record with its story, or audit.ErrNotFound, also for one
// that p may not see.
func (g *Gate) Refusal(ctx context.Context, p auth.Principal, id int64) (story Story, err error) {
	leave, err := g.shared(ctx, g.readers, p.Name)
	if err != nil {
		return story, err
	}
	defer leave()
	story.Record, err = g.Records.Get(ctx, id)
	if errors.Is(err, audit.ErrNotFound) {
		return story, err
	}
	if err == nil && !p.Admin && (p.Name == "" || story.Origin.Principal != p.Name) {
		return Story{}, audit.ErrNotFound
	}
	if err == nil && p.Admin {
		story.History, err = g.Records.History(ctx, story.Claim.Key, story.Claim.Token)
	}
	return story, classify(reaching, err)
}

// ListGrants returns up to limit events of key's grants, newest first, to an
// administrator; with before only those of a smaller id.
func (g *Gate) ListGrants(ctx context.Context, p auth.Principal, key lease.Key, before int64, limit int) (grants []audit.Grant, err error) {
	if err := auth.AllowAdmin(p, seeingMarks); err != nil {
		return nil, err
	}
	err = g.looking(ctx, p, func() (err error) {
		grants, err = g.Records.Grants(ctx, key, before, limit)
		return err
	})
	return grants, err
}

// TailRefusals calls each with what f picks and p may see as it is recorded, until
// ctx ends or each fails; see audit.Reader.Tail.
func (g *Gate) TailRefusals(ctx context.Context, p auth.Principal, f audit.Filter, from audit.Place, each func([]audit.Record) error) error {
	f, err := own(p, f)
	if err != nil {
		return err
	}
	return g.Records.Tail(ctx, f, from, each)
}

// Report counts what was let through in observe mode since a time, for an
// administrator.
func (g *Gate) Report(ctx context.Context, p auth.Principal, since time.Time) (report audit.Report, err error) {
	if err := auth.AllowAdmin(p, "the report of what was let through"); err != nil {
		return audit.Report{}, err
	}
	err = g.looking(ctx, p, func() (err error) {
		report, err = g.Records.Report(ctx, since)
		return err
	})
	return report, err
}
