package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient"
)

// Renew sets the end of the claim's lease to now + ttl, but not past its
// maximum lifetime. It never revives a lease and never mints a token. The mark
// is read first: extending first would keep a released key closed. Errors:
// auth.ErrDenied, *Refused, ErrTTL, ErrDatabaseUnavailable, lockclient.ErrUnavailable.
//
// ttl 0 takes the default.
func (g *Gate) Renew(ctx context.Context, p auth.Principal, claim lease.Claim, ttl time.Duration, from audit.Origin) (Lease, error) {
	if err := auth.AllowKey(p, claim.Key); err != nil {
		return Lease{}, err
	}
	ttl, err := g.ttlOf(ttl, claim.Key)
	if err != nil {
		return Lease{}, err
	}
	renewed, err := g.renew(ctx, claim, ttl)
	if err != nil {
		return Lease{}, g.recorded(ctx, audit.Record{
			Disposition: audit.Event, Operation: "renew", Claim: claim, Origin: from,
		}, err)
	}
	return renewed, nil
}

func (g *Gate) renew(ctx context.Context, claim lease.Claim, ttl time.Duration) (Lease, error) {
	age, err := g.verify(ctx, claim)
	if err != nil {
		return Lease{}, classify(reaching, err)
	}
	left, err := g.lifetimeLeft(claim, age)
	if err != nil {
		return Lease{}, err
	}
	ttl = min(ttl, left)
	ok, err := g.Store.Extend(ctx, claim.Key, claim.Holder, ttl)
	if err != nil {
		return Lease{}, err
	}
	if !ok {
		return Lease{}, g.lost(ctx, claim)
	}
	return Lease{Claim: claim, Remaining: ttl}, nil
}

// verify holds a claim against its mark and returns the grant's age.
func (g *Gate) verify(ctx context.Context, claim lease.Claim) (age time.Duration, err error) {
	defer g.Observer.ran(Verifying, time.Now())
	return g.Marks.Verify(ctx, claim)
}

// lifetimeLeft returns how much longer a grant of this age may live, at least a
// millisecond, or a refusal.
func (g *Gate) lifetimeLeft(claim lease.Claim, age time.Duration) (time.Duration, error) {
	lifetime := g.TermsOf(claim.Key).Lifetime
	left := lifetime - age
	if left < time.Millisecond {
		return 0, &Refused{Code: LeaseExpired, Claim: claim, Mark: claim.Token,
			Detail: fmt.Sprintf("granted %s ago, past the maximum lifetime of %s", age.Round(time.Second), lifetime)}
	}
	return left, nil
}

// lost tells an expired lease from one that somebody else has by now.
func (g *Gate) lost(ctx context.Context, claim lease.Claim) error {
	current, err := g.Store.Read(ctx, claim.Key)
	if err != nil {
		return err
	}
	return leaseRefusal(claim, current[0])
}

func leaseRefusal(claim lease.Claim, current lockclient.Reading) *Refused {
	r := &Refused{Code: LeaseExpired, Claim: claim, Mark: claim.Token, Detail: "the lease has run out"}
	if current.Live() {
		r.Code, r.Detail = LeaseLost, "the lease has run out and another holder has the key"
	}
	return r
}

// Released is what a release did.
type Released struct {
	Done   bool
	Reason string // why not, or "already_released"
}

// Release closes the claim's mark, then deletes its lease: once it returns,
// nothing is admitted under the claim. A claim that holds nothing any more
// changes nothing and is recorded. Errors: auth.ErrDenied, ErrDatabaseUnavailable, fence.ErrBusy.
func (g *Gate) Release(ctx context.Context, p auth.Principal, claim lease.Claim, from audit.Origin) (Released, error) {
	if err := auth.AllowKey(p, claim.Key); err != nil {
		return Released{}, err
	}
	released := Released{Done: true}
	err := g.moving(ctx, p.Name, func() error {
		defer g.Observer.ran(Releasing, time.Now())
		return g.Marks.Release(ctx, claim, from.Principal)
	})
	var refusal *fence.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Code == fence.LeaseReleased:
		released.Reason = "already_released"
	case errors.As(err, &refusal):
		g.recorded(ctx, audit.Record{
			Disposition: audit.Event, Operation: "release", Claim: claim, Origin: from,
		}, err)
		return Released{Reason: string(refusal.Code)}, nil
	case err != nil:
		return Released{}, harmless(classify(executing, err))
	}
	if _, err := g.Store.Drop(ctx, claim.Key, claim.Holder); err != nil {
		g.Log.Warn("a released lease could not be deleted, it runs out by itself",
			"lock_key", claim.Key.Wire(), "error", err)
	}
	g.waiting.wake(claim.Key)
	return released, nil
}

// Revoke cuts the holder of a lock key off, whoever it is: once it returns,
// nothing is admitted under the key before a new grant, which is not made within
// r.Block. The lease that is dropped is the one the mark names; nobody else's.
// Errors: auth.ErrDenied, fence.ErrNeverGranted, fence.ErrBusy,
// ErrDatabaseUnavailable.
func (g *Gate) Revoke(ctx context.Context, p auth.Principal, r fence.Revocation) (lease.Claim, error) {
	if err := auth.AllowAdmin(p, "revoking"); err != nil {
		return lease.Claim{}, err
	}
	r.Principal = p.Name
	var closed lease.Claim
	err := g.moving(ctx, p.Name, func() (err error) {
		defer g.Observer.ran(Revoking, time.Now())
		closed, err = g.Marks.Revoke(ctx, r)
		return err
	})
	switch {
	case errors.Is(err, fence.ErrNeverGranted):
		return closed, err
	case err != nil:
		return closed, harmless(classify(executing, err))
	}
	g.Log.Warn("a lock key was revoked", "lock_key", r.Key.Wire(), "token", closed.Token.String(),
		"block", r.Block, "reason", r.Reason, "principal", p.Name)
	if _, err := g.Store.Drop(ctx, closed.Key, closed.Holder); err != nil {
		g.Log.Warn("a revoked lease could not be deleted, it runs out by itself",
			"lock_key", closed.Key.Wire(), "error", err)
	}
	g.waiting.wake(closed.Key)
	return closed, nil
}
