package proxy

import (
	"cmp"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/statement"
)

// Outcome is what became of one request, for whoever counts. Nothing in it is
// made of what a caller can think up, but for Method.
type Outcome struct {
	Method   string
	Route    string // as openapi.yaml has it, such as /rest/{table}; "": there is none
	Status   int
	Took     time.Duration
	Code     string // of the problem that was answered, as in its type; "": none was
	Target   string // the table or routine of a write; Several; "": none, or it was not read so far
	Reason   string // why a release released nothing; "": it did
	Replayed bool   // answered from an earlier attempt under the same idempotency key
}

// Several is the Target of a transaction on more than one table or routine.
const Several = "several"

// visit is what a request has from its first to its last step.
type visit struct {
	id        string
	remote    string
	principal auth.Principal
	untold    bool // nobody's, and one of too many to be logged
	Outcome
}

// visitOf returns an empty visit for a request that never entered.
func visitOf(r *http.Request) *visit {
	if v, ok := r.Context().Value(visitKey).(*visit); ok {
		return v
	}
	return &visit{}
}

func requestID(r *http.Request) string { return visitOf(r).id }

// aims notes what a write is for.
func (v *visit) aims(mutations ...statement.Mutation) {
	for i, m := range mutations {
		switch target := m.Target(); {
		case i == 0:
			v.Target = target
		case v.Target != target:
			v.Target = Several
			return
		}
	}
}

func (s *Server) observe(r *http.Request, status int, took time.Duration) {
	if s.Observe == nil {
		return
	}
	o := visitOf(r).Outcome
	o.Method, o.Route, o.Status, o.Took = r.Method, s.routeOf(r), cmp.Or(status, http.StatusOK), took
	s.Observe(r.Context(), o)
}

// routeOf also finds the route of what was turned away before it was routed.
func (s *Server) routeOf(r *http.Request) string {
	if patterns := chi.RouteContext(r.Context()).RoutePatterns; len(patterns) > 0 {
		return patterns[0]
	}
	return s.router.Find(chi.NewRouteContext(), r.Method, r.URL.EscapedPath())
}

// InFlight is how many requests of each kind hold a slot.
type InFlight struct{ Writes, Reads, Streams int }

// InFlight returns how many there are now.
func (s *Server) InFlight() InFlight {
	return InFlight{Writes: s.busy.writes.count(), Reads: s.busy.reads.count(), Streams: s.busy.streams.count()}
}

// MostInFlight returns how many there may be.
func (s *Server) MostInFlight() InFlight {
	return InFlight{Writes: s.Limits.InFlight, Reads: s.Limits.mostReads(), Streams: maxStreams}
}
