package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/fencegate/fencegate"
	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/config"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/proxy"
)

// generation is what serves requests under one configuration. It never changes:
// another configuration is another generation, and a request ends in the one that
// it began in.
type generation struct {
	config *config.Config
	tables *catalog.Catalog
	gate   *gate.Gate
	who    *authenticator
	server *proxy.Server
	end    func() // of what it does by itself: it reads remote keys
}

// ServeHTTP lets the generation of now serve the request.
func (h *house) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.leaving.Load() {
		w.Header().Set("Connection", "close")
	}
	h.now.Load().server.ServeHTTP(w, r)
}

func (h *house) tables() *catalog.Catalog { return h.now.Load().tables }

// grow builds the generation of cfg, which is to take over from the one before; nil:
// it is the first. Nothing that serves is touched.
func (h *house) grow(ctx context.Context, cfg *config.Config, before *generation) (_ *generation, err error) {
	living, end := context.WithCancel(context.WithoutCancel(ctx))
	next := &generation{config: cfg, end: end}
	defer func() {
		if err != nil {
			end()
		}
	}()
	if next.tables, err = h.openTables(ctx, cfg, before); err != nil {
		return nil, fmt.Errorf("reading the protected tables, statements and functions: %w", err)
	}
	if err = checkRoutines(ctx, h.pools.writes, next.tables.Snapshot().Routines()); err != nil {
		return nil, fmt.Errorf("checking the statements and functions: %w", err)
	}
	if err = checkDatabaseRoles(ctx, h.pools.single(h.pools.reads), cfg.Roles); err != nil {
		return nil, err
	}
	newGate, newServer := gate.New, proxy.New
	if before != nil {
		newGate, newServer = before.gate.Next, before.server.Next
	}
	if next.gate, err = newGate(h.gateConfig(cfg, next.tables)); err != nil {
		return nil, err
	}
	next.who, err = openIdentity(living, cfg, next.tables.Snapshot(), h.log)
	if err != nil {
		return nil, err
	}
	if err = next.who.ready(ctx); err != nil && before != nil {
		return nil, err // the one before can tell who comes
	}
	next.server, err = newServer(h.proxyConfig(cfg, next))
	return next, err
}

func (h *house) openTables(ctx context.Context, cfg *config.Config, before *generation) (*catalog.Catalog, error) {
	if before != nil {
		return before.tables.Reopen(ctx, specs(cfg))
	}
	tables, err := catalog.Open(ctx, h.pools.single(h.pools.marks), specs(cfg))
	if err == nil {
		// PL/pgSQL functions keep the types they were compiled with, variables of
		// column%TYPE among them, for as long as their session lives.
		tables.OnChange(h.pools.reset)
	}
	return tables, err
}

func (h *house) gateConfig(cfg *config.Config, tables *catalog.Catalog) gate.Config {
	return gate.Config{
		Observer: h.observer, Enter: h.steps(),
		Writes: h.pools.writes, Reads: h.pools.reads, Pooled: h.pools.pooled, Tables: tables,
		Store: h.locks.store, Marks: fence.New(h.pools.single(h.pools.marks), h.pools.single(h.pools.moves)),
		Audit: h.audit, Records: audit.NewReader(h.pools.single(h.pools.reads)),
		Log:   h.log,
		Terms: leaseTerms(cfg.Leases), Namespaces: namespaces(cfg.Leases.Namespaces),
		KeepAnswers: cfg.Limits.KeepIdempotencyKeys, Moves: movesPoolSize,

		Lenient:   cfg.Leases.Check == config.CheckLenient,
		FenceOnly: cfg.Leases.ServiceDown == config.ServiceDownFenceOnly,
	}
}

func (h *house) proxyConfig(cfg *config.Config, g *generation) proxy.Config {
	return proxy.Config{
		Authenticate: g.who.principal, Observe: h.observe,
		Still: func(r *http.Request) (auth.Principal, error) { return h.now.Load().who.principal(r) },
		Gate:  g.gate, Catalog: g.tables,
		Contract: fencegate.Contract, Log: h.log, LoopbackOnly: cfg.Auth == config.AuthNone, TrustedProxies: cfg.Proxies(),
		Limits: proxy.Limits{
			BodyBytes: int64(cfg.Limits.MaxBodyBytes), AnswerBytes: int64(cfg.Limits.MaxAnswerBytes), Rows: cfg.Limits.MaxRows, Filters: cfg.Limits.MaxFilters,
			InFlight: cfg.Limits.MaxInFlight, PerOne: perPrincipal(cfg), Waiting: max(1, cfg.Limits.MaxConnections/2), Request: cfg.Limits.RequestTimeout,
		},
	}
}
