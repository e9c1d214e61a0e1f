package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
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
	key      string
	ttl      time.Duration
	wait     time.Duration
	margin   time.Duration
	renewals int
	watchdog bool
}

func (c *Client) terms(key string, options []Option) (terms, error) {
	t := terms{key: key, margin: c.margin, watchdog: true}
	for _, set := range options {
		set(&t)
	}
	switch {
	case key == "":
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

// Acquire takes the lock. ctx bounds the taking, and is what the lease's context
// comes from: when it is cancelled the lease is not renewed any more.
//
// Errors: ErrHeld, ErrUnavailable, ErrRefused, and ErrLost if the grant came too
// late to be of use.
func (c *Client) Acquire(ctx context.Context, key string, options ...Option) (*Lease, error) {
	t, err := c.terms(key, options)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	for n := 1; ; n++ {
		l, err := c.take(ctx, t)
		if err == nil {
			return l, nil
		}
		pause, again := t.again(n, err, c.patience, time.Since(began))
		if !again {
			return nil, err
		}
		if waited := sleep(ctx, pause); waited != nil {
			return nil, errors.Join(waited, err)
		}
	}
}

// take asks for the lock once.
func (c *Client) take(ctx context.Context, t terms) (*Lease, error) {
	body, err := json.Marshal(acquireBody{Key: t.key, TTLMS: t.ttl.Milliseconds(), Client: c.name})
	if err != nil {
		return nil, err
	}
	sent := c.clock.now()
	g, err := c.grant(ctx, request{method: http.MethodPost, path: "v1/leases", body: body}, c.timeout)
	if err != nil {
		return nil, err
	}
	l := c.newLease(ctx, t, sent, g)
	if c.clock.now().since(sent) > g.ttl()/lateGrant {
		err = l.confirm(ctx)
	}
	if err == nil {
		err = l.begin()
	}
	if err != nil {
		_, _ = l.Release(ctx) // the next one need not wait for it
		return nil, fmt.Errorf("the grant came too late: %w", err)
	}
	return l, nil
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
	t, err := c.terms(key, options)
	if err != nil {
		return nil, err
	}
	l := c.newLease(ctx, t, c.clock.now(), grant{Key: key, Holder: holder, token: token, TTLMS: c.timeout.Milliseconds(),
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

// again returns how long to wait before the lock is asked for again, if at all.
func (t terms) again(n int, err error, patience, passed time.Duration) (time.Duration, bool) {
	var told *Error
	if !errors.As(err, &told) {
		return 0, false
	}
	left := t.wait - passed
	if told.comeAgain() {
		left = max(left, patience-passed)
	} else if told.Status != http.StatusLocked {
		return 0, false
	}
	if left <= 0 {
		return 0, false
	}
	// The first to ask after an end gets the lock; all at one moment is too many.
	pause := backoff(n, min(told.RetryAfter, maxPause), 4*left, rand.Float64())
	return min(pause, left), true
}

// maxPause keeps a lock that is given back early from lying idle until the lease
// that the gateway told of would have ended.
const maxPause = 2 * time.Second

// acquireBody is AcquireRequest of openapi.yaml.
type acquireBody struct {
	Key    string `json:"key"`
	TTLMS  int64  `json:"ttl_ms,omitempty"`
	Client string `json:"client,omitempty"`
}

// claimBody is RenewRequest and ReleaseRequest of openapi.yaml.
type claimBody struct {
	Key    string `json:"key"`
	Holder string `json:"holder"`
	Token  string `json:"token"`
	TTLMS  int64  `json:"ttl_ms,omitempty"`
}

func (l *Lease) claim() claimBody {
	return claimBody{Key: l.wire, Holder: l.holder, Token: l.headers[tokenHeader]}
}

const (
	keyHeader    = "Lock-Key"
	holderHeader = "Lock-Holder"
	tokenHeader  = "Fencing-Token"
)

// grant is Lease of openapi.yaml.
type grant struct {
	Key           string            `json:"key"`
	Holder        string            `json:"holder"`
	Token         string            `json:"token"`
	TTLMS         int64             `json:"ttl_ms"`
	RenewAfterMS  int64             `json:"renew_after_ms"`
	MaxLifetimeMS int64             `json:"max_lifetime_ms"`
	Headers       map[string]string `json:"headers"`

	token int64
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func (g grant) ttl() time.Duration      { return milliseconds(g.TTLMS) }
func (g grant) lifetime() time.Duration { return milliseconds(g.MaxLifetimeMS) }

func (g grant) renewAfter() time.Duration {
	if after := milliseconds(g.RenewAfterMS); after > 0 && after < g.ttl() {
		return after
	}
	return g.ttl() / 3
}

// headers returns the three that a write carries and no others, whatever the
// answer calls headers.
func (g grant) headers() map[string]string {
	return map[string]string{
		keyHeader: g.Headers[keyHeader], holderHeader: g.Headers[holderHeader], tokenHeader: g.Headers[tokenHeader],
	}
}

// grant sends a request that is answered with a lease.
func (c *Client) grant(ctx context.Context, q request, limit time.Duration) (g grant, err error) {
	a, err := c.send(ctx, c.transport, q, limit)
	if err != nil {
		return g, err
	}
	if err := json.Unmarshal(a.body, &g); err != nil {
		return g, fmt.Errorf("reading the lease that %s answered: %w", q.path, err)
	}
	g.token, err = strconv.ParseInt(g.Token, 10, 64)
	h := g.headers()
	if err != nil || g.token < 1 || g.Key == "" || g.Holder == "" || g.TTLMS < 1 || h[keyHeader] == "" || h[holderHeader] == "" || h[tokenHeader] != g.Token {
		return g, fmt.Errorf("what %s answered is no lease", q.path)
	}
	return g, nil
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
