package main

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/config"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/proxy"
	"github.com/fencegate/fencegate/internal/telemetry"
)

// observers returns who is told what happens: nobody, if nobody can ask for it.
func (h *house) observers(cfg *config.Config) (*gate.Observer, func(proxy.Outcome)) {
	if cfg.Admin == config.AdminOff {
		return nil, nil
	}
	h.metrics = telemetry.New(buildVersion())
	return h.metrics.Observer(), h.metrics.Served
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
