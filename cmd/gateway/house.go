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
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate/internal/admin"
	"github.com/fencegate/fencegate/internal/admin/dashboard"
	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/config"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/lockclient"
	"github.com/fencegate/fencegate/internal/proxy"
	"github.com/fencegate/fencegate/internal/telemetry"
)

// house is one gateway, wired and listening:
//
//	        ┌─ public listener ── proxy ── gate ─┬─ lockService ── Redis, etcd or pools
//	run ────┤             (one generation)       ├─ fence ─┐
//	        ├─ admin listener ─── probes, metrics│         ├─ pools ── PostgreSQL
//	        ├─ dashboard.Run ── its pages ── gate│         │
//	        ├─ gate.ForgetAnswers                │         │
//	        ├─ audit.Writer ◄────────────────────┴─────────┘
//	        ├─ lockService.run
//	        ├─ notified ◄─── NOTIFY ─── PostgreSQL
//	        └─ obeyHangUps ◄─── SIGHUP: the next generation
//
// Where traces are on, they are told by hooks at the listener, the gate, the lock
// service and the pools.
//
// On the way down: unready but accepting for a while, stop accepting, finish what is
// in flight, send the traces, then the audit writer, then the connections.
type house struct {
	log        *slog.Logger
	settings   *settings
	pools      *pools
	locks      *lockService
	now        atomic.Pointer[generation]
	audit      *audit.Writer
	pages      *dashboard.Dashboard // nil: off
	notified   *notified            // nil: off
	probes     *admin.Handler
	metrics    *telemetry.Metrics // nil: nobody could read them
	traces     *telemetry.Traces  // nil: off
	observer   *gate.Observer
	observe    func(context.Context, proxy.Outcome)
	public     *listener
	bounds     *boundedListener // below public
	admin      *listener        // nil: off
	leaving    atomic.Bool      // callers are told to go elsewhere
	hangUps    chan os.Signal
	supervisor *supervisor // nil: nobody
	file       *configFile // nil: the configuration is not from a file
}

type listener struct {
	net.Listener
	server       *http.Server
	certificates *certificates // nil: no TLS
}

// Bounds of the HTTP servers that are not the configuration's business.
const (
	headerTimeout  = 5 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 32 << 10
	adminTime      = time.Minute // for an answer to an operator, such as a profile
	// longestAnswer is for what is answered before a request is read. From then on
	// proxy bounds it.
	longestAnswer = 48 * time.Hour
)

// build connects, checks and listens; on an error everything is closed again.
func build(ctx context.Context, cfg *config.Config, log *slog.Logger) (_ *house, err error) {
	h := &house{log: log, settings: settingsOf(cfg), hangUps: make(chan os.Signal, 1)}
	signal.Notify(h.hangUps, syscall.SIGHUP) // one that comes too early must not end the gateway
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	if h.traces, err = openTraces(ctx, cfg, log); err != nil {
		return nil, fmt.Errorf("opening traces: %w", err)
	}
	h.log = tracedLog(log, h.traces)
	if h.pools, err = openPools(ctx, h.settings, h.traces); err != nil {
		return nil, err
	}
	if h.locks, err = openLockService(h.settings, h.pools, h.traces); err != nil {
		return nil, err
	}
	if err = h.wire(ctx, cfg); err != nil {
		return nil, err
	}
	return h, h.listen(cfg)
}

func (h *house) wire(ctx context.Context, cfg *config.Config) error {
	h.observer, h.observe = h.observers(cfg)
	h.audit = audit.NewWriter(h.pools.single(h.pools.audit), instanceName(), cfg.Audit.KeepRefusals)
	first, err := h.grow(ctx, cfg, nil)
	if err != nil {
		return err
	}
	h.now.Store(first)
	if cfg.Database.ReloadOnNotify {
		h.notified = &notified{settings: h.settings, tables: h.tables, log: h.log}
	}
	if err := h.audit.Keep(); err != nil {
		return err
	}
	return h.watch()
}

func (h *house) listen(cfg *config.Config) (err error) {
	if h.public, err = h.open("tls", cfg.Listen, cfg.TLS, h.traced(h)); err != nil {
		return err
	}
	h.public.server.WriteTimeout = longestAnswer
	h.bounds = newBoundedListener(h.public.Listener.(*net.TCPListener), cfg.Limits.MaxConnections)
	h.public.Listener = h.bounds
	h.probes = admin.New(
		admin.Probe{Name: "database", Ask: h.pools.marks.Ping},
		admin.Probe{Name: "lock service", Ask: h.locks.ask},
	)
	if cfg.Admin != config.AdminOff {
		h.probes.Metrics = h.metrics.Handler(h.log)
		if h.admin, err = h.open("admin_tls", cfg.Admin, cfg.AdminTLS, h.probes); err != nil {
			return err
		}
		h.admin.server.ReadTimeout, h.admin.server.WriteTimeout = headerTimeout, adminTime
		if h.pages, err = h.openDashboard(cfg); err != nil {
			return err
		}
		h.probes.Dashboard, h.probes.MayProfile = h.pages, h.mayProfile
	}
	return nil
}

