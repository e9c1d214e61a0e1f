package proxy

import (
	"errors"
	"net/http"
	"time"

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
		s.Log.Info("a request was not authenticated", "reason", rejection.Reason, "remote", remoteAddress(r), "request_id", requestID(r))
		return &fault{status: http.StatusUnauthorized, slug: "unauthenticated", detail: rejection.Detail,
			headers: map[string]string{"WWW-Authenticate": `Bearer realm="fencegate"`}}
	}
	return err
}
