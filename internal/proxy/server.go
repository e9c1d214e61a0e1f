// Package proxy is the front hall: it turns HTTP into what the gate understands
// and what the gate answers back into HTTP. It decides nothing about fencing.
//
// The way of one write: rest.go decodes, gate.Write authorises, checks, builds
// and commits, respond.go or errors.go answers.
package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/fencegate/fencegate/internal/api"
	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/gate"
)

// Config is what the HTTP side works with; every field is needed unless
// it says otherwise.
type Config struct {
	Gate     *gate.Gate
	Catalog  *catalog.Catalog
	Contract []byte // openapi.yaml as it is served
	Log      *slog.Logger
	Limits   Limits
	// Authenticate says who a request comes from. Errors: *identity.Rejection,
	// identity.ErrUnavailable.
	Authenticate func(*http.Request) (auth.Principal, error)
	// Still says who a request comes from that has gone on for long, by what counts
	// now. Zero value: Authenticate does.
	Still func(*http.Request) (auth.Principal, error)
	// TrustedProxies are whom X-Forwarded-For is taken from. Zero value: nobody.
	TrustedProxies []netip.Prefix
	// LoopbackOnly refuses requests to any other host name. Zero value: any.
	LoopbackOnly bool
	// Observe is told what became of each request, with the request's context, and
	// must not block. Zero value: nobody is.
	Observe func(context.Context, Outcome)
}

// Limits bounds what one request may cost. All must be positive.
type Limits struct {
	BodyBytes   int64
	AnswerBytes int64 // of the rows in an answer
	Rows        int   // of a read's answer, of a write's body
	Filters     int
	InFlight    int // writes and lease calls served at once, and half as many reads; more are turned away with 503
	PerOne      int // of them, those of one principal, and half of the waiting and the streams; 0: no bound
	Waiting     int // acquires that wait for a lock at once
	Request     time.Duration
}

// Server is the public HTTP handler.
type Server struct {
	Config
	busy   *busy
	tries  chan struct{} // of requests that have waited
	router chi.Router
}

var _ api.ServerInterface = (*Server)(nil)

// New returns the public handler.
func New(cfg Config) (*Server, error) {
	l := cfg.Limits
	if l.BodyBytes < 1 || l.AnswerBytes < 1 || l.Rows < 1 || l.Filters < 1 || l.InFlight < 1 || l.Waiting < 1 || l.Request < 1 {
		return nil, errors.New("proxy: every limit must be positive")
	}
	if cfg.Authenticate == nil {
		return nil, errors.New("proxy: nobody says who a request comes from")
	}
	if cfg.Still == nil {
		cfg.Still = cfg.Authenticate
	}
	s := &Server{Config: cfg, busy: newBusy(), tries: make(chan struct{}, max(1, l.InFlight/16))}
	router := chi.NewRouter()
	s.router = router
	router.Use(s.bound, rawPath, joinPrefer, s.identify, s.crowd, s.logAccess, s.recoverPanic, s.loopbackOnly, s.authenticate, s.own, s.throttle, s.limit)
	router.NotFound(func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, &fault{status: http.StatusNotFound, slug: "not_found", detail: "there is nothing at " + r.URL.Path})
	})
	router.MethodNotAllowed(s.methodNotAllowed(router))
	api.HandlerWithOptions(s, api.ChiServerOptions{
		BaseRouter:       router,
		ErrorHandlerFunc: s.failBinding,
	})
	return s, nil
}

// Next returns the handler of cfg that is to take over from s. What s still serves
// counts towards the limits of both.
func (s *Server) Next(cfg Config) (*Server, error) {
	next, err := New(cfg)
	if err != nil {
		return nil, err
	}
	next.busy = s.busy
	return next, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.router.ServeHTTP(w, r) }

// ReadContract answers GET /openapi.yaml.
func (s *Server) ReadContract(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	w.Header().Del("Cache-Control") // it holds no data
	w.Write(s.Contract)
}
