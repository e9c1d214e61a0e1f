// Package redlock keeps each lease on a majority of lock services that know
// nothing of each other, such as five Redis: any minority of them can be gone.
//
// A holder has the lease for as long as a majority says so, less the drift of
// their clocks (1 % and 2 ms) and the time that asking took: ends are told by the
// nodes' own clocks, and compared with nothing but durations of this machine's
// monotonic one. So a lease ends a little early here, and never late.
//
// Not promised: that at most one holds a key. A node that restarts empty has
// forgotten its vote, and a majority can then be found twice; the marks of package
// fence decide. Nor that readings of several nodes are of one moment. A lease that
// a bare majority has ends with the first of those nodes: too few agree then,
// although the holder did nothing wrong.
package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient"
)

// ErrNodes is returned by New for fewer than three nodes: of two, neither can be
// missing.
var ErrNodes = errors.New("a majority takes three nodes or more")

const (
	// tries is how often a Take starts again when several at once have split the
	// votes. Each one waits for a random time first.
	tries = 10
	pause = 20 * time.Millisecond // the longest wait before the second try
)

// Config says what a Store is made of. No field has a default.
type Config struct {
	Nodes []lockclient.Store
	// NodeTimeout ends a call to one node. It should be small beside the leases.
	NodeTimeout time.Duration
}

// Store asks all nodes at once. It implements lockclient.Store.
type Store struct {
	nodes   []lockclient.Store
	timeout time.Duration
	quorum  int
}

var (
	_ lockclient.Store   = (*Store)(nil)
	_ lockclient.Watcher = (*Store)(nil)
)

// New returns a store over config.Nodes, which the caller closes.
func New(config Config) (*Store, error) {
	if len(config.Nodes) < 3 {
		return nil, fmt.Errorf("%w, not %d", ErrNodes, len(config.Nodes))
	}
	return &Store{nodes: config.Nodes, timeout: config.NodeTimeout, quorum: len(config.Nodes)/2 + 1}, nil
}

// vote is one node's answer to a Take.
type vote struct {
	taken   bool
	current lockclient.Reading
}

// Take implements lockclient.Store. One that gets no majority gives back what it
// got, on every node.
func (s *Store) Take(ctx context.Context, key lease.Key, holder lease.Holder, ttl time.Duration) (bool, lockclient.Reading, error) {
	var current lockclient.Reading
	for n := range tries {
		if err := wait(ctx, n); err != nil {
			return false, lockclient.Reading{}, s.unavailable("taking", key, err)
		}
		votes, took, err := s.vote(ctx, key, holder, ttl)
		mine, others := s.count(votes, took)
		if mine.HeldBy(holder) {
			return true, mine, nil
		}
		s.giveBack(ctx, key, holder)
		if err != nil {
			return false, lockclient.Reading{}, s.unavailable("taking", key, err)
		}
		if current = others; current.Holder != "" {
			break // somebody has a majority
		}
	}
	return false, current, nil
}

