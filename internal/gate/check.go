package gate

import (
	"context"
	"time"

	"github.com/fencegate/fencegate/internal/lease"
)

// Check is what the lease check of an admitted write found.
type Check struct {
	Verdict   Verdict
	Remaining time.Duration // of a live lease
}

// Verdict says on what grounds a lease check let a write pass on to the fence.
type Verdict string

// The verdicts.
const (
	Live    Verdict = "live"
	Expired Verdict = "expired" // Lenient: run out, nobody else has the key
	Skipped Verdict = "skipped" // FenceOnly: the lock service could not be asked
)

// check asks the lock service whether the claim's holder is alive. It may only
// refuse; the fence admits. When the answer is not a plain yes the mark is
// read as well and its verdict wins, so that a stale token is called stale
// with the lock service up or down, and busy is never called stale.
func (g *Gate) check(ctx context.Context, claim lease.Claim) (Check, error) {
	current, unavailable := g.Store.Read(ctx, claim.Key)
	if unavailable == nil && current.HeldBy(claim.Holder) {
		return Check{Verdict: Live, Remaining: current.Remaining}, nil
	}
	age, err := g.Marks.Verify(ctx, claim)
	if err != nil {
		return Check{}, classify(reaching, err)
	}
	// A live lease can't outlast its lifetime; without one nothing else ends it.
	if _, err := g.lifetimeLeft(claim, age); err != nil {
		return Check{}, err
	}
	switch {
	case unavailable != nil && g.FenceOnly:
		return Check{Verdict: Skipped}, nil
	case unavailable != nil:
		return Check{}, unavailable
	case g.Lenient && !current.Live():
		return Check{Verdict: Expired}, nil
	}
	return Check{}, leaseRefusal(claim, current)
}
