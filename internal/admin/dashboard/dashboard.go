// Package dashboard is the operators' pages on the admin listener: who holds which
// lock, what was refused and why, what is unsafe. Pages are made here, as HTML that
// works without a script; the script only keeps them up to date.
//
// It decides nothing and shows nothing that the API does not tell. The one thing it
// changes is a revocation, by the same gate.Revoke as the API's.
package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/doctor"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/telemetry"
)

// Config is what the pages are made from; all of it is needed.
type Config struct {
	// Now is what serves when it is asked: another configuration brings another.
	Now      func() Serving
	Recorder *telemetry.Recorder
	// Checks are shown in their order, each with what it says, and as failed with
	// its error.
	Checks   []Check
	Draining func() bool
	// Past finds who can write past the gateway. It is asked in the background.
	Past func(context.Context) *doctor.Report
	// Who says whom a request comes from; with an error nothing is shown but that, and
	// a browser asks for a password if it wraps ErrSignIn. Pages show what the
	// principal may see.
	Who func(*http.Request) (auth.Principal, error)
	// LoopbackOnly answers only requests whose Host is a loopback name: no page of
	// another origin can reach a listener on loopback under a name of its own.
	LoopbackOnly bool
	About        About
	Log          *slog.Logger
}

// ErrSignIn says that a request has no credentials, or none that are good.
var ErrSignIn = errors.New("the user name may be anything, the password is an API key")

// Serving is what serves workers, and by which configuration.
type Serving struct {
	Gate   *gate.Gate
	Specs  catalog.Specs
	Masked string // the effective configuration, without secrets
}

// Check asks a part of the gateway how it is: in a few words, such as "version 10",
// or "" if there is nothing to tell.
type Check struct {
	Name string
	Ask  func(context.Context) (string, error)
}

// About is what does not change while a gateway runs.
type About struct {
	Version  string
	Instance string
	Started  time.Time
	Build    [][2]string // more that is known of the program: name, value
}

// Dashboard serves the pages, all of them in one directory: their links are
// relative, so that it may be any. Safe for concurrent use.
type Dashboard struct {
	Config
	pages   map[string]pageTemplate
	files   map[string]file
	health  health
	past    past
	streams chan struct{}
	guarded http.Handler
}

// Bounds of one request.
const (
	pageTimeout = 3 * time.Second
	maxForm     = 16 << 10
	maxStreams  = 16
)

// New returns the dashboard, to be mounted at a path that ends with a slash and is
// stripped.
func New(cfg Config) (*Dashboard, error) {
	if cfg.Now == nil || cfg.Recorder == nil || cfg.Draining == nil || cfg.Past == nil || cfg.Who == nil || cfg.Log == nil {
		return nil, errors.New("dashboard: a part is missing from its configuration")
	}
	d := &Dashboard{Config: cfg, files: files(), streams: make(chan struct{}, maxStreams)}
	d.past.wanted = make(chan struct{}, 1)
	var err error
	if d.pages, err = parsePages(); err != nil {
		return nil, err
	}
	d.guarded = d.guard(d.routes())
	return d, nil
}

// Run does what goes on in the background until ctx ends, and returns nil.
func (d *Dashboard) Run(ctx context.Context) error {
	background, ctx := errgroup.WithContext(ctx)
	background.Go(func() error { return d.Recorder.Run(ctx) })
	background.Go(func() error { return d.past.run(ctx, d.Past) })
	return background.Wait()
}

// ServeHTTP implements http.Handler.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.guarded.ServeHTTP(w, r) }

func (d *Dashboard) gate() *gate.Gate { return d.Now().Gate }

func (d *Dashboard) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", d.page(d.overview))
	mux.Handle("GET /locks", d.page(d.locks))
	mux.Handle("GET /lock", d.page(d.lock))
	mux.Handle("POST /lock", d.page(d.revoke))
	mux.Handle("GET /refusals", d.page(d.refusals))
	mux.Handle("GET /refusal", d.page(d.refusal))
	mux.Handle("GET /tables", d.page(d.tables))
	mux.Handle("GET /settings", d.page(d.settings))
	mux.HandleFunc("GET /stream", d.stream)
	for name, f := range d.files {
		mux.Handle("GET /"+name, f)
	}
	mux.Handle("/", d.page(func(*http.Request, auth.Principal) (page, error) { return page{}, errNoPage }))
	return mux
}
