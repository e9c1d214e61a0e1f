package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/lease"
)

// remember keeps what was granted, for an acquire that has an idempotency key. It
// takes of the leases' time, and is forgotten again when none of that is left.
func (g *Gate) remember(ctx context.Context, a Acquisition, attempts []*attempt, granted Granted) error {
	if a.Once.Key == "" {
		return nil
	}
	claims := make([]lease.Claim, len(attempts))
	for i, one := range attempts {
		claims[i] = one.claim
	}
	began := time.Now()
	err := g.Marks.Remember(ctx, a.Once, claims)
	if errors.Is(err, fence.ErrLostRace) {
		return fmt.Errorf("%w: a later attempt of the same acquire was granted the lock meanwhile", ErrOverloaded)
	}
	if err != nil {
		return harmless(classify(executing, err))
	}
	for i := range granted.Leases {
		if granted.Leases[i].Remaining -= time.Since(began); granted.Leases[i].Remaining < time.Millisecond {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
			defer cancel()
			err := g.Marks.Unremember(ctx, a.Once, claims)
			return errors.Join(fmt.Errorf("%w: the lease of %q ran out while it was noted down", ErrOverloaded, claims[0].Key), err)
		}
	}
	return nil
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
			r := audit.Record{Disposition: audit.Event, Operation: "acquire", Claim: claim, Origin: a.From}
			return Granted{}, g.recorded(ctx, r, err)
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
