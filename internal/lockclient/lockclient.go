// Package lockclient is the seam to the lock service: who holds a lock key
// right now, and for how long.
//
// What a Store says may only ever refuse a write. Expiry, eviction, failover or
// a wrong clock of the lock service can cost a holder its lease; none of them
// can admit a late write, since the marks of package fence decide that.
package lockclient

import (
	"context"
	"errors"
	"time"

	"github.com/fencegate/fencegate/internal/lease"
)

// ErrUnavailable is wrapped when the lock service can't be asked, or answers
// what can't be believed (loading, busy, a demoted master). Nothing is known
// then: a Take may or may not have happened.
var ErrUnavailable = errors.New("lock service unavailable")

// Reading is what the lock service said about one key at one moment. The zero
// value: nobody holds it.
type Reading struct {
	Holder    lease.Holder
	Remaining time.Duration // millisecond precision
}

// Live reports whether anybody held the lease.
func (r Reading) Live() bool { return r.Remaining > 0 }

// HeldBy reports whether holder held the lease.
func (r Reading) HeldBy(holder lease.Holder) bool { return r.Live() && r.Holder == holder }

// Store is one lock service. Every method is one atomic step of it, bounded by
// ctx; ttl is at least a millisecond. Implementations are safe for concurrent
// use and pass locktest.
type Store interface {
	// Take makes a lease for holder if, and only if, the key is free. When it
	// is not, the reading says how long the current one lasts.
	Take(ctx context.Context, key lease.Key, holder lease.Holder, ttl time.Duration) (bool, Reading, error)
	// Read says who holds each of keys now, in their order, all at one moment.
	Read(ctx context.Context, keys ...lease.Key) ([]Reading, error)
	// Extend sets the end of holder's lease to now + ttl. False: holder no
	// longer has it; an expired lease is never made again.
	Extend(ctx context.Context, key lease.Key, holder lease.Holder, ttl time.Duration) (bool, error)
	// Drop deletes holder's lease and nobody else's. False: there was none.
	Drop(ctx context.Context, key lease.Key, holder lease.Holder) (bool, error)
}

// Watcher is a Store that can tell when leases are dropped, by whichever gateway.
// What it tells is a hint, and some of it may be lost: acquires that wait look
// again by themselves.
type Watcher interface {
	// Watch calls dropped with the key of each lease that is dropped, until ctx
	// ends; then it returns nil.
	Watch(ctx context.Context, dropped func(lease.Key)) error
}
