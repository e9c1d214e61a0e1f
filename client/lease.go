package client

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Lease is a lock that was granted to this process. It is safe for concurrent
// use; the zero value is not usable.
type Lease struct {
	client  *Client
	key     string // as it was asked for
	wire    string // as the gateway writes it
	holder  string
	token   int64
	headers map[string]string // ready to send
	terms   terms
	granted reading
	life    time.Duration // its maximum lifetime; 0: not told

	ctx      context.Context // cancelled with the end of trust
	cancel   context.CancelCauseFunc
	watching chan struct{} // closed when no renewal of the watchdog's is under way any more
	renewing sync.Mutex    // one renewal at a time
	giving   sync.Mutex    // one release at a time

	mu       sync.Mutex
	trust    trust
	again    time.Duration // when to renew, counted from trust.sent
	ended    error         // nil: held. ErrReleased, or what lost it
	told     bool          // ended by an answer of the gateway's: nothing is there to be given back
	problem  error         // why the lease is not renewed; nil: it is
	onLost   []func(error)
	deadline *time.Timer
	back     *bool // what the gateway answered to the release
}

// Key returns the lock key, as it was asked for.
func (l *Lease) Key() string { return l.key }

// Holder returns the proof of possession. Whoever has it can write under this
// lease: keep it out of logs and argument lists.
func (l *Lease) Holder() string { return l.holder }

// Token returns the fencing token, 1 to 2^63-1. It grows with every grant of the
// lock key; hand it on to whatever else can compare it.
func (l *Lease) Token() int64 { return l.token }

// String names the lease without its secret.
func (l *Lease) String() string { return fmt.Sprintf("lease of %q under token %d", l.key, l.token) }

// GoString is String, so that %#v shows no secret either.
func (l *Lease) GoString() string { return l.String() }

// Headers returns the three headers that a write carries, for a client that no
// Transport can be given to. Call Err before each write then.
func (l *Lease) Headers() http.Header {
	h := make(http.Header, len(l.headers))
	for name, value := range l.headers {
		h.Set(name, value)
	}
	return h
}

// Context returns a context that is done when the lease can't be relied upon any
// more, with a context.Cause that is ErrLost or ErrReleased, and when the one
// that was given to Acquire is. Its Err looks at the clocks itself: after a
// pause it tells the truth at once, however late the timer is.
func (l *Lease) Context() context.Context { return leaseContext{l.ctx, l} }

type leaseContext struct {
	context.Context
	lease *Lease
}

func (c leaseContext) Err() error {
	_ = c.lease.Err() // cancels the context if it is time
	return c.Context.Err()
}

// Err returns nil as long as the lease can be relied upon, and else an error
// that is ErrLost or ErrReleased. It looks at the clocks.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.check()
}

// Left returns for how long the lease may be relied upon without a further word
// of the gateway's; 0 if it is over.
func (l *Lease) Left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		return 0
	}
	return max(0, l.trust.left(l.client.clock.now()))
}

// Grace returns how much of the margin is left: the time to stop in once trust
// has ended. It is 0 when the lease itself is over, or the gateway has refused it.
func (l *Lease) Grace() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told {
		return 0
	}
	over := l.trust
	over.margin = 0
	return max(0, min(l.trust.margin, over.left(l.client.clock.now())))
}

// OnLost has f called once if the lease is lost, or at once if it is lost
// already, in a goroutine of its own: to mark work for review, for instance. A
// release is no loss.
func (l *Lease) OnLost(f func(error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch err := l.check(); {
	case err == nil:
		l.onLost = append(l.onLost, f)
	case isLost(err):
		go f(err)
	}
}

// check returns why the lease can't be relied upon, and ends it if its time is
// over. l.mu is held.
func (l *Lease) check() error {
	if l.ended == nil && l.trust.left(l.client.clock.now()) <= 0 {
		l.end(l.overdue())
	}
	return l.ended
}

func (l *Lease) overdue() error {
	err := fmt.Errorf("%w: no renewal was confirmed in time", ErrLost)
	if l.problem != nil {
		err = fmt.Errorf("%w: %w", err, l.problem)
	}
	return err
}

// lose ends the lease because of what the gateway answered.
func (l *Lease) lose(refusal error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == nil {
		l.end(refusal)
	}
	l.told = true
}

// end makes err the end of the lease. l.mu is held.
func (l *Lease) end(err error) {
	l.ended = err
	l.deadline.Stop()
	l.cancel(err)
	if !isLost(err) {
		return
	}
	calls := l.onLost
	l.onLost = nil
	go func() { // what is called may call the lease
		l.client.log.Warn("a lease is lost", "lock_key", l.key, "token", l.token, "error", err)
		for _, call := range calls {
			call(err)
		}
	}()
}

// newLease makes a lease of a grant whose request was sent at the given moment.
// Nothing watches it yet: see begin.
func (c *Client) newLease(ctx context.Context, key string, t terms, sent reading, g grant) *Lease {
	l := &Lease{
		client: c, key: key, wire: g.Key, holder: g.Holder, token: g.token, headers: g.headers(), terms: t,
		granted: sent, life: g.lifetime(), watching: make(chan struct{}),
		trust: t.trust(sent, g), again: g.renewAfter(),
	}
	close(l.watching)
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.deadline = time.AfterFunc(g.ttl(), l.expire)
	return l
}

// begin sets the deadline and starts the watchdog. It is an error that is ErrLost
// if nothing is left of the lease.
func (l *Lease) begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(); err != nil {
		return err
	}
	l.deadline.Reset(l.trust.left(l.client.clock.now()))
	if l.terms.watchdog {
		l.watching = make(chan struct{})
		go l.watch()
	}
	return nil
}

// expire is the deadline's timer. It is early when a renewal was confirmed, or
// by the coarseness of a clock.
func (l *Lease) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.check() == nil {
		l.deadline.Reset(l.trust.left(l.client.clock.now()))
	}
}
