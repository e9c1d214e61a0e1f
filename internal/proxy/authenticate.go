package proxy

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/identity"
)

// authenticate finds out who sends the request before anything else of it is
// looked at: whether a path is there is for those who belong here.
func (s *Server) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := s.Authenticate(r)
		if err != nil {
			s.sendAway(w, r, s.unauthenticated(r, err))
			return
		}
		visitOf(r).principal = p
		next.ServeHTTP(w, r)
	})
}

// Anyone authenticates every request as auth.Anyone.
func Anyone(*http.Request) (auth.Principal, error) { return auth.Anyone, nil }

func (s *Server) unauthenticated(r *http.Request, err error) error {
	var rejection *identity.Rejection
	switch {
	case errors.Is(err, identity.ErrUnavailable):
		return unavailable("identity_unavailable", err.Error(), 5*time.Second)
	case errors.As(err, &rejection):
		if untold, ok := s.busy.rejected.tell(); ok {
			s.Log.Info("a request was not authenticated", "reason", rejection.Reason, "remote", remoteAddress(r), "request_id", requestID(r), "untold", untold)
		} else {
			visitOf(r).untold = true
		}
		return &fault{status: http.StatusUnauthorized, slug: "unauthenticated", detail: rejection.Detail,
			headers: map[string]string{"WWW-Authenticate": `Bearer realm="fencegate"`}}
	}
	return err
}

// told lets a number of things a second be logged: whoever has no credentials must not
// fill the disk. What is not logged is counted.
type told struct {
	pace   *rate.Limiter
	untold atomic.Int64
}

// Rejections that are logged. Metrics count them all.
const (
	rejectionsPerSecond = 10
	rejectionsAtOnce    = 100
)

func newTold() *told { return &told{pace: rate.NewLimiter(rejectionsPerSecond, rejectionsAtOnce)} }

// tell returns how many were not told since the last one that was.
func (t *told) tell() (untold int64, ok bool) {
	if !t.pace.Allow() {
		t.untold.Add(1)
		return 0, false
	}
	return t.untold.Swap(0), true
}
