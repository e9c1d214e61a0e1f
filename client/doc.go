// Package client takes locks from a fencegate gateway, keeps them alive, and
// writes under them.
//
// # A lease
//
//	              Acquire
//	                 │
//	                 ▼   renewed by the watchdog every third of its TTL
//	     ┌────────  held  ────────┐
//	     │                        │ its deadline has passed, or
//	Release                       │ the gateway refused its token
//	     ▼                        ▼
//	 released                   lost ── OnLost is called, once
//
// In both ends the lease's context is cancelled and nothing more is sent under
// the lease. Neither is left again: to go on, take the lock anew, under a new
// token.
//
// The deadline is counted from when the last request that the gateway confirmed
// was sent, plus the time that its answer said was left, minus a margin of 1 % of
// that and 10 ms (Config.Margin). It needs no answer from anybody: a network that
// swallows everything ends the lease just the same, in time. Two clocks are
// looked at, since the monotonic one stops while Linux is suspended: the one that
// has moved further counts. So a wall clock that is set forward can cost a lease;
// one that is set back changes nothing, but for hiding a suspension that it
// happens in.
//
// A timer may be late, after a pause of the process above all. So the clocks are
// looked at again right before each request of a Transport or of a helper such as
// Lease.Update, by Lease.Err, and by Err of the lease's context.
//
// # What is not promised
//
// A process can also be paused between that look and its request. No client can
// prevent that; the gateway does, by the fencing token: such a write is refused
// (ErrStale), nothing of it is applied. What does not pass the gateway is not
// fenced: before sending mail, moving money or writing a file, look at Lease.Err,
// and hand Lease.Token on to whatever can compare it. Work that was under way
// when a lease was lost may have to be looked at: see OnLost.
//
// # Errors
//
// Errors are told apart by errors.Is, with ErrLost, ErrHeld and the others, and by
// errors.As with *Error, which has all that the gateway said. A worker needs one
// rule for each: ErrLost: stop, take the lock anew. ErrHeld: wait. ErrConflict,
// ErrRefused: look at the data or the request. ErrUnavailable: again, later.
// ErrOutcomeUnknown: find out, by the same write under the same Idempotency-Key
// (see Once).
package client
