package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/config"
	"github.com/fencegate/fencegate/internal/lockclient/redislock"
	"github.com/fencegate/fencegate/internal/lockclient/redlock"
	"github.com/fencegate/fencegate/internal/telemetry"
)

// redisRetries: every command here may be sent twice.
const redisRetries = 1

// redisConnections: each request has one call in flight, and waiting for a
// connection would look like a lock service that is down. They are opened as
// needed.
func redisConnections(cfg *config.Config) int {
	return cfg.Limits.MaxInFlight * 3 / 2 // reads have slots of their own
}

func openRedis(s *settings, traces *telemetry.Traces) (*lockService, error) {
	cfg := s.now.Load()
	client, err := redisClient(s, 0)
	if err != nil {
		return nil, err
	}
	tracedRedis(client, client.Options().Addr, traces)
	return &lockService{store: redislock.New(client, cfg.Redis.KeyPrefix), close: func() { client.Close() }}, nil
}

// redisAddresses are the servers under BackendRedis and BackendRedlock.
func redisAddresses(cfg *config.Config) []config.Secret {
	if cfg.Leases.Backend == config.BackendRedlock {
		return cfg.Redis.Redlock.URLs
	}
	return []config.Secret{cfg.Redis.URL}
}

// redisClient is a client of the n-th server. It dials when it is first used.
func redisClient(s *settings, n int) (*redis.Client, error) {
	cfg := s.now.Load()
	o, err := redis.ParseURL(redisAddresses(cfg)[n].Reveal())
	if err != nil {
		return nil, fmt.Errorf("reading the Redis address: %w", err)
	}
	o.CredentialsProvider = func() (username, password string) { return s.redisLogin(n) }
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

// redisLogin is how to log in at the n-th server now.
func (s *settings) redisLogin(n int) (username, password string) {
	cfg := s.now.Load()
	if o, err := redis.ParseURL(redisAddresses(cfg)[n].Reveal()); err == nil && o.Password != "" {
		return o.Username, o.Password
	}
	return s.sharedLogin()
}

// sharedLogin is how to log in now at servers that no URL names.
func (s *settings) sharedLogin() (username, password string) {
	r := &s.now.Load().Redis
	return r.Username, r.Password.Reveal()
}

func openRedlock(s *settings, traces *telemetry.Traces) (*lockService, error) {
	cfg := s.now.Load()
	nodes := redlock.Config{NodeTimeout: cfg.Redis.Timeout}
	var clients []*redis.Client
	closeAll := func() {
		for _, c := range clients {
			c.Close()
		}
	}
	for n := range redisAddresses(cfg) {
		client, err := redisClient(s, n)
		if err != nil {
			closeAll()
			return nil, err
		}
		tracedRedis(client, client.Options().Addr, traces)
		clients = append(clients, client)
		nodes.Nodes = append(nodes.Nodes, redislock.New(client, cfg.Redis.KeyPrefix))
	}
	store, err := redlock.New(nodes)
	if err != nil {
		closeAll()
		return nil, err
	}
	return &lockService{store: store, close: closeAll}, nil
}

func openSentinel(s *settings, traces *telemetry.Traces) (*lockService, error) {
	cfg := s.now.Load()
	client, err := sentinelClient(s)
	if err != nil {
		return nil, err
	}
	tracedRedis(client, "", traces)
	return &lockService{store: redislock.New(client, cfg.Redis.KeyPrefix), close: func() { client.Close() }}, nil
}

// sentinelClient is a client of whichever server is the master.
func sentinelClient(s *settings) (*redis.Client, error) {
	cfg := s.now.Load()
	encrypted, err := withFiles(cfg.Redis.TLS, cfg.Redis.CAFile, cfg.Redis.CertFile, cfg.Redis.KeyFile)
	if err != nil {
		return nil, err
	}
	sentinel, timeout := cfg.Redis.Sentinel, cfg.Redis.Timeout
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: sentinel.Master, SentinelAddrs: sentinel.Addresses,
		SentinelUsername: sentinel.Username, SentinelPassword: sentinel.Password.Reveal(),
		CredentialsProvider: s.sharedLogin, TLSConfig: encrypted,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
		PoolSize: redisConnections(cfg), PipelinePoolSize: redisConnections(cfg),
		ContextTimeoutEnabled: true, MaxRetries: redisRetries, DisableIdentity: true,
	})
	client.AddHook(deadline(timeout))
	return client, nil
}

func openCluster(s *settings, traces *telemetry.Traces) (*lockService, error) {
	cfg := s.now.Load()
	client, err := clusterClient(s)
	if err != nil {
		return nil, err
	}
	tracedRedis(client, "", traces)
	return &lockService{store: redislock.NewCluster(client, cfg.Redis.KeyPrefix), close: func() { client.Close() }}, nil
}

func clusterClient(s *settings) (*redis.ClusterClient, error) {
	cfg := s.now.Load()
	encrypted, err := withFiles(cfg.Redis.TLS, cfg.Redis.CAFile, cfg.Redis.CertFile, cfg.Redis.KeyFile)
	if err != nil {
		return nil, err
	}
	timeout := cfg.Redis.Timeout
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:               cfg.Redis.Cluster.Addresses,
		CredentialsProvider: s.sharedLogin, TLSConfig: encrypted,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
		PoolSize: redisConnections(cfg), PipelinePoolSize: redisConnections(cfg),
		ContextTimeoutEnabled: true, DisableIdentity: true,
	})
	client.AddHook(deadline(timeout))
	return client, nil
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
