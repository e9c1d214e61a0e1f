package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fencegate/fencegate/internal/config"
	"github.com/fencegate/fencegate/internal/lockclient"
	"github.com/fencegate/fencegate/internal/lockclient/etcdlock"
	"github.com/fencegate/fencegate/internal/lockclient/pglock"
	"github.com/fencegate/fencegate/internal/telemetry"
)

// lockService is the chosen backend. Only this file and redis.go name backends.
type lockService struct {
	store lockclient.Store
	run   func(context.Context) error // what it does by itself; nil: nothing
	close func()
}

// openLockService opens what leases.backend names. None of its servers need to be
// there yet, but for an etcd to log in at.
func openLockService(s *settings, pools *pools, traces *telemetry.Traces) (*lockService, error) {
	cfg := s.now.Load()
	switch cfg.Leases.Backend {
	case config.BackendPostgres:
		store := pglock.New(pools.single(pools.leases))
		return &lockService{store: store, run: store.Run, close: func() {}}, nil
	case config.BackendRedis:
		return openRedis(s, traces)
	case config.BackendSentinel:
		return openSentinel(s, traces)
	case config.BackendCluster:
		return openCluster(s, traces)
	case config.BackendRedlock:
		return openRedlock(s, traces)
	case config.BackendEtcd:
		return openEtcd(cfg)
	}
	return nil, fmt.Errorf("leases.backend %s has no opener", cfg.Leases.Backend)
}

// ask reads a lease as every write does: a server that is not a master answers a
// ping.
func (l *lockService) ask(ctx context.Context) error {
	_, err := l.store.Read(ctx, "readyz")
	return err
}

func openEtcd(cfg *config.Config) (*lockService, error) {
	encrypted, err := withFiles(strings.HasPrefix(cfg.Etcd.Endpoints[0], "https://"), cfg.Etcd.CAFile, cfg.Etcd.CertFile, cfg.Etcd.KeyFile)
	if err != nil {
		return nil, err
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: cfg.Etcd.Endpoints, TLS: encrypted,
		Username: cfg.Etcd.Username, Password: cfg.Etcd.Password.Reveal(),
		DialTimeout: etcdLogin,
		// A member that answers nothing is given up for another one.
		DialKeepAliveTime: etcdKeepAlive, DialKeepAliveTimeout: cfg.Etcd.Timeout,
		Logger: zap.NewNop(), // what goes wrong comes back as an error
	})
	if err != nil {
		return nil, fmt.Errorf("opening etcd: %w", err)
	}
	store := etcdlock.New(etcdlock.Config{Client: client, Prefix: cfg.Etcd.KeyPrefix, Timeout: cfg.Etcd.Timeout})
	return &lockService{store: store, close: func() { client.Close() }}, nil
}

// etcdLogin is for how long the first login may take: passwords are hashed slowly on
// purpose, and there is no client before it.
const etcdLogin = 10 * time.Second

// etcdKeepAlive is how often an idle connection is tried; etcd drops those who do
// so more often than every 5 s.
const etcdKeepAlive = 6 * time.Second

// withFiles is a TLS configuration with authorities and a certificate, or nil for
// connections without TLS.
func withFiles(encrypted bool, caFile, certFile, keyFile string) (*tls.Config, error) {
	if !encrypted {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	return c, addFiles(c, caFile, certFile, keyFile)
}

// addFiles adds authorities and a certificate to a TLS configuration; nil has
// none, and takes none.
func addFiles(into *tls.Config, caFile, certFile, keyFile string) error {
	if into == nil {
		return nil
	}
	if caFile != "" {
		var err error
		if into.RootCAs, err = authorities(caFile); err != nil {
			return fmt.Errorf("reading ca_file: %w", err)
		}
	}
	if certFile != "" {
		certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return fmt.Errorf("reading cert_file and key_file: %w", err)
		}
		into.Certificates = []tls.Certificate{certificate}
	}
	return nil
}
