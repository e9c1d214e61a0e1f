package gate

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fencegate/fencegate/internal/lease"
)

// atOnce is how many writes of one lock key are in PostgreSQL together: the one
// that holds the mark, and the next, so that the mark is never idle.
const atOnce = 2

// turns lets the writes of each lock key go to PostgreSQL in the order they came.
// Without it all of them would wait there for the mark, each on a connection that
// a write under another key could use. It decides nothing: the marks do.
type turns struct {
	mu   sync.Mutex
	keys map[lease.Key]*line
}

// line is where the writes of one key wait.
type line struct {
	key   lease.Key
	slots chan struct{}
	users int // in it or past it; without any it is forgotten
}

// take waits for the turn of all claims, which are in the order of their keys, so
// that two writes never wait for each other. It waits a third of the time that ctx
// has left.
func (t *turns) take(ctx context.Context, claims []lease.Claim) (giveBack func(), err error) {
	ctx, cancel := thirdOf(ctx)
	defer cancel()
	var taken []*line
	giveBack = func() {
		for _, l := range taken {
			<-l.slots
			t.leave(l)
		}
	}
	for _, claim := range claims {
		l := t.enter(claim.Key)
		select {
		case l.slots <- struct{}{}:
			taken = append(taken, l)
		case <-ctx.Done():
			t.leave(l)
			giveBack()
			return nil, fmt.Errorf("%w: other writes under %q are in front of this one", ErrOverloaded, claim.Key)
		}
	}
	return giveBack, nil
}

// enter joins the line of key.
func (t *turns) enter(key lease.Key) *line {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.keys[key]
	if l == nil {
		l = &line{key: key, slots: make(chan struct{}, atOnce)}
		t.keys[key] = l
	}
	l.users++
	return l
}

func (t *turns) leave(l *line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(t.keys, l.key)
	}
}

// thirdOf is ctx with a third of its time: after waiting for a turn, and then for
// a connection, the transaction still has almost half.
func thirdOf(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(deadline)/3)
	}
	return context.WithCancel(ctx)
}
