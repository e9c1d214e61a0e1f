package gate

import (
	"context"
	"slices"
	"sync"

	"github.com/fencegate/fencegate/internal/lease"
)

// attempts are the requests with an idempotency key that are under way in this
// gateway. One that waits for its turn, or for a connection, has not claimed its
// key in the database yet, so that nothing there knows of it. Others may be under
// way in another gateway: what is refused here may still be applied there, if it
// presents other claims.
type attempts struct {
	mu      sync.Mutex
	running map[answerKey][]*underWay
}

type answerKey struct{ principal, key string }

// underWay is one of them.
type underWay struct {
	claims []lease.Claim
	ended  chan struct{} // closed once its outcome is known
}

// begin notes an attempt; end is to be called once its outcome is known. earlier
// are those that began before it under other claims: under the same ones they are
// stopped by whatever refuses this one.
func (a *attempts) begin(w Write) (earlier []*underWay, end func()) {
	if w.Once.Key == "" {
		return nil, func() {}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	name := answerKey{w.Principal.Name, w.Once.Key}
	for _, other := range a.running[name] {
		if !slices.Equal(other.claims, w.Claims) {
			earlier = append(earlier, other)
		}
	}
	own := &underWay{claims: w.Claims, ended: make(chan struct{})}
	a.running[name] = append(a.running[name], own)
	return earlier, func() { a.end(name, own) }
}

func (a *attempts) end(name answerKey, own *underWay) {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(own.ended)
	left := slices.DeleteFunc(a.running[name], func(one *underWay) bool { return one == own })
	if a.running[name] = left; len(left) == 0 {
		delete(a.running, name)
	}
}

// ended waits for earlier attempts, a third of the time that ctx has left, and
// then returns ErrKeyBusy. Each waits for older ones only.
func ended(ctx context.Context, earlier []*underWay) error {
	ctx, cancel := thirdOf(ctx)
	defer cancel()
	for _, one := range earlier {
		select {
		case <-one.ended:
		case <-ctx.Done():
			return ErrKeyBusy
		}
	}
	return nil
}