// wait makes those who split the votes try again one after the other.
func wait(ctx context.Context, try int) error {
	if try == 0 {
		return nil
	}
	timer := time.NewTimer(rand.N(time.Duration(try) * pause))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// vote asks every node for its lease, and says how long that took. The error
// means that too few answered.
func (s *Store) vote(ctx context.Context, key lease.Key, holder lease.Holder, ttl time.Duration) ([]vote, time.Duration, error) {
	began := time.Now() // before the first is asked: what is left counts from here
	votes, err := ask(ctx, s, func(ctx context.Context, node lockclient.Store) (v vote, err error) {
		v.taken, v.current, err = node.Take(ctx, key, holder, ttl)
		return v, err
	}, func(votes []vote, missing int) bool {
		mine, others := s.count(votes, 0)
		return mine.HeldBy(holder) || others.Holder != ""
	})
	return votes, time.Since(began), err
}

// count returns the lease that the votes are for, if they are enough, and
// otherwise what keeps it from this holder: a majority's lease, or for lack of
// one, nobody's until enough nodes are free.
func (s *Store) count(votes []vote, took time.Duration) (mine, others lockclient.Reading) {
	var left, blocked []time.Duration
	readings := make([]lockclient.Reading, len(votes))
	for i, v := range votes {
		if v.taken {
			left, blocked = append(left, v.current.Remaining), append(blocked, 0)
			mine.Holder = v.current.Holder
			continue
		}
		readings[i] = v.current
		blocked = append(blocked, v.current.Remaining)
	}
	mine.Remaining = valid(s.best(left), took)
	if others = s.agreed(readings); others.Live() || len(blocked) < s.quorum {
		return mine, others
	}
	slices.Sort(blocked)
	return mine, lockclient.Reading{Remaining: max(blocked[s.quorum-1], time.Millisecond)}
}

// giveBack goes on after its caller has gone, and waits for a majority only. A node
// that can't be told keeps its vote until the lease ends.
func (s *Store) giveBack(ctx context.Context, key lease.Key, holder lease.Holder) {
	_, _ = s.drop(context.WithoutCancel(ctx), key, holder, func([]bool, int) bool { return true })
}

// Read implements lockclient.Store.
func (s *Store) Read(ctx context.Context, keys ...lease.Key) ([]lockclient.Reading, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	answers, err := ask(ctx, s, func(ctx context.Context, node lockclient.Store) ([]lockclient.Reading, error) {
		return node.Read(ctx, keys...)
	}, s.settled)
	if err != nil {
		return nil, s.unavailable("reading", keys[0], err)
	}
	readings := make([]lockclient.Reading, len(keys))
	for i := range keys {
		r := s.agreed(column(answers, i))
		if r.Remaining = valid(r.Remaining, 0); r.Live() {
			readings[i] = r
		}
	}
	return readings, nil
}

// settled reports whether those who have not answered can't change who holds each
// key.
func (s *Store) settled(answers [][]lockclient.Reading, missing int) bool {
	if len(answers) == 0 {
		return false
	}
	for i := range answers[0] {
		most := 0
		for _, votes := range tally(column(answers, i)) {
			most = max(most, len(votes))
		}
		if most < s.quorum && most+missing >= s.quorum {
			return false
		}
	}
	return true
}

// Extend implements lockclient.Store. It takes a majority that still has the
// lease; what a node has lost is not made again there.
func (s *Store) Extend(ctx context.Context, key lease.Key, holder lease.Holder, ttl time.Duration) (bool, error) {
	began := time.Now()
	answers, err := ask(ctx, s, func(ctx context.Context, node lockclient.Store) (bool, error) {
		return node.Extend(ctx, key, holder, ttl)
	}, s.decided)
	if err != nil {
		return false, s.unavailable("extending", key, err)
	}
	extended := count(answers, func(did bool) bool { return did })
	return extended >= s.quorum && valid(ttl, time.Since(began)) > 0, nil
}

// Drop implements lockclient.Store. True: a majority had it, as far as is known.
func (s *Store) Drop(ctx context.Context, key lease.Key, holder lease.Holder) (bool, error) {
	answers, err := s.drop(ctx, key, holder, s.decided)
	if err != nil {
		return false, s.unavailable("dropping", key, err)
	}
	dropped := count(answers, func(did bool) bool { return did })
	return dropped > 0 && dropped+len(s.nodes)-len(answers) >= s.quorum, nil
}

func (s *Store) drop(ctx context.Context, key lease.Key, holder lease.Holder, decided func([]bool, int) bool) ([]bool, error) {
	return ask(ctx, s, func(ctx context.Context, node lockclient.Store) (bool, error) {
		return node.Drop(ctx, key, holder)
	}, decided)
}

// Watch implements lockclient.Watcher, if the nodes do. A drop is told by each node
// that has it, the first ones before a majority is free.
func (s *Store) Watch(ctx context.Context, dropped func(lease.Key)) error {
	var all errgroup.Group
	for _, node := range s.nodes {
		if watcher, ok := node.(lockclient.Watcher); ok {
			all.Go(func() error { return watcher.Watch(ctx, dropped) })
		}
	}
	err := all.Wait()
	<-ctx.Done() // also if no node can tell
	return err
}

// decided: a majority did, or can't any more.
func (s *Store) decided(answers []bool, missing int) bool {
	did := count(answers, func(did bool) bool { return did })
	return did >= s.quorum || did+missing < s.quorum
}

func (s *Store) unavailable(act string, key lease.Key, err error) error {
	return fmt.Errorf("%s the lease of %q from a majority of %d: %w: %w", act, key, len(s.nodes), lockclient.ErrUnavailable, err)
}
