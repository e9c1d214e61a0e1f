package proxy

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/fencegate/fencegate/internal/auth"
)

// kind is what a request occupies.
type kind int

const (
	writing kind = iota
	reading
	waiting
	streaming
	sending // bytes of bodies
	being   // requests, whatever they are doing
	kinds
)

// shares counts what each principal occupies, and how often it comes, so that the
// storm of one is not everybody's.
type shares struct {
	mu   sync.Mutex
	of   map[string]*share
	full int // how many shares there may be before idle ones are looked for
}

// share is one principal's.
type share struct {
	has  [kinds]int64
	pace *rate.Limiter // nil: it may come as often as it likes
}

// manyShares is where looking for idle ones begins.
const manyShares = 1024

func newShares() *shares { return &shares{of: map[string]*share{}, full: manyShares} }

// comes counts one request of p in, and tells what its pace leaves it.
func (s *shares) comes(p auth.Principal) (pace pace, ok bool) {
	limits := p.Limits()
	if limits.PerSecond == 0 {
		return pace, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	limiter := s.get(p).paced(limits.PerSecond)
	pace.perSecond = limits.PerSecond
	ok = limiter.Allow()
	pace.left = int(math.Max(0, limiter.Tokens()))
	if !ok {
		pace.wait = time.Duration(float64(time.Second) / float64(limits.PerSecond) * (1 - limiter.Tokens()))
	}
	return pace, ok
}

// paced returns what keeps the pace. A newer configuration may have changed it, and
// so may another token of the same principal: what is left is left all the same.
func (s *share) paced(perSecond int) *rate.Limiter {
	if s.pace == nil {
		s.pace = rate.NewLimiter(rate.Limit(perSecond), 2*perSecond)
	}
	if s.pace.Burst() != 2*perSecond {
		s.pace.SetLimit(rate.Limit(perSecond))
		s.pace.SetBurst(2 * perSecond)
	}
	return s.pace
}

// enter counts n more of what p occupies, or is false if that is more than it may;
// 0: no bound.
func (s *shares) enter(p auth.Principal, k kind, n, most int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	share := s.get(p)
	if most > 0 && share.has[k]+n > most {
		return false
	}
	share.has[k] += n
	return true
}

func (s *shares) leave(p auth.Principal, k kind, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.get(p).has[k] -= n
}

// share counts what p occupies, until it is given back. It is false if p has all it
// may.
func (s *Server) share(p auth.Principal, k kind) (giveBack func(), ok bool) {
	if !s.busy.shares.enter(p, k, 1, s.mostOf(p, k)) {
		return nil, false
	}
	return func() { s.busy.shares.leave(p, k, 1) }, true
}

// shareAgain is share for what p occupied before, whatever it may.
func (s *Server) shareAgain(p auth.Principal, k kind) (giveBack func()) {
	s.busy.shares.enter(p, k, 1, 0)
	return func() { s.busy.shares.leave(p, k, 1) }
}

// mostOf is the most that p may occupy; 0: no bound. What it may have in flight is
// of writes; of reads it is half as many, as there are of them all.
func (s *Server) mostOf(p auth.Principal, k kind) int64 {
	inFlight := int64(cmp.Or(p.Limits().InFlight, s.Limits.PerOne))
	switch {
	case k == writing || inFlight == 0:
		return inFlight
	case k == reading:
		return max(1, inFlight/2)
	case k == waiting:
		return int64(max(1, s.Limits.Waiting/2))
	case k == sending:
		return s.Limits.mostOfBodies() / 2
	case k == being:
		return s.Limits.mostPresent() / 2
	}
	return maxStreams / 2
}

// get returns the share of p. s.mu is held.
func (s *shares) get(p auth.Principal) *share {
	if known := s.of[p.Name]; known != nil {
		return known
	}
	if len(s.of) >= s.full {
		s.forget()
	}
	made := &share{}
	s.of[p.Name] = made
	return made
}

// forget drops the shares that say what new ones would.
func (s *shares) forget() {
	for name, share := range s.of {
		idle := share.has == [kinds]int64{} && (share.pace == nil || share.pace.Tokens() >= float64(share.pace.Burst()))
		if idle {
			delete(s.of, name)
		}
	}
	s.full = max(manyShares, 2*len(s.of))
}

// pace is how often a principal may still come.
type pace struct {
	perSecond, left int
	wait            time.Duration // until the next one may
}

// write says it as draft-ietf-httpapi-ratelimit-headers does.
func (p pace) write(h http.Header) {
	if p.perSecond == 0 {
		return
	}
	h.Set("RateLimit-Policy", fmt.Sprintf(`"principal";q=%d;w=1`, p.perSecond))
	h.Set("RateLimit", `"principal";r=`+strconv.Itoa(p.left)+`;t=1`)
}

// throttle turns away what comes too often, before its body is read.
func (s *Server) throttle(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pace, ok := s.busy.shares.comes(principal(r))
		pace.write(w.Header())
		if !ok {
			s.fail(w, r, &fault{status: http.StatusTooManyRequests, slug: "rate_limited", retryAfter: pace.wait,
				detail: fmt.Sprintf("%s may send %d requests a second", principal(r).Name, pace.perSecond)})
			return
		}
		next.ServeHTTP(w, r)
	})
}

var errShareTaken = &fault{status: http.StatusTooManyRequests, slug: "too_many_in_flight", retryAfter: time.Second,
	detail: "you have as many requests in flight as you may; the rest of the gateway is for others"}
