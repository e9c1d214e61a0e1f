package gate

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient"
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

// lookIn is lookAgain, spread, and longer the more lines there are, so that all of
// them together don't ask too often.
func (w *waiting) lookIn() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	usual := lookAgain * time.Duration(1+len(w.lines)/linesAtOnce)
	return usual/2 + rand.N(usual)
}

// linesAtOnce is how many lines look again about once in lookAgain.
const linesAtOnce = 200

// await returns true when it is worth a try for p, which stands in the line of
// key, and false when ctx has ended or the gateway goes down. expected is when
// the key becomes free by itself; 0 if that is not known.
func (w *waiting) await(ctx context.Context, key lease.Key, p *place, expected time.Duration) bool {
	for {
		look := w.lookIn()
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
	first, done := bounded(ctx, a.Each)
	earlier, err := g.recall(first, a) // those in line may wait for just this lease
	done()
	if err != nil || earlier.Replayed {
		return earlier, err
	}
	limited, cancel := context.WithTimeout(ctx, a.Wait)
	defer cancel()
	defer g.Observer.waited(time.Now())
	key := a.Keys[0]
	p := g.waiting.join(key)
	defer func() { g.waiting.leave(key, p) }()
	var last error = &Held{Key: key, Reason: "another holder has it, and others wait for it"}
	expected := time.Duration(0)
	for turn := g.waiting.first(key, p); turn || g.await(limited, a, key, p, expected); turn = false {
		granted, err := try()
		var held *Held
		switch {
		case errors.As(err, &held):
			expected = held.Wait
		case mayPass(err):
			expected = 0
		default:
			return granted, err
		}
		last = err
		if held != nil && held.Key != key {
			g.waiting.leave(key, p)
			key, p = held.Key, g.waiting.join(held.Key)
		}
	}
	return Granted{}, last
}

// mayPass reports whether an acquire that has time may as well try again: a
// database or lock service that is away for a moment costs nobody its place.
func mayPass(err error) bool {
	for _, passing := range []error{ErrOverloaded, ErrDatabaseUnavailable, ErrUnconfirmed, lockclient.ErrUnavailable, fence.ErrBusy} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

func (g *Gate) await(ctx context.Context, a Acquisition, key lease.Key, p *place, expected time.Duration) bool {
	if a.Pause != nil {
		defer a.Pause()()
	}
	ctx, end := g.enter(ctx, Step{Kind: Waiting})
	defer end(Done)
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
