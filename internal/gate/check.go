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

// checkAll checks every claim. faults has an error for each, nil if it passed.
func (g *Gate) checkAll(ctx context.Context, claims []lease.Claim) (checks []Check, faults []error) {
	if len(claims) == 0 {
		return nil, nil
	}
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
	checks, faults = make([]Check, len(claims)), make([]error, len(claims))
	for i, claim := range claims {
		checks[i], faults[i] = g.check(ctx, claim, readings[i], unavailable)
	}
	g.Observer.checked(took, checks, unavailable)
	end(checkedAs(checks, joined(faults)))
	return checks, faults
}

// joined makes one error of those of all claims: the refusals of several are
// joined, and come before any other.
func joined(faults []error) error {
	var refused, failed []error
	for _, err := range faults {
		if asRefused(err) != nil {
			refused = append(refused, err)
		} else {
			failed = append(failed, err)
		}
	}
	return cmp.Or(errors.Join(refused...), cmp.Or(failed...))
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
