package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// watch is the watchdog: it renews the lease in time until its context is done,
// there is nothing more to gain, or the lease is lost.
func (l *Lease) watch() {
	defer close(l.watching)
	for n := 0; ; n++ {
		wait, stop := l.next(n)
		if stop || sleep(l.ctx, wait) != nil || l.insist() != nil {
			return
		}
	}
}

var (
	errRenewals = errors.New("it has been renewed as often as MaxRenewals allows")
	errLifetime = errors.New("it has reached its maximum lifetime")
)

// next returns how long to wait before the next renewal, after n of them, and
// whether there is to be none.
func (l *Lease) next(n int) (wait time.Duration, stop bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.terms.renewals > 0 && n >= l.terms.renewals:
		l.problem = errRenewals
		return 0, true
	case l.trust.final(l.granted, l.life, max(l.terms.ttl, l.trust.ttl)):
		l.problem = errLifetime
		return 0, true
	}
	return max(0, l.again-l.client.clock.now().since(l.trust.sent)), false
}

// insist renews the lease, as often as it takes and its deadline allows.
func (l *Lease) insist() error {
	for n := 1; ; n++ {
		err := l.renew(l.ctx, attemptTime)
		left := l.Left()
		if err == nil || left <= 0 || l.ctx.Err() != nil {
			return err
		}
		l.client.log.Info("a renewal did not work and is tried again", "lock_key", l.key, "attempt", n, "left", left, "error", err)
		var told *Error
		errors.As(err, &told)
		pause := backoff(n, told.after(), left, rand.Float64())
		if err := sleep(l.ctx, pause); err != nil {
			return err
		}
	}
}

func (e *Error) after() time.Duration {
	if e == nil {
		return 0
	}
	return e.RetryAfter
}

// Renew sets the lease's end to a full TTL from now, once; a worker without
// watchdog calls it. It never revives a lease that is over. Errors: ErrLost,
// ErrReleased, ErrUnavailable (the lease lives on until its deadline).
func (l *Lease) Renew(ctx context.Context) error {
	return l.renew(ctx, func(left time.Duration) time.Duration { return min(left, l.client.timeout) })
}

func (l *Lease) renew(ctx context.Context, limit func(left time.Duration) time.Duration) error {
	l.renewing.Lock()
	defer l.renewing.Unlock()
	if err := l.Err(); err != nil {
		return err
	}
	sent := l.client.clock.now()
	g, err := l.askToRenew(ctx, limit(l.Left()))
	return l.renewed(sent, g, err)
}

func (l *Lease) askToRenew(ctx context.Context, limit time.Duration) (grant, error) {
	claim := l.claim()
	claim.TTLMS = l.terms.ttl.Milliseconds()
	body, err := json.Marshal(claim)
	if err != nil {
		return grant{}, err
	}
	var renewed grant
	q := request{method: http.MethodPost, path: "v1/leases/renew", body: body, read: func(a answer) (err error) {
		renewed, err = l.own(a)
		return err
	}}
	err = l.client.send(ctx, l.client.transport, q, limit)
	return renewed, err
}

// own reads the answer to a renewal of this lease.
func (l *Lease) own(a answer) (grant, error) {
	grants, err := a.grants(0)
	if err != nil {
		return grant{}, err
	}
	if grants[0].Holder != l.holder || grants[0].token != l.token {
		return grant{}, fmt.Errorf("it is a lease of token %d, not of token %d", grants[0].token, l.token)
	}
	return grants[0], nil
}

// renewed takes over what a renewal that was sent at the given moment brought.
func (l *Lease) renewed(sent reading, g grant, err error) error {
	if errors.Is(err, ErrStale) {
		l.lose(err)
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// An answer that came after the deadline revives nothing.
	if ended := l.check(); ended != nil {
		return ended
	}
	if l.problem = err; err != nil {
		return err
	}
	l.trust, l.again = l.terms.trust(sent, g), g.renewAfter()
	if ended := l.check(); ended != nil {
		return ended
	}
	l.deadline.Reset(l.trust.left(l.client.clock.now()))
	return nil
}
