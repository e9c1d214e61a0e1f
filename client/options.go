package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Option says how a lock is to be taken.
type Option func(*terms)

// TTL asks for a lease of this length, in whole milliseconds. Without it, or 0:
// what the gateway is configured for.
func TTL(d time.Duration) Option { return func(t *terms) { t.ttl = d } }

// Wait waits up to d for a lock that somebody else holds, or for a gateway that
// can't be reached. Without it Acquire asks once for a lock that is held.
func Wait(d time.Duration) Option { return func(t *terms) { t.wait = d } }

// Margin is Config.Margin for this one lease.
func Margin(d time.Duration) Option { return func(t *terms) { t.margin = d } }

// MaxRenewals lets the watchdog renew n times and no more, so that a worker that
// hangs loses its lock in the end. 0: as often as the gateway lets it, which has
// a maximum lifetime of its own.
func MaxRenewals(n int) Option { return func(t *terms) { t.renewals = n } }

// WithoutWatchdog renews nothing by itself: the lease ends when its time is
// over, unless Renew is called. It costs one timer and no goroutine.
func WithoutWatchdog() Option { return func(t *terms) { t.watchdog = false } }

// terms are what a lock is taken under.
type terms struct {
	ttl      time.Duration
	wait     time.Duration
	margin   time.Duration
	renewals int
	watchdog bool
}

func (c *Client) terms(keys []string, options []Option) (terms, error) {
	t := terms{margin: c.margin, watchdog: true}
	for _, set := range options {
		set(&t)
	}
	switch {
	case len(keys) == 0 || slices.Contains(keys, ""):
		return t, errors.New("a lock key is needed")
	case t.ttl < 0 || t.ttl%time.Millisecond != 0:
		return t, fmt.Errorf("a TTL is whole milliseconds, not %s", t.ttl)
	case t.wait < 0 || t.margin < 0 || t.renewals < 0:
		return t, errors.New("Wait, Margin and MaxRenewals are not negative")
	case t.ttl > 0 && t.margin >= t.ttl:
		return t, fmt.Errorf("a margin of %s leaves nothing of a TTL of %s", t.margin, t.ttl)
	}
	return t, nil
}

func (t terms) trust(sent reading, g grant) trust {
	margin := t.margin
	if margin == 0 {
		margin = defaultMargin(g.ttl())
	}
	return trust{sent: sent, ttl: g.ttl(), margin: margin}
}

// again returns how long to wait before the lock is asked for again, if at all.
func (t terms) again(n int, err error, patience, passed time.Duration) (time.Duration, bool) {
	told, ok := err.(*Error)
	if !ok {
		return 0, false
	}
	left, asked := t.wait-passed, time.Duration(0)
	switch {
	case told.Is(ErrHeld): // the gateway has done the waiting
	case told.comeAgain(), told.Is(ErrStale):
		left, asked = max(left, patience-passed), told.RetryAfter
	default:
		return 0, false
	}
	if left <= 0 {
		return 0, false
	}
	return min(left, backoff(n, asked, 4*left, rand.Float64())), true
}
