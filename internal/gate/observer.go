package gate

import (
	"time"

	"github.com/fencegate/fencegate/internal/audit"
)

// Observer is told what happens inside a gate, as it happens: its functions stand
// in the way of requests and must not block. All are needed.
type Observer struct {
	// Checked: the lock service was asked about the leases of a write, or could not
	// be. The verdict of a claim that was refused is "".
	Checked func(took time.Duration, checks []Check, unavailable error)
	// Recorded: a refusal was recorded, or could not be.
	Recorded func(r audit.Record, took time.Duration, err error)
	// Admitted: a write was let through that would have been refused. r.ID is 0 if
	// that could not be recorded.
	Admitted func(r audit.Record)
	// Ran: a transaction has ended, well or not, once it had its connection.
	Ran func(kind Kind, took time.Duration)
	// Again: a transaction runs once more.
	Again func(Reason)
	// Waited: an acquire that may wait has been answered.
	Waited func(took time.Duration)
}

// Kind is a kind of transaction.
type Kind string

// The kinds of transactions.
const (
	Writing   Kind = "write"
	Reading   Kind = "read"
	Granting  Kind = "grant"
	Verifying Kind = "verify" // a claim against its mark
	Releasing Kind = "release"
	Revoking  Kind = "revoke"
)

// Reason is why a transaction runs once more.
type Reason string

// The reasons.
const (
	Serialization Reason = "serialization"
	Deadlock      Reason = "deadlock"
	Replan        Reason = "replan" // what the session keeps was out of date
)

func (o *Observer) checked(took time.Duration, checks []Check, unavailable error) {
	if o != nil {
		o.Checked(took, checks, unavailable)
	}
}

func (o *Observer) recorded(r audit.Record, began time.Time, err error) {
	if o != nil {
		o.Recorded(r, time.Since(began), err)
	}
}

func (o *Observer) admitted(r audit.Record) {
	if o != nil {
		o.Admitted(r)
	}
}

func (o *Observer) ran(kind Kind, began time.Time) {
	if o != nil {
		o.Ran(kind, time.Since(began))
	}
}

func (o *Observer) again(why Reason) {
	if o != nil {
		o.Again(why)
	}
}

func (o *Observer) waited(began time.Time) {
	if o != nil {
		o.Waited(time.Since(began))
	}
}

// Waiting returns how many acquires stand in line for a key that is held, and how
// many writes for the turn of theirs.
func (g *Gate) Waiting() (acquires, writes int) { return g.waiting.count(), g.turns.count() }

func (w *waiting) count() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, line := range w.lines {
		n += len(line)
	}
	return n
}

func (t *turns) count() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.keys {
		n += l.users - len(l.slots)
	}
	return max(n, 0) // a turn is given back a moment after its slot
}
