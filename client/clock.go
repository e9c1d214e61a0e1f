package client

import "time"

// reading is what both clocks of this machine show at one moment.
//
// Linux stops CLOCK_MONOTONIC while the machine is suspended, and the wall clock
// may be set; so both are read, and the one that has moved further counts.
type reading struct {
	mono time.Duration // since an origin of this process
	wall time.Time
}

// clock reads both clocks. Two readings compare only if they are of one clock.
type clock struct{ origin time.Time }

func newClock() clock { return clock{time.Now()} }

func (c clock) now() reading {
	now := time.Now()
	return reading{mono: now.Sub(c.origin), wall: now.Round(0)}
}

// since returns how much time may have passed from then to r: a wall clock that
// was set back shortens nothing, one that jumped ahead is believed.
func (r reading) since(then reading) time.Duration {
	return max(r.mono-then.mono, r.wall.Sub(then.wall))
}

// trust is how long a lease may be relied upon without another word of the
// gateway's.
type trust struct {
	sent   reading       // when the last request that the gateway confirmed was sent
	ttl    time.Duration // what its answer said was left
	margin time.Duration
}

// left returns how much longer the lease may be relied upon; it is over at 0.
//
// It counts from the sending: a slow answer must not lengthen the lease.
func (t trust) left(now reading) time.Duration { return t.ttl - t.margin - now.since(t.sent) }

// defaultMargin is what clocks of two machines may drift apart during ttl, and
// some time for a request to be on its way.
func defaultMargin(ttl time.Duration) time.Duration { return ttl/100 + 10*time.Millisecond }

// renewGain is how much of ttl a renewal must at least gain to be worth asking.
const renewGain = 10

// final reports whether the lease lives about as long as its maximum lifetime,
// counted from the grant, lets it: further renewals would gain next to nothing.
func (t trust) final(granted reading, lifetime, asked time.Duration) bool {
	return lifetime > 0 && t.sent.since(granted)+t.ttl > lifetime-asked/renewGain
}

// attemptTime is how long one of several attempts may wait for its answer, when
// all of them together have left: short enough that a call into the void leaves
// time for others.
func attemptTime(left time.Duration) time.Duration {
	return min(left, max(left/3, minAttempt))
}

// minAttempt is what an attempt gets even close to the end.
const minAttempt = 100 * time.Millisecond

// backoff returns how long to wait before attempt n+1 (n from 1), when all of
// them together have left: what the gateway asked for, or else doubling from
// 50 ms, but never so long that no other attempt fits. spread is 0 to 1.
func backoff(n int, asked, left time.Duration, spread float64) time.Duration {
	wait := asked
	if wait <= 0 {
		wait = 50 * time.Millisecond << min(n-1, 5)
	}
	wait = min(wait, left/4)
	return wait/2 + time.Duration(float64(wait/2)*spread)
}