// open opens a listener that is encrypted as the section of the configuration says.
func (h *house) open(section, address string, files config.TLS, handler http.Handler) (*listener, error) {
	certificates, err := openCertificates(section, files, h.log)
	if err != nil {
		return nil, err
	}
	socket, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", address, err)
	}
	return &listener{Listener: socket, certificates: certificates, server: &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		HTTP2:             http2Bounds(),
		ErrorLog:          slog.NewLogLogger(h.log.Handler(), slog.LevelWarn),
	}}, nil
}

// run serves until asked ends or a part fails, then goes down in order.
func (h *house) run(asked context.Context) error {
	defer h.close()
	writing, stopWriting := context.WithCancel(context.WithoutCancel(asked))
	var writer errgroup.Group
	writer.Go(func() error { return h.audit.Run(writing) })
	writer.Go(func() error { return h.audit.Retain(writing, h.log) })
	writer.Go(func() error { return h.now.Load().gate.ForgetAnswers(writing) })
	if h.locks.run != nil {
		writer.Go(func() error { return h.locks.run(writing) })
	}
	accepting, stopAccepting := context.WithCancel(context.WithoutCancel(asked))
	serving, ctx := errgroup.WithContext(asked)
	for _, l := range h.listeners() {
		serving.Go(l.serve)
	}
	if err := h.locks.ask(ctx); err != nil {
		h.log.Warn("the lock service can't be reached yet: writes and leases are answered with 503 until it can", "error", err)
	}
	if names := h.tables().Snapshot().Observed(); len(names) > 0 {
		h.log.Warn("in observe mode: what would be refused for its lock is applied and recorded", "observed", names)
	}
	h.log.Info("serving", "address", h.public.Addr().String(), "admin", h.adminAddress(), "version", buildVersion())
	h.supervisor.tell(tellReady)
	writer.Go(func() error { return h.supervisor.keepTelling(writing) })
	serving.Go(func() error {
		defer stopAccepting()
		return h.shutDown(ctx, asked)
	})
	serving.Go(func() error { return h.obeyHangUps(ctx) })
	if store, ok := h.locks.store.(lockclient.Watcher); ok {
		serving.Go(func() error { return store.Watch(accepting, h.now.Load().gate.Freed) })
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

func (l *listener) serve() error {
	serve := func() error { return l.server.Serve(l.Listener) }
	if l.certificates != nil {
		l.server.TLSConfig = l.certificates.config()
		serve = func() error { return l.server.ServeTLS(l.Listener, "", "") }
	}
	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// shutDown waits for ctx, then for others to notice that they should go elsewhere,
// lets the requests in flight finish within the grace time and cuts off the rest.
func (h *house) shutDown(ctx, asked context.Context) error {
	<-ctx.Done()
	limits := h.now.Load().config.Limits
	h.supervisor.tell(tellStopping)
	h.probes.Drain()
	if asked.Err() != nil {
		h.linger(limits.DrainDelay)
	}
	h.log.Info("stopping: finishing what is in flight", "grace", limits.ShutdownGrace.String())
	h.now.Load().gate.StopWaiting()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), limits.ShutdownGrace)
	defer cancel()
	for _, l := range h.listeners() {
		if err := l.server.Shutdown(bounded); err != nil {
			h.log.Warn("requests were still in flight after the grace time", "error", err)
			l.server.Close()
		}
	}
	h.sendTraces(bounded)
	return nil
}

// linger serves on, but sends every connection away after its next answer.
func (h *house) linger(delay time.Duration) {
	if delay == 0 {
		return
	}
	h.log.Info("stopping: not ready any more, still accepting", "for", delay.String())
	h.leaving.Store(true)
	<-time.After(delay)
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
	signal.Stop(h.hangUps)
	if g := h.now.Load(); g != nil {
		g.end()
	}
	for _, l := range []*listener{h.public, h.admin} {
		if l != nil {
			l.Close()
		}
	}
	if h.locks != nil {
		h.locks.close()
	}
	h.sendTraces(context.Background()) // where it did not get as far as serving
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
