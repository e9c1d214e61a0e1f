package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/statement"
)

// maxRaces bounds how often one acquire starts again because another grant of
// the key came in between. Losing even once needs an expiry inside the attempt.
const maxRaces = 4

// giveBackTimeout bounds the clean-up after a failed acquire, which goes on
// after its caller has gone.
const giveBackTimeout = 2 * time.Second

// Lease is a granted lease as it stands.
type Lease struct {
	Claim     lease.Claim
	Remaining time.Duration // by the lock service, when it answered
}

// Acquire takes the lock key for a fresh holder and grants it the next token.
// When it returns without error, no write under an older token of key commits
// any more. Errors: *Held, ErrTTL, ErrOverloaded, ErrDatabaseUnavailable,
// lockclient.ErrUnavailable, fence.ErrBusy.
//
// ttl 0 takes the default.
func (g *Gate) Acquire(ctx context.Context, key lease.Key, ttl time.Duration, to fence.Grantee) (Lease, error) {
	ttl, err := g.Terms.ttl(ttl)
	if err != nil {
		return Lease{}, err
	}
	a := &attempt{gate: g, claim: lease.Claim{Key: key, Holder: lease.NewHolder()}, ttl: ttl, to: to}
	granted, err := a.run(ctx)
	if err != nil {
		a.giveBack(ctx)
		return Lease{}, err
	}
	return granted, nil
}

func (t Terms) ttl(asked time.Duration) (time.Duration, error) {
	if asked == 0 {
		return t.Default, nil
	}
	if asked < t.Min || asked > t.Max {
		return 0, fmt.Errorf("%w: %s, allowed are %s to %s", ErrTTL, asked, t.Min, t.Max)
	}
	return asked, nil
}

// attempt is one acquire. The order of its steps is the safety: the mark is
// read before the lease is taken or checked, and raised only if it is still
// that one. A worker paused anywhere between can only end up below the next
// holder. Checking first and reading then would let a dead holder rank above a
// live one.
type attempt struct {
	gate  *Gate
	claim lease.Claim // Token: the mark as read, the granted one at the end
	ttl   time.Duration
	to    fence.Grantee
	above lease.Token // the highest token in a fence column of the key's rows
	taken bool        // the lease may be ours: it must be given back on failure
}

func (a *attempt) run(ctx context.Context) (Lease, error) {
	for range maxRaces {
		if err := a.readMark(ctx); err != nil {
			return Lease{}, err
		}
		if err := a.takeLease(ctx); err != nil {
			return Lease{}, err
		}
		err := a.raiseMark(ctx)
		if errors.Is(err, fence.ErrLostRace) {
			continue
		}
		if err != nil {
			return Lease{}, err
		}
		return a.confirm(ctx)
	}
	return Lease{}, fmt.Errorf("%w: %q was granted to others %d times meanwhile", ErrOverloaded, a.claim.Key, maxRaces)
}

// readMark is step 1.
func (a *attempt) readMark(ctx context.Context) error {
	mark, err := a.gate.Marks.Read(ctx, a.claim.Key)
	if err != nil {
		return classify(reaching, err)
	}
	if mark.Blocked > 0 {
		return &Held{Key: a.claim.Key, Wait: mark.Blocked, Reason: "revoked by an operator and blocked"}
	}
	a.claim.Token = mark.Token
	a.above, err = a.gate.highest(ctx, a.claim.Key)
	return err
}

// highest returns the highest token that the rows under key have in a fence
// column; their owners may have fenced them by hand before.
func (g *Gate) highest(ctx context.Context, key lease.Key) (highest lease.Token, err error) {
	for _, s := range statement.Highest(g.Tables.Snapshot(), key) {
		var token lease.Token
		if err := g.single().QueryRow(ctx, s.SQL, s.Args...).Scan(&token); err != nil {
			return 0, classify(reaching, err)
		}
		highest = max(highest, token)
	}
	return highest, nil
}

// takeLease is step 2: the first time take it, only if free; later make sure it
// is still there.
func (a *attempt) takeLease(ctx context.Context) error {
	if a.taken {
		return a.recheck(ctx)
	}
	// Also when the answer is an error: the lock service may have taken it.
	a.taken = true
	ok, current, err := a.gate.Store.Take(ctx, a.claim.Key, a.claim.Holder, a.ttl)
	if err != nil {
		return err
	}
	if !ok {
		a.taken = false
		return &Held{Key: a.claim.Key, Wait: current.Remaining, Reason: "another holder has it"}
	}
	return nil
}

func (a *attempt) recheck(ctx context.Context) error {
	current, err := a.gate.Store.Read(ctx, a.claim.Key)
	if err != nil {
		return err
	}
	if !current[0].HeldBy(a.claim.Holder) {
		return &Held{Key: a.claim.Key, Wait: current[0].Remaining, Reason: "the lease ran out before it was granted"}
	}
	return nil
}

// raiseMark is step 3.
func (a *attempt) raiseMark(ctx context.Context) error {
	token, err := a.gate.Marks.Raise(ctx, a.claim, a.above, a.to)
	switch {
	case errors.Is(err, fence.ErrBlocked):
		return &Held{Key: a.claim.Key, Reason: "revoked by an operator and blocked"}
	case errors.Is(err, fence.ErrLostRace):
		return err
	case err != nil:
		return harmless(classify(executing, err))
	}
	a.claim.Token = token
	return nil
}

// confirm is step 4. Raising may have waited for a write in flight; extending
// proves that the lease outlived that and gives the holder its full time.
func (a *attempt) confirm(ctx context.Context) (Lease, error) {
	ok, err := a.gate.Store.Extend(ctx, a.claim.Key, a.claim.Holder, a.ttl)
	if err != nil {
		return Lease{}, err
	}
	if !ok {
		return Lease{}, fmt.Errorf("%w: the lease of %q ran out while the database was granting it", ErrOverloaded, a.claim.Key)
	}
	return Lease{Claim: a.claim, Remaining: a.ttl}, nil
}

// giveBack deletes the attempt's own lease, and nobody else's, so that a failed
// acquire does not lock the key until its TTL.
func (a *attempt) giveBack(ctx context.Context) {
	if !a.taken {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	if _, err := a.gate.Store.Drop(ctx, a.claim.Key, a.claim.Holder); err != nil {
		a.gate.Log.Warn("a lease could not be given back, it runs out by itself",
			"lock_key", a.claim.Key.Wire(), "ttl", a.ttl, "error", err)
	}
}
