package gate

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient"
)

// Check is what the lease check of an admitted write found.
type Check struct {
	Key       lease.Key
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

// checkAll checks every claim; the refusals of several are joined, and come
// before any other error.
func (g *Gate) checkAll(ctx context.Context, claims []lease.Claim) ([]Check, error) {
	keys := make([]lease.Key, len(claims))
	for i, claim := range claims {
		keys[i] = claim.Key
	}
	ctx, end := g.enter(ctx, Step{Kind: Checking})
	began := time.Now()
	readings, unavailable := g.Store.Read(ctx, keys...)
	took := time.Since(began)
	if unavailable != nil {
		readings = make([]lockclient.Reading, len(claims))
	}
	checks := make([]Check, len(claims))
	var refused, failed []error
	for i, claim := range claims {
		var err error
		checks[i], err = g.check(ctx, claim, readings[i], unavailable)
		if asRefused(err) != nil {
			refused = append(refused, err)
		} else {
			failed = append(failed, err)
		}
	}
	g.Observer.checked(took, checks, unavailable)
	err := cmp.Or(errors.Join(refused...), cmp.Or(failed...))
	end(checkedAs(checks, err))
	return checks, err
}

// check decides by what the lock service said whether the claim's holder is
// alive. It may only refuse; the fence admits. When the answer is not a plain
// yes the mark is read as well and its verdict wins, so that a stale token is
// called stale with the lock service up or down, and busy is never called stale.
func (g *Gate) check(ctx context.Context, claim lease.Claim, current lockclient.Reading, unavailable error) (Check, error) {
	if unavailable == nil && current.HeldBy(claim.Holder) {
		return Check{Key: claim.Key, Verdict: Live, Remaining: current.Remaining}, nil
	}
	age, err := g.verify(ctx, claim)
	if err != nil {
		return Check{}, classify(reaching, err)
	}
	// A live lease can't outlast its lifetime; without one nothing else ends it.
	if _, err := g.lifetimeLeft(claim, age); err != nil {
		return Check{}, err
	}
	switch {
	case unavailable != nil && g.FenceOnly:
		return Check{Key: claim.Key, Verdict: Skipped}, nil
	case unavailable != nil:
		return Check{}, unavailable
	case g.Lenient && !current.Live():
		return Check{Key: claim.Key, Verdict: Expired}, nil
	}
	return Check{}, leaseRefusal(claim, current)
}
