package gate

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fencegate/fencegate/internal/lease"
)

// lookAgain is how often, on average, the first in a line tries although nothing
// was heard: news of a release may get lost, and some lock services give none.
const lookAgain = time.Second

// waiting is where acquires of this gateway wait for lock keys, a line for each
// key, first come, first served. Only the first of a line asks the lock service,
// when the key was released or may have run out: a crowd asks no more often than
// one. Between gateways there is no order.
type waiting struct {
	mu     sync.Mutex
	lines  map[lease.Key][]*place
	closed chan struct{}
}

// place is one acquire's in a line.
type place struct {
	turn chan struct{} // of size 1: it is worth a try
}

func newWaiting() *waiting {
	return &waiting{lines: map[lease.Key][]*place{}, closed: make(chan struct{})}
}

// close sends everybody away who waits, now and later.
func (w *waiting) close() { close(w.closed) }

// join takes the last place in the line of key.
func (w *waiting) join(key lease.Key) *place {
	p := &place{turn: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines[key] = append(w.lines[key], p)
	return p
}

// leave gives the place up, and the next its turn.
func (w *waiting) leave(key lease.Key, p *place) {
	w.mu.Lock()
	first := w.lines[key][0] == p
	w.lines[key] = slices.DeleteFunc(w.lines[key], func(other *place) bool { return other == p })
	if len(w.lines[key]) == 0 {
		delete(w.lines, key)
	}
	w.mu.Unlock()
	if first {
		w.wake(key)
	}
}

// wake gives the first in the line of key its turn, if there is one.
func (w *waiting) wake(key lease.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if line := w.lines[key]; len(line) > 0 {
		select {
		case line[0].turn <- struct{}{}:
		default:
		}
	}
}

func (w *waiting) first(key lease.Key, p *place) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines[key][0] == p
}

// await returns true when it is worth a try for p, which stands in the line of
// key, and false when ctx has ended or the gateway goes down. expected is when
// the key becomes free by itself; 0 if that is not known.
func (w *waiting) await(ctx context.Context, key lease.Key, p *place, expected time.Duration) bool {
	for {
		look := lookAgain/2 + rand.N(lookAgain)
		if expected > 0 {
			look = min(look, expected+time.Millisecond) // the lock service rounds down
		}
		select {
		case <-p.turn:
			return true
		case <-time.After(look):
			if w.first(key, p) {
				return true
			}
			expected = 0
		case <-ctx.Done():
			return false
		case <-w.closed:
			return false
		}
	}
}

// queued tries when it is a's turn, until it is granted, fails for another reason
// than a key that is held, or its time is over.
func (g *Gate) queued(ctx context.Context, a Acquisition, try func() (Granted, error)) (Granted, error) {
	limited, cancel := context.WithTimeout(ctx, a.Wait)
	defer cancel()
	defer g.Observer.waited(time.Now())
	key := a.Keys[0]
	p := g.waiting.join(key)
	defer func() { g.waiting.leave(key, p) }()
	held := &Held{Key: key, Reason: "another holder has it, and others wait for it"}
	for turn := g.waiting.first(key, p); turn || g.await(limited, a, key, p, held.Wait); turn = false {
		granted, err := try()
		if !errors.As(err, &held) {
			return granted, err
		}
		if held.Key != key {
			g.waiting.leave(key, p)
			key, p = held.Key, g.waiting.join(held.Key)
		}
	}
	return Granted{}, held
}

func (g *Gate) await(ctx context.Context, a Acquisition, key lease.Key, p *place, expected time.Duration) bool {
	if a.Pause != nil {
		defer a.Pause()()
	}
	g.Log.Debug("an acquire waits", "lock_key", key.Wire(), "client", a.To.Client, "at_most", a.Wait)
	return g.waiting.await(ctx, key, p, expected)
}

// Freed is told, by a lock service that can tell, that somebody dropped the lease
// of key.
func (g *Gate) Freed(key lease.Key) { g.waiting.wake(key) }

// StopWaiting answers every acquire that waits, now and later, as if its time
// were over, and ends what Stopped ends.
func (g *Gate) StopWaiting() { g.waiting.close() }

// Stopped is closed by StopWaiting.
func (g *Gate) Stopped() <-chan struct{} { return g.waiting.closed }
