package main

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/config"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/proxy"
	"github.com/fencegate/fencegate/internal/telemetry"
)

// observers returns who is told what happens: nobody, if nobody can ask for it.
func (h *house) observers(cfg *config.Config) (*gate.Observer, func(context.Context, proxy.Outcome)) {
	var told []func(context.Context, proxy.Outcome)
	var observer *gate.Observer
	if cfg.Admin != config.AdminOff {
		h.metrics = telemetry.New(buildVersion())
		observer = h.metrics.Observer()
		told = append(told, func(_ context.Context, o proxy.Outcome) { h.metrics.Served(o) })
	}
	if h.traces != nil {
		told = append(told, h.traces.Served)
	}
	if len(told) == 0 {
		return nil, nil
	}
	return observer, func(ctx context.Context, o proxy.Outcome) {
		for _, tell := range told {
			tell(ctx, o)
		}
	}
}

// watch adds what is read when it is asked for.
func (h *house) watch() error {
	if h.metrics == nil {
		return nil
	}
	return h.metrics.Watch(telemetry.Sources{
		Server:  func() *proxy.Server { return h.now.Load().server },
		Gate:    h.now.Load().gate,
		Catalog: h.tables,
		Pools:   h.pools.named(),
		Traces:  h.traces,
		Ends:    h.ends,
		Ready:   func() bool { return h.probes.Ready() == nil },
	})
}

// named returns every pool by the kind of its work.
func (p *pools) named() map[string]*pgxpool.Pool {
	all := map[string]*pgxpool.Pool{"writes": p.writes, "reads": p.reads, "marks": p.marks, "moves": p.moves, "audit": p.audit}
	if p.leases != nil {
		all["leases"] = p.leases
	}
	return all
}
