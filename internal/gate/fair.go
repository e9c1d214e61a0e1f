package gate

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// fair lends a number of places, one for each connection of a pool, to principals
// in turn: whoever asks for a thousand waits behind itself, and anybody else for no
// more than the next place that comes free. A place is never kept free.
type fair struct {
	mu      sync.Mutex
	free    int
	waiting map[string][]chan struct{} // by principal, in the order they came
	ring    []string                   // those who wait, in the order of their turns
}

func newFair(places int) *fair {
	return &fair{free: places, waiting: map[string][]chan struct{}{}}
}

// take waits for a place, a third of the time that ctx has left.
func (f *fair) take(ctx context.Context, principal string) (giveBack func(), err error) {
	called := f.ask(principal)
	if called == nil {
		return f.giveBack, nil
	}
	ctx, cancel := thirdOf(ctx)
	defer cancel()
	select {
	case <-called:
		return f.giveBack, nil
	case <-ctx.Done():
		if !f.leave(principal, called) {
			f.giveBack() // it was called meanwhile
		}
		return nil, fmt.Errorf("%w: all connections to the database are in use", ErrOverloaded)
	}
}

// ask returns nil with a place, or what is closed when there is one.
func (f *fair) ask(principal string) chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.free > 0 {
		f.free--
		return nil
	}
	called := make(chan struct{})
	if len(f.waiting[principal]) == 0 {
		f.ring = append(f.ring, principal)
	}
	f.waiting[principal] = append(f.waiting[principal], called)
	return called
}

// giveBack calls the first of the principal whose turn it is, who is then the last
// to have another.
func (f *fair) giveBack() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.ring) == 0 {
		f.free++
		return
	}
	next := f.ring[0]
	close(f.waiting[next][0])
	f.ring = f.ring[1:]
	f.waiting[next] = f.waiting[next][1:]
	if len(f.waiting[next]) > 0 {
		f.ring = append(f.ring, next)
		return
	}
	delete(f.waiting, next)
}

// leave reports whether called was still waiting.
func (f *fair) leave(principal string, called chan struct{}) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := slices.Index(f.waiting[principal], called)
	if at < 0 {
		return false
	}
	f.waiting[principal] = slices.Delete(f.waiting[principal], at, at+1)
	if len(f.waiting[principal]) == 0 {
		delete(f.waiting, principal)
		f.ring = slices.DeleteFunc(f.ring, func(name string) bool { return name == principal })
	}
	return true
}
