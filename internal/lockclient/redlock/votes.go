package redlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient"
)

// shortest is the least that those get who have not answered when the outcome is
// known: their votes tell how much is left.
const shortest = 5 * time.Millisecond

// ask calls every node at once and returns what they answered. It returns when all
// have, and a moment after decided says that the others can't change the outcome:
// one that is frozen must not cost every call its timeout. The error means that
// fewer than a majority answered.
func ask[T any](ctx context.Context, s *Store, call func(context.Context, lockclient.Store) (T, error), decided func(answers []T, missing int) bool) ([]T, error) {
	type answer struct {
		value T
		err   error
	}
	began := time.Now()
	coming := make(chan answer, len(s.nodes))
	for _, node := range s.nodes {
		go func() { // ends within the timeout
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
			defer cancel()
			value, err := call(ctx, node)
			coming <- answer{value, err}
		}()
	}
	var answers []T
	var errs []error
	var over <-chan time.Time
	for missing := len(s.nodes); missing > 0; missing-- {
		select {
		case <-ctx.Done():
			return answers, errors.Join(append(errs, context.Cause(ctx))...)
		case <-over:
			return answers, nil
		case one := <-coming:
			if one.err != nil {
				errs = append(errs, one.err)
				break
			}
			answers = append(answers, one.value)
			if over == nil && len(answers) >= s.quorum && decided(answers, missing-1) {
				timer := time.NewTimer(max(time.Since(began), shortest))
				defer timer.Stop()
				over = timer.C
			}
		}
	}
	if len(answers) < s.quorum {
		return answers, errors.Join(errs...)
	}
	return answers, nil
}

func count[T any](answers []T, is func(T) bool) (n int) {
	for _, a := range answers {
		if is(a) {
			n++
		}
	}
	return n
}

// column is what every node said about the key at place i.
func column(answers [][]lockclient.Reading, i int) []lockclient.Reading {
	readings := make([]lockclient.Reading, len(answers))
	for n, a := range answers {
		readings[n] = a[i]
	}
	return readings
}

// tally returns, for each holder that a node named, what is left of its leases.
func tally(readings []lockclient.Reading) map[lease.Holder][]time.Duration {
	votes := map[lease.Holder][]time.Duration{}
	for _, r := range readings {
		if r.Live() {
			votes[r.Holder] = append(votes[r.Holder], r.Remaining)
		}
	}
	return votes
}

// agreed is the reading that a majority agrees on, or nobody's.
func (s *Store) agreed(readings []lockclient.Reading) lockclient.Reading {
	for holder, left := range tally(readings) {
		if best := s.best(left); best > 0 {
			return lockclient.Reading{Holder: holder, Remaining: best}
		}
	}
	return lockclient.Reading{}
}

// best is for how long a majority keeps its lease: as long as the least of its
// longest ones. 0: they are no majority.
func (s *Store) best(left []time.Duration) time.Duration {
	if len(left) < s.quorum {
		return 0
	}
	slices.Sort(left)
	return left[len(left)-s.quorum]
}

// valid is what is left for certain after asking took so long, in whole ms.
func valid(left, took time.Duration) time.Duration {
	if left <= 0 {
		return 0
	}
	drift := left/100 + 2*time.Millisecond
	return max(left-took-drift, 0).Truncate(time.Millisecond)
}
