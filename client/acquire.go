package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Acquire takes the lock. ctx bounds the taking, and is what the lease's context
// comes from: when it is cancelled the lease is not renewed any more. An acquire
// whose answer is lost is sent again under its Idempotency-Key.
//
// Errors: ErrHeld, ErrUnavailable (the lock may have been granted all the same, and
// runs out by itself then), ErrRefused, and ErrLost if the grant came too late to
// be of use.
func (c *Client) Acquire(ctx context.Context, key string, options ...Option) (*Lease, error) {
	leases, err := c.acquire(ctx, acquireBody{Key: key}, options)
	if err != nil {
		return nil, err
	}
	return leases[0], nil
}

// AcquireAll takes several locks, all or none, in one request, and returns their
// leases in the order of keys. Each lives and ends by itself, and is released by
// itself; Transaction writes under all of them. Errors: as Acquire.
func (c *Client) AcquireAll(ctx context.Context, keys []string, options ...Option) ([]*Lease, error) {
	return c.acquire(ctx, acquireBody{Keys: keys}, options)
}

func (c *Client) acquire(ctx context.Context, body acquireBody, options []Option) ([]*Lease, error) {
	t, err := c.terms(body.all(), options)
	if err != nil {
		return nil, err
	}
	body.TTLMS, body.Client = t.ttl.Milliseconds(), c.name
	began, once := time.Now(), newOnce()
	for n := 1; ; n++ {
		body.WaitMS = min(t.wait-time.Since(began), longWait).Milliseconds()
		leases, err := c.take(ctx, t, body, once)
		if err == nil {
			return leases, nil
		}
		pause, again := t.again(n, err, c.patience, time.Since(began))
		if !again {
			return nil, err
		}
		if errors.Is(err, ErrStale) {
			once = newOnce() // what an earlier attempt was granted is over
		}
		if waited := sleep(ctx, pause); waited != nil {
			return nil, errors.Join(waited, err)
		}
	}
}

// longWait is the longest that one request waits for a lock at the gateway: what
// stands between cuts off what is quiet for a minute.
const longWait = 50 * time.Second

// take asks for the locks once.
func (c *Client) take(ctx context.Context, t terms, body acquireBody, once string) (leases []*Lease, err error) {
	body.WaitMS = max(0, body.WaitMS)
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	sent := c.clock.now()
	grants, err := c.grants(ctx, request{method: http.MethodPost, path: "v1/leases", body: raw, once: once},
		c.timeout+milliseconds(body.WaitMS), len(body.Keys))
	if err != nil {
		return nil, err
	}
	keys := body.all()
	for i, g := range grants {
		leases = append(leases, c.newLease(ctx, keys[i], t, sent, g))
	}
	for _, l := range leases {
		if err := l.settle(ctx); err != nil {
			giveUp(ctx, leases)
			return nil, fmt.Errorf("the grant came too late: %w", err)
		}
	}
	return leases, nil
}

// giveUp releases leases that nobody is going to use: the next one need not wait.
func giveUp(ctx context.Context, leases []*Lease) {
	for _, l := range leases {
		_, _ = l.Release(ctx)
	}
}

// settle makes sure that there is enough left of a new lease, and begins it.
func (l *Lease) settle(ctx context.Context) error {
	if l.client.clock.now().since(l.granted) > l.trust.ttl/lateGrant {
		if err := l.confirm(ctx); err != nil {
			return err
		}
	}
	return l.begin()
}

// lateGrant is the part of a lease that its request may take. After that, when
// the grant was made in all this time is asked by a renewal: counted from the
// request, little would be left.
const lateGrant = 4

// confirm renews a lease that nobody has seen yet.
func (l *Lease) confirm(ctx context.Context) error {
	sent := l.client.clock.now()
	g, err := l.askToRenew(ctx, min(l.client.timeout, l.trust.ttl))
	if errors.Is(err, ErrStale) {
		l.lose(err)
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wire, l.headers, l.life = g.Key, g.headers(), g.lifetime()
	l.granted, l.trust, l.again = sent, l.terms.trust(sent, g), g.renewAfter()
	return nil
}

// Resume returns the lease of a lock that another process of one's own has
// acquired and handed on, such as `gateway lease run`, after one renewal, for
// which TTL should say the same as there. If that process goes on renewing, this
// one need not: see WithoutWatchdog. Errors: ErrLost, ErrUnavailable, ErrRefused.
func (c *Client) Resume(ctx context.Context, key, holder string, token int64, options ...Option) (*Lease, error) {
	t, err := c.terms([]string{key}, options)
	if err != nil {
		return nil, err
	}
	l := c.newLease(ctx, key, t, c.clock.now(), grant{Key: key, Holder: holder, token: token, TTLMS: c.timeout.Milliseconds(),
		Headers: map[string]string{keyHeader: key, holderHeader: holder, tokenHeader: strconv.FormatInt(token, 10)}})
	err = l.confirm(ctx)
	if err == nil {
		err = l.begin()
	}
	if err != nil {
		l.abandon()
		return nil, err
	}
	return l, nil
}

// abandon lets go of a lease that is not given back.
func (l *Lease) abandon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == nil {
		l.end(ErrReleased)
	}
}

// sleep waits for d, or less if ctx is done, and returns its error then.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
