package testenv

import (
	"slices"
	"strings"
)

// watch is a hook that waits for a certain batch.
type watch struct {
	d     direction
	match func(Batch) bool
	hook  func() Extent
}

// OnBatch calls hook once, just before the next batch that match accepts is
// forwarded, and forwards as much of it as hook says. Nothing of it has gone on
// by then unless it has a Flush in it.
func (w *Wire) OnBatch(match func(Batch) bool, hook func() Extent) {
	w.watch(watch{request, match, hook})
}

// OnAnswer is OnReply for the answer to the next batch that match accepts.
func (w *Wire) OnAnswer(match func(Batch) bool, hook func() bool) {
	w.watch(watch{reply, match, allOrNothing(hook)})
}

func (w *Wire) watch(one watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watches = append(w.watches, one)
}

// Batches is what the gateway has sent since the last Reset, in that order.
func (w *Wire) Batches() []Batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []Batch
	for _, b := range w.batches[w.recent:] {
		all = append(all, *b)
	}
	return all
}

// Story tells, for the log of a test that failed, what the gateway has sent
// since the beginning: a line for each batch.
func (w *Wire) Story() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []string
	for i, b := range w.batches {
		if i == w.recent && i > 0 {
			lines = append(lines, "since the last reset:")
		}
		lines = append(lines, b.String())
	}
	return strings.Join(lines, "\n")
}

// record keeps what is known of the piece's batch by now.
func (w *Wire) record(l *link, p piece) {
	switch {
	case p.batch == nil:
	case p.opens:
		l.batch = p.batch
		w.batches = append(w.batches, l.batch)
	default:
		p.batch.Forwarded = l.batch.Forwarded
		*l.batch = *p.batch
	}
}

// forwarded records that a piece of the newest batch has gone on.
func (w *Wire) forwarded(l *link, whole bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.batch.Forwarded = Torn
	if whole {
		l.batch.Forwarded = Whole
	}
}

// watched returns the hook that waits for this batch, or its answer.
func (w *Wire) watched(d direction, b Batch) func() Extent {
	for i, one := range w.watches {
		if one.d == d && one.match(b) {
			w.watches = slices.Delete(w.watches, i, i+1)
			return one.hook
		}
	}
	return nil
}
