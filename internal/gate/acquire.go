package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/auth"
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

// Acquisition is what an acquire asks for.
type Acquisition struct {
	Principal auth.Principal

	Keys []lease.Key   // one or more, each once
	TTL  time.Duration // 0: the default, the shortest of several keys'
	To   fence.Grantee
	From audit.Origin
	Once fence.Once // the zero value names nothing

	Wait  time.Duration // how long to wait for keys that are held; 0: not at all
	Each  time.Duration // bounds each attempt; 0: only ctx does
	Pause func() func() // called before waiting, and what it returns after; nil: nothing
}

// Granted is what an acquire was granted.
type Granted struct {
	Leases   []Lease // in the order in which the keys were asked for
	Replayed bool    // by an earlier acquire under the same idempotency key
}

// Acquire takes the lock keys for fresh holders, all or none, and grants each the
// next token. When it returns without error, no write under an older token of
// them commits any more. Errors: auth.ErrDenied, *Held, ErrTTL, ErrOverloaded, ErrKeyReused,
// ErrDatabaseUnavailable, lockclient.ErrUnavailable, fence.ErrBusy; *Refused when
// what was granted under the same idempotency key before is worth nothing now.
func (g *Gate) Acquire(ctx context.Context, a Acquisition) (Granted, error) {
	for _, key := range a.Keys {
		if err := auth.AllowKey(a.Principal, key); err != nil {
			return Granted{}, err
		}
	}
	ttl, err := g.ttlOf(a.TTL, a.Keys...)
	if err != nil {
		return Granted{}, err
	}
	try := func() (Granted, error) {
		ctx, cancel := bounded(ctx, a.Each)
		defer cancel()
		return g.acquire(ctx, a, ttl)
	}
	if a.Wait == 0 {
		return try()
	}
	return g.queued(ctx, a, try)
}

func bounded(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	if most == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, most)
}

// acquire tries once.
func (g *Gate) acquire(ctx context.Context, a Acquisition, ttl time.Duration) (Granted, error) {
	if earlier, err := g.recall(ctx, a); err != nil || earlier.Replayed {
		return earlier, err
	}
	attempts := make([]*attempt, len(a.Keys))
	for i, key := range a.Keys {
		attempts[i] = &attempt{gate: g, claim: lease.Claim{Key: key, Holder: lease.NewHolder()}, ttl: ttl, to: a.To}
	}
	granted, err := g.run(ctx, a, attempts)
	if err == nil {
		return granted, nil
	}
	for _, one := range attempts {
		one.giveBack(ctx)
	}
	if held := (*Held)(nil); a.Once.Key != "" && errors.As(err, &held) {
		// Perhaps by an earlier attempt of the same acquire.
		if earlier, recalled := g.recall(ctx, a); recalled != nil || earlier.Replayed {
			return earlier, recalled
		}
	}
	return Granted{}, err
}

// run takes every lease before it raises a mark: when one key is held, the others
// stay as they are. Keys are taken in byte order, so that two acquires of the
// same ones don't each take what the other needs.
func (g *Gate) run(ctx context.Context, a Acquisition, attempts []*attempt) (Granted, error) {
	ordered := slices.SortedFunc(slices.Values(attempts), func(x, y *attempt) int { return cmp.Compare(x.claim.Key, y.claim.Key) })
	if err := g.free(ctx, a); err != nil {
		return Granted{}, err
	}
	for _, step := range []func(*attempt, context.Context) error{(*attempt).take, (*attempt).grant} {
		for _, one := range ordered {
			if err := step(one, ctx); err != nil {
				return Granted{}, err
			}
		}
	}
	granted := Granted{Leases: make([]Lease, len(attempts))}
	for i, one := range attempts {
		var err error
		if granted.Leases[i], err = one.confirm(ctx); err != nil {
			return Granted{}, err
		}
	}
	return granted, g.remember(ctx, a, ordered, granted)
}

// free looks before it takes, where a look is worth its round trip: while one of
// several keys is held the others are not even touched, and who waits asks the
// lock service alone.
func (g *Gate) free(ctx context.Context, a Acquisition) error {
	if len(a.Keys) == 1 && a.Wait == 0 {
		return nil
	}
	readings, err := g.Store.Read(ctx, a.Keys...)
	if err != nil {
		return err
	}
	for i, current := range readings {
		if current.Live() {
			return &Held{Key: a.Keys[i], Wait: current.Remaining, Reason: heldByAnother}
		}
	}
	return nil
}

const heldByAnother = "another holder has it"

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

// take is steps 1 and 2.
func (a *attempt) take(ctx context.Context) error {
	if err := a.readMark(ctx); err != nil {
		return err
	}
	return a.takeLease(ctx)
}

// grant is step 3, after a lost race with steps 1 and 2 in front of it.
func (a *attempt) grant(ctx context.Context) error {
	for range maxRaces {
		err := a.raiseMark(ctx)
		if !errors.Is(err, fence.ErrLostRace) {
			return err
		}
		if err := a.take(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %q was granted to others %d times meanwhile", ErrOverloaded, a.claim.Key, maxRaces)
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
		return &Held{Key: a.claim.Key, Wait: current.Remaining, Reason: heldByAnother}
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
	var token lease.Token
	err := a.gate.moving(ctx, a.to.Principal, func() (err error) {
		defer a.gate.Observer.ran(Granting, time.Now())
		token, err = a.gate.Marks.Raise(ctx, a.claim, a.above, a.to)
		return err
	})
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
