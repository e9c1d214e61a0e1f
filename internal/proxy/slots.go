package proxy

import "sync/atomic"

// slots counts what goes on at once. How many there may be is told with each take,
// so that a limit can change while they are in use.
type slots struct{ taken atomic.Int64 }

// take takes n, or is false if there would be more than most.
func (s *slots) take(n, most int64) bool {
	for {
		taken := s.taken.Load()
		if taken+n > most {
			return false
		}
		if s.taken.CompareAndSwap(taken, taken+n) {
			return true
		}
	}
}

func (s *slots) leave(n int64) { s.taken.Add(-n) }

func (s *slots) count() int { return int(s.taken.Load()) }

// busy is what goes on in a server and in those that it took over from.
type busy struct {
	writes, reads, waiters, streams slots
	present, unknown                slots // requests, whatever becomes of them; those of nobody
	bodies                          slots // bytes of them
	shares                          *shares
	rejected                        *told
}

func newBusy() *busy { return &busy{shares: newShares(), rejected: newTold()} }

// mostReads is how many reads may be served at once.
func (l Limits) mostReads() int { return max(1, l.InFlight/2) }
