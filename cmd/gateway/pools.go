package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/config"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/pooled"
	"github.com/fencegate/fencegate/internal/telemetry"
	migrations "github.com/fencegate/fencegate/sql"
)

// pools keeps kinds of work apart, so that none can starve another: a crowd of
// readers must not cost a holder its renewal, nor a refusal its record.
type pools struct {
	pooled *pooled.Settings // nil: connections keep their session
	writes *pgxpool.Pool
	reads  *pgxpool.Pool
	marks  *pgxpool.Pool // what asks the marks, and never waits: renewals, checks
	moves  *pgxpool.Pool // what moves them, and waits for writes in flight: grants, releases
	audit  *pgxpool.Pool
	leases *pgxpool.Pool // nil: the lock service is not this database

	lost atomic.Int64 // when a connection was last found dead, Unix ms
}

// Connections for what is always short.
const (
	marksPoolSize  = 8
	movesPoolSize  = 8
	auditPoolSize  = 2
	leasesPoolSize = 8
)

// statementCache bounds the statements that a connection for writes keeps
// prepared: their shape is the caller's, and each costs the server memory.
const statementCache = 128

// unprepared leaves nothing in the session.
const unprepared = pgx.QueryExecModeExec

// openPools checks the schema on a connection of its own first: the pools'
// connections need it.
func openPools(ctx context.Context, s *settings, traces *telemetry.Traces) (_ *pools, err error) {
	cfg := s.now.Load()
	if err := checkSchema(ctx, cfg); err != nil {
		return nil, err
	}
	p := &pools{pooled: pooledSettings(cfg)}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	for _, one := range []struct {
		pool **pgxpool.Pool
		size int
	}{
		{&p.writes, cfg.Database.PoolSize},
		{&p.reads, cfg.Database.ReadPoolSize},
		{&p.marks, marksPoolSize},
		{&p.moves, movesPoolSize},
		{&p.audit, auditPoolSize},
		{&p.leases, leasesPoolSize},
	} {
		if one.pool == &p.leases && cfg.Leases.Backend != config.BackendPostgres {
			continue
		}
		c, err := connections(cfg)
		if err != nil {
			return nil, err
		}
		c.MaxConns = int32(one.size)
		c.BeforeConnect, c.BeforeClose = s.beforeConnect, p.beforeClose
		tracedPool(c, traces)
		if one.pool == &p.reads {
			c.ConnConfig.DefaultQueryExecMode = unprepared // anybody can think up queries without end
		}
		if *one.pool, err = pgxpool.NewWithConfig(ctx, c); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// connections is what all connections have in common.
func connections(cfg *config.Config) (*pgxpool.Config, error) {
	c, err := pgxpool.ParseConfig(cfg.Database.URL.Reveal())
	if err != nil {
		return nil, fmt.Errorf("reading the database address: %w", err)
	}
	c.AfterConnect = fence.MeetDatabase // reads too: a standby may lag behind a grant
	c.PingTimeout = cfg.Database.ConnectTimeout
	c.ConnConfig.ConnectTimeout = cfg.Database.ConnectTimeout
	c.ConnConfig.StatementCacheCapacity = statementCache
	maps.Copy(c.ConnConfig.RuntimeParams, map[string]string{"application_name": "fencegate", "client_encoding": "UTF8"})
	if pooledSettings(cfg) != nil {
		c.ConnConfig.DefaultQueryExecMode = unprepared
		return c, nil
	}
	maps.Copy(c.ConnConfig.RuntimeParams, map[string]string{
		"extra_float_digits":                  "3", // less loses digits of what is read
		"default_transaction_isolation":       "read committed",
		"statement_timeout":                   milliseconds(cfg.Database.StatementTimeout),
		"lock_timeout":                        milliseconds(cfg.Database.LockTimeout),
		"idle_in_transaction_session_timeout": milliseconds(cfg.Limits.RequestTimeout),
	})
	return c, nil
}

// beforeConnect takes over what may have changed since the pool was opened: the
// password, and how long a transaction may be idle.
func (s *settings) beforeConnect(_ context.Context, into *pgx.ConnConfig) error {
	c, err := connections(s.now.Load())
	if err == nil {
		into.Password, into.RuntimeParams = c.ConnConfig.Password, c.ConnConfig.RuntimeParams
	}
	return err
}

// pooledSettings is what transactions set for themselves where connections don't
// keep their session: nil where they do. A transaction is one message and never
// idle, and its isolation is the role's, which the fence looks at.
func pooledSettings(cfg *config.Config) *pooled.Settings {
	if cfg.Database.Pooler != config.PoolerTransaction {
		return nil
	}
	return &pooled.Settings{LockTimeout: cfg.Database.LockTimeout, StatementTimeout: cfg.Database.StatementTimeout}
}

// single runs single statements on connections of pool.
func (p *pools) single(pool *pgxpool.Pool) pooled.Querier {
	if p.pooled == nil {
		return pool
	}
	return &pooled.Pool{Conns: pool, Settings: *p.pooled}
}

func checkSchema(ctx context.Context, cfg *config.Config) error {
	c, err := connections(cfg)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, c.ConnConfig)
	if err != nil {
		return fmt.Errorf("connecting to the database: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := checkSession(ctx, conn, cfg); err != nil {
		return err
	}
	return migrations.Check(ctx, conn)
}

// checkSession finds a pooler that has been told to ignore what it can't keep:
// without the timeouts nothing would end a write that waits.
func checkSession(ctx context.Context, conn *pgx.Conn, cfg *config.Config) error {
	if pooledSettings(cfg) != nil {
		return nil
	}
	var timeout int64
	err := conn.QueryRow(ctx, `SELECT setting::bigint FROM pg_settings WHERE name = 'lock_timeout'`).Scan(&timeout)
	if err != nil {
		return fmt.Errorf("reading the session's settings: %w", err)
	}
	if timeout != cfg.Database.LockTimeout.Milliseconds() {
		return fmt.Errorf("the session's lock_timeout is %d ms and not what it was started with: is this a pooler? Set database.pooler", timeout)
	}
	return nil
}

// beforeClose sees every connection on its way out. One that died in use means
// that its neighbours probably have too, in all pools: they are replaced now,
// instead of each costing another request its answer.
func (p *pools) beforeClose(conn *pgx.Conn) {
	now := time.Now().UnixMilli()
	last := p.lost.Load()
	if !conn.IsClosed() || now-last < resetPause.Milliseconds() || !p.lost.CompareAndSwap(last, now) {
		return
	}
	go p.reset()
}

// reset replaces every connection, those in use when they are given back.
func (p *pools) reset() {
	for _, pool := range p.all() {
		pool.Reset()
	}
}

// resetPause keeps a flapping network from emptying the pools over and over.
const resetPause = time.Second

func (p *pools) all() []*pgxpool.Pool {
	open := []*pgxpool.Pool{p.writes, p.reads, p.marks, p.moves, p.audit, p.leases}
	return slices.DeleteFunc(open, func(pool *pgxpool.Pool) bool { return pool == nil })
}

func (p *pools) close() {
	for _, pool := range p.all() {
		pool.Close()
	}
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }
