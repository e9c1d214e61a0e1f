package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/config"
	"github.com/fencegate/fencegate/internal/lockclient"
	"github.com/fencegate/fencegate/internal/lockclient/pglock"
	"github.com/fencegate/fencegate/internal/lockclient/redislock"
)

// lockService is the chosen backend. No other file names one.
type lockService struct {
	store lockclient.Store
	run   func(context.Context) error // what it does by itself; nil: nothing
	close func()
}

// openLockService opens what leases.backend names. None of its servers need to be
// there yet.
func openLockService(cfg *config.Config, pools *pools) (*lockService, error) {
	switch cfg.Leases.Backend {
	case config.BackendPostgres:
		store := pglock.New(pools.single(pools.leases))
		return &lockService{store: store, run: store.Run, close: func() {}}, nil
	case config.BackendRedis:
		return openRedis(cfg)
	}
	return nil, fmt.Errorf("leases.backend %s is not known here", cfg.Leases.Backend)
}

// ask reads a lease as every write does: a server that is not a master answers a
// ping.
func (l *lockService) ask(ctx context.Context) error {
	_, err := l.store.Read(ctx, "readyz")
	return err
}

func openRedis(cfg *config.Config) (*lockService, error) {
	client, err := redisClient(cfg, cfg.Redis.URL)
	if err != nil {
		return nil, err
	}
	return &lockService{store: redislock.New(client, cfg.Redis.KeyPrefix), close: func() { client.Close() }}, nil
}

// redisClient is a client of one server. It dials when it is first used.
func redisClient(cfg *config.Config, address config.Secret) (*redis.Client, error) {
	o, err := redis.ParseURL(address.Reveal())
	if err != nil {
		return nil, fmt.Errorf("reading the Redis address: %w", err)
	}
	if o.Password == "" {
		o.Username, o.Password = cfg.Redis.Username, cfg.Redis.Password.Reveal()
	}
	if err := addFiles(o.TLSConfig, cfg.Redis.CAFile, cfg.Redis.CertFile, cfg.Redis.KeyFile); err != nil {
		return nil, err
	}
	timeout := cfg.Redis.Timeout
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeout, timeout, timeout, timeout
	o.PoolSize = redisConnections(cfg)
	o.PipelinePoolSize = o.PoolSize
	o.ContextTimeoutEnabled = true
	o.MaxRetries = redisRetries
	o.DisableIdentity = true
	client := redis.NewClient(o)
	client.AddHook(deadline(timeout))
	return client, nil
}

// redisRetries: every command here may be sent twice.
const redisRetries = 1

// redisConnections: each request has one call in flight, and waiting for a
// connection would look like a lock service that is down. They are opened as
// needed.
func redisConnections(cfg *config.Config) int {
	return cfg.Limits.MaxInFlight * 3 / 2 // reads have slots of their own
}

// addFiles adds authorities and a certificate to a TLS configuration; nil has
// none, and takes none.
func addFiles(into *tls.Config, caFile, certFile, keyFile string) error {
	if into == nil {
		return nil
	}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return fmt.Errorf("reading the lock service's authorities: %w", err)
		}
		into.RootCAs = x509.NewCertPool()
		if !into.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("reading the lock service's authorities: %s holds no certificate in PEM", caFile)
		}
	}
	if certFile != "" {
		certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return fmt.Errorf("reading the certificate for the lock service: %w", err)
		}
		into.Certificates = []tls.Certificate{certificate}
	}
	return nil
}

// deadline bounds a call to Redis as a whole: dialling, greeting and its second
// try each have the timeout for themselves.
type deadline time.Duration

func (d deadline) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d deadline) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(d))
		defer cancel()
		return next(ctx, cmd)
	}
}

func (d deadline) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(d))
		defer cancel()
		return next(ctx, cmds)
	}
}
