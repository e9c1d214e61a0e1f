package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate"
	"github.com/fencegate/fencegate/internal/admin"
	"github.com/fencegate/fencegate/internal/admin/dashboard"
	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/config"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/lockclient"
	"github.com/fencegate/fencegate/internal/proxy"
	"github.com/fencegate/fencegate/internal/telemetry"
)

// house is one gateway, wired and listening:
//
//	        ┌─ public listener ── proxy ── gate ─┬─ lockService ── Redis, etcd or pools
//	run ────┤                                    ├─ fence ─┐
//	        ├─ admin listener ─── probes, metrics│         ├─ pools ── PostgreSQL
//	        ├─ dashboard.Run ── its pages ── gate│         │
//	        ├─ gate.ForgetAnswers                │         │
//	        ├─ audit.Writer ◄────────────────────┴─────────┘
//	        ├─ lockService.run
//	        └─ notified ◄─── NOTIFY ─── PostgreSQL
//
// On the way down: unready, stop accepting, finish what is in flight, then the
// audit writer, then the connections.
type house struct {
	log      *slog.Logger
	grace    time.Duration
	pools    *pools
	locks    *lockService
	tables   *catalog.Catalog
	gate     *gate.Gate
	audit    *audit.Writer
	who      authenticator
	notified *notified // nil: off
	probes   *admin.Handler
	metrics  *telemetry.Metrics   // nil: nobody could read them
	pages    *dashboard.Dashboard // nil: off
	public   *listener
	admin    *listener // nil: off
}

type listener struct {
	net.Listener
	server *http.Server
}

// Bounds of the HTTP servers that are not the configuration's business.
const (
	headerTimeout  = 5 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 32 << 10
	answerTime     = 10 * time.Second // to record a refusal and write an answer, beyond the request's own time
)

// build connects, checks and listens; on an error everything is closed again.
func build(ctx context.Context, cfg *config.Config, log *slog.Logger) (_ *house, err error) {
	h := &house{log: log, grace: cfg.Limits.ShutdownGrace}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	if h.pools, err = openPools(ctx, cfg); err != nil {
		return nil, err
	}
	if h.locks, err = openLockService(cfg, h.pools); err != nil {
		return nil, err
	}
	handler, err := h.wire(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return h, h.listen(cfg, handler)
}

func (h *house) wire(ctx context.Context, cfg *config.Config) (_ http.Handler, err error) {
	h.tables, err = catalog.Open(ctx, h.pools.single(h.pools.marks), specs(cfg))
	if err != nil {
		return nil, fmt.Errorf("reading the protected tables, statements and functions: %w", err)
	}
	if err = checkRoutines(ctx, h.pools.writes, h.tables.Snapshot().Routines()); err != nil {
		return nil, fmt.Errorf("checking the statements and functions: %w", err)
	}
	// PL/pgSQL functions keep the types they were compiled with, variables of
	// column%TYPE among them, for as long as their session lives.
	h.tables.OnChange(h.pools.reset)
	if cfg.Database.ReloadOnNotify {
		h.notified = &notified{config: h.pools.marks.Config().ConnConfig, tables: h.tables, log: h.log}
	}
	h.audit = audit.NewWriter(h.pools.single(h.pools.audit), instanceName(), cfg.Audit.KeepRefusals)
	if err = h.audit.Keep(); err != nil {
		return nil, err
	}
	observer, observe := h.observers(cfg)
	h.gate, err = gate.New(gate.Config{
		Observer: observer,
		Writes:   h.pools.writes, Reads: h.pools.reads, Pooled: h.pools.pooled, Tables: h.tables,
		Store: h.locks.store, Marks: fence.New(h.pools.single(h.pools.marks), h.pools.single(h.pools.moves)),
		Audit: h.audit, Records: audit.NewReader(h.pools.single(h.pools.reads)),
		Log:   h.log,
		Terms: leaseTerms(cfg.Leases), Namespaces: namespaces(cfg.Leases.Namespaces),
		KeepAnswers: cfg.Limits.KeepIdempotencyKeys,

		Lenient:   cfg.Leases.Check == config.CheckLenient,
		FenceOnly: cfg.Leases.ServiceDown == config.ServiceDownFenceOnly,
	})
	if err != nil {
		return nil, err
	}
	h.who, err = openIdentity(ctx, cfg, h.tables.Snapshot(), h.log)
	if err != nil {
		return nil, err
	}
	server, err := proxy.New(proxy.Config{
		Authenticate: h.who,
		Observe:      observe,
		Gate:         h.gate, Catalog: h.tables,
		Contract: fencegate.Contract, Log: h.log, LoopbackOnly: cfg.Auth == config.AuthNone,
		Limits: proxy.Limits{
			BodyBytes: int64(cfg.Limits.MaxBodyBytes), AnswerBytes: int64(cfg.Limits.MaxAnswerBytes), Rows: cfg.Limits.MaxRows, Filters: cfg.Limits.MaxFilters,
			InFlight: cfg.Limits.MaxInFlight, PerOne: perPrincipal(cfg), Waiting: max(1, cfg.Limits.MaxConnections/2), Request: cfg.Limits.RequestTimeout,
		},
	})
	if err != nil {
		return nil, err
	}
	return server, h.watch(server)
}

func (h *house) listen(cfg *config.Config, handler http.Handler) (err error) {
	if h.public, err = h.open(cfg.Listen, handler, cfg.Limits.RequestTimeout); err != nil {
		return err
	}
	h.public.Listener = newBoundedListener(h.public.Listener.(*net.TCPListener), cfg.Limits.MaxConnections)
	h.probes = admin.New(
		admin.Probe{Name: "database", Ask: h.pools.marks.Ping},
		admin.Probe{Name: "lock service", Ask: h.locks.ask},
	)
	if cfg.Admin != config.AdminOff {
		h.probes.Metrics = h.metrics.Handler(h.log)
		if h.admin, err = h.open(cfg.Admin, h.probes, cfg.Limits.RequestTimeout); err != nil {
			return err
		}
		h.pages, err = h.openDashboard(cfg)
		h.probes.Dashboard = h.pages
	}
	return err
}

func (h *house) open(address string, handler http.Handler, requestTime time.Duration) (*listener, error) {
	socket, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", address, err)
	}
	return &listener{Listener: socket, server: &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTime,
		WriteTimeout:      requestTime + answerTime,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(h.log.Handler(), slog.LevelWarn),
	}}, nil
}

