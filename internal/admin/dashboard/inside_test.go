package dashboard_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/admin/dashboard"
	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/doctor"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient/pglock"
	"github.com/fencegate/fencegate/internal/telemetry"
	"github.com/fencegate/fencegate/internal/testenv"
)

// inside is a dashboard in this program, for a principal that the gateway does not
// know yet: one that is no administrator.
func inside(t *testing.T) (*dashboard.Dashboard, *gate.Gate) {
	t.Helper()
	pool := testenv.Postgres(t).Pool(t)
	tables, err := catalog.Open(t.Context(), pool, catalog.Specs{})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	g, err := gate.New(gate.Config{
		Writes: pool, Reads: pool, Tables: tables, Store: pglock.New(pool), Marks: fence.New(pool, pool),
		Audit: audit.NewWriter(pool, t.Name(), 24*time.Hour), Records: audit.NewReader(pool), Log: log,
		Terms: gate.Terms{Min: time.Millisecond, Default: time.Minute, Max: time.Minute, Lifetime: time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	d, err := dashboard.New(dashboard.Config{
		Now:      func() dashboard.Serving { return dashboard.Serving{Gate: g} },
		Recorder: telemetry.New("test").Record(), Draining: func() bool { return false }, Log: log,
		Past: func(context.Context) *doctor.Report { return &doctor.Report{} },
		Who:  func(*http.Request) (auth.Principal, error) { return auth.Principal{Name: "reader"}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return d, g
}

func granted(t *testing.T, g *gate.Gate, key lease.Key) {
	t.Helper()
	if _, err := g.Acquire(t.Context(), gate.Acquisition{Keys: []lease.Key{key}}); err != nil {
		t.Fatal(err)
	}
}
