package gate

import (
	"context"
	"fmt"

	"github.com/fencegate/fencegate/internal/lease"
)

// remember keeps what was granted, for an acquire that has an idempotency key.
func (g *Gate) remember(ctx context.Context, a Acquisition, attempts []*attempt) error {
	if a.Once.Key == "" {
		return nil
	}
	claims := make([]lease.Claim, len(attempts))
	for i, one := range attempts {
		claims[i] = one.claim
	}
	return harmless(classify(executing, g.Marks.Remember(ctx, a.Once, claims)))
}

// recall answers an acquire with what it was granted before, as it stands now:
// with the time left, or refused, if the lease has run out or the token is worth
// nothing any more.
func (g *Gate) recall(ctx context.Context, a Acquisition) (Granted, error) {
	if a.Once.Key == "" {
		return Granted{}, nil
	}
	claims, err := g.Marks.Recall(ctx, a.Once)
	if err != nil {
		return Granted{}, classify(reaching, err)
	}
	if len(claims) == 0 {
		return Granted{}, nil
	}
	leases := make(map[lease.Key]Lease)
	for _, claim := range claims {
		if leases[claim.Key], err = g.stands(ctx, claim); err != nil {
			return Granted{}, err
		}
	}
	granted := Granted{Replayed: true}
	for _, key := range a.Keys {
		l, ok := leases[key]
		if !ok {
			return Granted{}, fmt.Errorf("recalling a grant: %q is not among its keys", key.Wire())
		}
		granted.Leases = append(granted.Leases, l)
	}
	return granted, nil
}

// stands returns the lease of claim as it is now, or a *Refused.
func (g *Gate) stands(ctx context.Context, claim lease.Claim) (Lease, error) {
	if _, err := g.Marks.Verify(ctx, claim); err != nil {
		if refused := asRefused(err); refused != nil {
			return Lease{}, refused
		}
		return Lease{}, classify(reaching, err)
	}
	current, err := g.Store.Read(ctx, claim.Key)
	if err != nil {
		return Lease{}, err
	}
	if !current[0].HeldBy(claim.Holder) {
		return Lease{}, leaseRefusal(claim, current[0])
	}
	return Lease{Claim: claim, Remaining: current[0].Remaining}, nil
}
