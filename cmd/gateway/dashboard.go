package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/fencegate/fencegate/internal/admin/dashboard"
	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/config"
	"github.com/fencegate/fencegate/internal/doctor"
	"github.com/fencegate/fencegate/internal/identity"
	migrations "github.com/fencegate/fencegate/sql"
)

// openDashboard makes the pages of a gateway that listens already.
func (h *house) openDashboard(cfg *config.Config) (*dashboard.Dashboard, error) {
	loopback := auth.IsLoopback(h.admin.Addr().String())
	return dashboard.New(dashboard.Config{
		Now: func() dashboard.Serving {
			now := h.now.Load()
			return dashboard.Serving{Gate: now.gate, Specs: specs(now.config), Masked: now.config.Masked()}
		},
		Recorder: h.metrics.Record(),
		Checks: []dashboard.Check{
			{Name: "Database", Ask: func(ctx context.Context) (string, error) { return "", h.pools.marks.Ping(ctx) }},
			{Name: "Lock service", Ask: func(ctx context.Context) (string, error) { return "", h.locks.ask(ctx) }},
			{Name: "Schema", Ask: h.schema},
		},
		Draining:     h.probes.Draining,
		Past:         h.past,
		Who:          func(r *http.Request) (auth.Principal, error) { return h.now.Load().looks(r, loopback) },
		LoopbackOnly: loopback,
		About:        dashboard.About{Version: buildVersion(), Instance: instanceName(), Started: time.Now(), Build: buildFacts()},
		Log:          h.log,
	})
}

// past finds who can write past the gateway.
func (h *house) past(ctx context.Context) *doctor.Report {
	cfg := h.settings.now.Load()
	plain, err := plainConnection(cfg)
	if err != nil {
		return &doctor.Report{Unseen: []doctor.Unseen{{About: "the database", Why: err.Error(), Blind: true}}}
	}
	return doctor.ExaminePast(ctx, doctor.Patient{Config: cfg, Specs: specs(cfg), Plain: plain})
}

// looks says who looks at the pages. Where nobody is authenticated they are kept to
// loopback, as the workers' listener is: they tell of keys and clients, and cut
// holders off.
func (g *generation) looks(r *http.Request, loopback bool) (auth.Principal, error) {
	if g.config.Auth == config.AuthNone && !loopback {
		return auth.Principal{}, fmt.Errorf("auth is %s: the dashboard is served on loopback only, and admin_listen is %s", g.config.Auth, g.config.Admin)
	}
	p, err := g.who.principal(withKey(r))
	var rejected *identity.Rejection
	if errors.As(err, &rejected) {
		return p, dashboard.ErrSignIn
	}
	return p, err
}

// mayProfile is for administrators who may look at the pages.
func (h *house) mayProfile(r *http.Request) (status int) {
	loopback := auth.IsLoopback(h.admin.Addr().String())
	if loopback && !auth.IsLoopback(r.Host) {
		return http.StatusMisdirectedRequest // a page in a browser, under a name of its own
	}
	p, err := h.now.Load().looks(r, loopback)
	switch {
	case errors.Is(err, dashboard.ErrSignIn):
		return http.StatusUnauthorized
	case err != nil || !p.Admin:
		return http.StatusForbidden
	}
	return http.StatusOK
}

// withKey is r with the password that a browser asked for as the key that it is.
func withKey(r *http.Request) *http.Request {
	_, key, asked := r.BasicAuth()
	if !asked {
		return r
	}
	changed := r.Clone(r.Context())
	changed.Header.Set("Authorization", "Bearer "+key)
	return changed
}

// schema says which version the database is at, and with an error what to do.
func (h *house) schema(ctx context.Context) (string, error) {
	conn, err := h.pools.marks.Acquire(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Release()
	at, err := migrations.Read(ctx, conn.Conn())
	if err != nil {
		return "", err
	}
	says := fmt.Sprintf("version %d of %d", at.Version, migrations.Latest())
	if at.Dirty {
		says += ", half-way"
	}
	return says, migrations.Check(ctx, conn.Conn())
}

// buildFacts is what the program knows of itself.
func buildFacts() [][2]string {
	facts := [][2]string{{"Go", runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH}}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return facts
	}
	names := map[string]string{"vcs.revision": "Commit", "vcs.time": "Committed", "vcs.modified": "Modified"}
	for _, setting := range info.Settings {
		if name := names[setting.Key]; name != "" {
			facts = append(facts, [2]string{name, setting.Value})
		}
	}
	return facts
}

func (h *house) dashboardURL() string {
	if h.admin == nil {
		return config.AdminOff
	}
	return "http://" + h.adminAddress() + "/ui/"
}
