package gate

import (
	"context"
	"errors"
	"sync"
	"testing"
)

func TestPlacesGoToPrincipalsInTurn(t *testing.T) {
	t.Parallel()
	f := newFair(1)
	giveBack, err := f.take(t.Context(), "storm")
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	var mu sync.Mutex
	var all sync.WaitGroup
	wait := func(name string) {
		called := f.ask(name)
		all.Go(func() {
			<-called
			mu.Lock()
			order = append(order, name)
			mu.Unlock()
			f.giveBack()
		})
	}
	for range 100 {
		wait("storm")
	}
	wait("calm")
	wait("other")
	giveBack()
	all.Wait()
	if order[0] != "storm" || order[1] != "calm" || order[2] != "other" || len(order) != 102 {
		t.Errorf("the first of %d were %q", len(order), order[:3])
	}
	if f.free != 1 || len(f.ring) != 0 || len(f.waiting) != 0 {
		t.Errorf("left over: %d places, %d in turn, %d waiting", f.free, len(f.ring), len(f.waiting))
	}
}

func TestWhoGivesUpLeavesNoPlaceBehind(t *testing.T) {
	t.Parallel()
	f := newFair(1)
	giveBack, err := f.take(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.take(gone, "b"); !errors.Is(err, ErrOverloaded) {
		t.Fatalf("a caller who has gone got %v", err)
	}
	giveBack()
	if f.free != 1 || len(f.ring) != 0 || len(f.waiting) != 0 {
		t.Errorf("left over: %d places, %d in turn, %d waiting", f.free, len(f.ring), len(f.waiting))
	}
	called := f.ask("c")
	if called != nil || f.leave("c", nil) {
		t.Error("a free place was not given at once")
	}
}
