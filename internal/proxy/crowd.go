package proxy

import (
	"net/http"
	"time"
)

// mostPresent is how many requests there may be at once, over all connections and
// whatever becomes of them: twice of what can be served and can wait. One principal
// has half of it, and those who are nobody a quarter.
func (l Limits) mostPresent() int64 { return 2 * int64(l.InFlight+l.Waiting) }

// crowd bounds how many requests there are: over HTTP/2 a connection brings many at
// once. One that is too many is reset there; an answer to it could be what it is for,
// since whoever does not read one keeps it, and its request, in memory.
func (s *Server) crowd(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.busy.present.take(1, s.Limits.mostPresent()) {
			s.refuseCrowd(w, r)
			return
		}
		defer s.busy.present.leave(1)
		next.ServeHTTP(w, r)
		if r.ProtoMajor >= 2 {
			_ = http.NewResponseController(w).Flush() // it counts until its answer has gone
		}
	})
}

func (s *Server) refuseCrowd(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor >= 2 {
		panic(http.ErrAbortHandler)
	}
	s.fail(w, r, errTooManyInFlight)
}

// own is crowd for one principal.
func (s *Server) own(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		giveBack, ok := s.share(principal(r), being)
		if !ok {
			s.fail(w, r, errShareTaken)
			return
		}
		defer giveBack()
		next.ServeHTTP(w, r)
	})
}

// sendAway answers a request that is nobody's, which is not worth a wait: whoever does
// not take the answer at once gets none.
func (s *Server) sendAway(w http.ResponseWriter, r *http.Request, why error) {
	if !s.busy.unknown.take(1, s.Limits.mostPresent()/4) {
		s.refuseCrowd(w, r)
		return
	}
	defer s.busy.unknown.leave(1)
	connection := http.NewResponseController(w)
	_ = connection.SetWriteDeadline(time.Now().Add(answerTime / 2)) // bound told if it can't be set
	s.fail(w, r, why)
	if r.ProtoMajor >= 2 {
		_ = connection.Flush()
	}
}
