package client

import (
	"context"
	"errors"
	"fmt"
)

// WithLock takes the lock, runs work with the lease's context, and gives the lock
// back, also when work panics. If the lease was lost meanwhile the error is
// ErrLost, also if work returned none: what it did besides fenced writes was not
// protected to its end.
func (c *Client) WithLock(ctx context.Context, key string, work func(context.Context, *Lease) error, options ...Option) (err error) {
	l, err := c.Acquire(ctx, key, options...)
	if err != nil {
		return err
	}
	// A panic, too, passes through here and goes on.
	defer func() { err = errors.Join(err, l.finish(ctx, err)) }()
	return work(l.Context(), l)
}

// finish gives the lock back and returns the loss that err does not tell yet.
func (l *Lease) finish(ctx context.Context, err error) error {
	lost := l.Err()
	ours, failed := l.Release(ctx)
	switch {
	case isLost(err):
		return nil
	case isLost(lost):
		return lost
	case failed != nil:
		// The work is done, and a lock that nobody gives back runs out.
		l.client.log.Warn("a lock was not given back", "lock_key", l.key, "error", failed)
	case lost == nil && !ours:
		return fmt.Errorf("%w: it was not held any more when it was given back", ErrLost)
	}
	return nil
}
