// Package admin is the operators' listener: probes, apart from the workers'
// port, so that neither can starve or expose the other.
package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"
	"time"
)

// Probe asks one part that the gateway can't work without; nil is well.
type Probe struct {
	Name string
	Ask  func(context.Context) error
}

// probeTimeout bounds one round of probes.
const probeTimeout = time.Second

// cacheFor keeps a flood of readiness checks off the database.
const cacheFor = time.Second

// Handler serves /livez (this process answers), /readyz (it can work), /metrics,
// /debug/pprof and the dashboard.
type Handler struct {
	// Metrics answers /metrics; to be set before serving. Nil: there is none.
	Metrics http.Handler
	// Dashboard answers below /ui/, which it does not see, and to whoever asks for
	// /; to be set before serving. Nil: there is none.
	Dashboard http.Handler
	// MayProfile answers 200 to those for whom /debug/pprof is, which has what lies in
	// memory: 401 or 403 to others. To be set before serving. Nil: it is for nobody.
	MayProfile func(*http.Request) (status int)

	probes   []Probe
	mu       sync.Mutex
	asked    time.Time
	verdict  error
	draining bool
}

// New returns the handler of the admin listener.
func New(probes ...Probe) *Handler { return &Handler{probes: probes} }

// Drain makes /readyz answer 503 from now on.
func (h *Handler) Drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining = true
}

// Draining reports whether Drain was called.
func (h *Handler) Draining() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.draining
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if profile, ok := strings.CutPrefix(r.URL.Path, "/debug/pprof/"); ok {
		h.serveProfile(w, r, profile)
		return
	}
	if r.URL.Path == "/metrics" && h.Metrics != nil {
		h.Metrics.ServeHTTP(w, r)
		return
	}
	if h.Dashboard != nil && h.serveDashboard(w, r) {
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	switch r.URL.Path {
	case "/livez":
		fmt.Fprintln(w, "ok")
	case "/readyz":
		if err := h.Ready(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, err)
			return
		}
		fmt.Fprintln(w, "ok")
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintln(w, "there are /ui/, /livez, /readyz, /metrics and /debug/pprof/ here")
	}
}

// serveDashboard reports whether the request was the dashboard's. It redirects to
// where it is relative to the address as it was asked for, which may have more in
// front of it.
func (h *Handler) serveDashboard(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case strings.HasPrefix(r.URL.Path, "/ui/"):
		http.StripPrefix("/ui", h.Dashboard).ServeHTTP(w, r)
	case r.URL.Path == "/", r.URL.Path == "/ui":
		w.Header().Set("Location", "ui/")
		w.WriteHeader(http.StatusSeeOther)
	default:
		return false
	}
	return true
}

func (h *Handler) serveProfile(w http.ResponseWriter, r *http.Request, name string) {
	status := http.StatusForbidden
	if h.MayProfile != nil {
		status = h.MayProfile(r)
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="fencegate", charset="UTF-8"`)
	}
	if status != http.StatusOK {
		http.Error(w, "profiles are for administrators; under auth: none, for loopback", status)
		return
	}
	switch name {
	case "profile":
		pprof.Profile(w, r)
	case "trace":
		pprof.Trace(w, r)
	default:
		pprof.Index(w, r)
	}
}

// Ready returns what keeps the gateway from working, as /readyz says it; nil is
// nothing.
func (h *Handler) Ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining {
		return fmt.Errorf("draining")
	}
	if time.Since(h.asked) < cacheFor {
		return h.verdict
	}
	h.verdict = h.ask()
	h.asked = time.Now()
	return h.verdict
}

// ask names the part that fails, without its error: that may hold addresses.
func (h *Handler) ask() error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	for _, probe := range h.probes {
		if err := probe.Ask(ctx); err != nil {
			return fmt.Errorf("%s: not reachable", probe.Name)
		}
	}
	return nil
}