// run serves until ctx ends or a part fails, then goes down in order.
func (h *house) run(ctx context.Context) error {
	defer h.close()
	writing, stopWriting := context.WithCancel(context.WithoutCancel(ctx))
	var writer errgroup.Group
	writer.Go(func() error { return h.audit.Run(writing) })
	writer.Go(func() error { return h.audit.Retain(writing, h.log) })
	writer.Go(func() error { return h.gate.ForgetAnswers(writing) })
	if h.locks.run != nil {
		writer.Go(func() error { return h.locks.run(writing) })
	}
	serving, ctx := errgroup.WithContext(ctx)
	for _, l := range h.listeners() {
		serving.Go(l.serve)
	}
	if err := h.locks.ask(ctx); err != nil {
		h.log.Warn("the lock service can't be reached yet: writes and leases are answered with 503 until it can", "error", err)
	}
	h.log.Info("serving", "address", h.public.Addr().String(), "admin", h.adminAddress(), "version", buildVersion())
	serving.Go(func() error { return h.shutDown(ctx) })
	serving.Go(func() error { return h.reload(ctx) })
	if store, ok := h.locks.store.(lockclient.Watcher); ok {
		serving.Go(func() error { return store.Watch(ctx, h.gate.Freed) })
	}
	if h.notified != nil {
		serving.Go(func() error { return h.notified.Run(ctx) })
	}
	if h.pages != nil {
		serving.Go(func() error { return h.pages.Run(ctx) })
	}
	err := serving.Wait()
	stopWriting()
	return errors.Join(err, writer.Wait())
}

// reload reads the protected tables anew at each SIGHUP.
func (h *house) reload(ctx context.Context) error {
	hangUps := make(chan os.Signal, 1)
	signal.Notify(hangUps, syscall.SIGHUP)
	defer signal.Stop(hangUps)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hangUps:
		}
		reread(ctx, h.tables, h.log)
	}
}

func (l *listener) serve() error {
	if err := l.server.Serve(l.Listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// shutDown waits for ctx, then lets the requests in flight finish within the
// grace time and cuts off the rest.
func (h *house) shutDown(ctx context.Context) error {
	<-ctx.Done()
	h.log.Info("stopping: finishing what is in flight", "grace", h.grace.String())
	h.probes.Drain()
	h.gate.StopWaiting()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.grace)
	defer cancel()
	for _, l := range h.listeners() {
		if err := l.server.Shutdown(bounded); err != nil {
			h.log.Warn("requests were still in flight after the grace time", "error", err)
			l.server.Close()
		}
	}
	return nil
}

func (h *house) listeners() []*listener {
	if h.admin == nil {
		return []*listener{h.public}
	}
	return []*listener{h.public, h.admin}
}

func (h *house) adminAddress() string {
	if h.admin == nil {
		return config.AdminOff
	}
	return h.admin.Addr().String()
}

func (h *house) readyURL() string {
	if h.admin == nil {
		return "off"
	}
	return "http://" + h.adminAddress() + "/readyz"
}

func (h *house) close() {
	for _, l := range []*listener{h.public, h.admin} {
		if l != nil {
			l.Close()
		}
	}
	if h.locks != nil {
		h.locks.close()
	}
	if h.pools != nil {
		h.pools.close()
	}
}

func instanceName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}
