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

func openRedis(cfg *config.Config, traces *telemetry.Traces) (*lockService, error) {
	client, err := redisClient(cfg, cfg.Redis.URL)
	if err != nil {
		return nil, err
	}
	tracedRedis(client, client.Options().Addr, traces)
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

func openRedlock(cfg *config.Config, traces *telemetry.Traces) (*lockService, error) {
	nodes := redlock.Config{NodeTimeout: cfg.Redis.Timeout}
	var clients []*redis.Client
	closeAll := func() {
		for _, c := range clients {
			c.Close()
		}
	}
	for _, url := range cfg.Redis.Redlock.URLs {
		client, err := redisClient(cfg, url)
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

func openSentinel(cfg *config.Config, traces *telemetry.Traces) (*lockService, error) {
	client, err := sentinelClient(cfg)
	if err != nil {
		return nil, err
	}
	tracedRedis(client, "", traces)
	return &lockService{store: redislock.New(client, cfg.Redis.KeyPrefix), close: func() { client.Close() }}, nil
}

// sentinelClient is a client of whichever server is the master.
func sentinelClient(cfg *config.Config) (*redis.Client, error) {
	encrypted, err := withFiles(cfg.Redis.TLS, cfg.Redis.CAFile, cfg.Redis.CertFile, cfg.Redis.KeyFile)
	if err != nil {
		return nil, err
	}
	sentinel, timeout := cfg.Redis.Sentinel, cfg.Redis.Timeout
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: sentinel.Master, SentinelAddrs: sentinel.Addresses,
		SentinelUsername: sentinel.Username, SentinelPassword: sentinel.Password.Reveal(),
		Username: cfg.Redis.Username, Password: cfg.Redis.Password.Reveal(), TLSConfig: encrypted,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
		PoolSize: redisConnections(cfg), PipelinePoolSize: redisConnections(cfg),
		ContextTimeoutEnabled: true, MaxRetries: redisRetries, DisableIdentity: true,
	})
	client.AddHook(deadline(timeout))
	return client, nil
}

func openCluster(cfg *config.Config, traces *telemetry.Traces) (*lockService, error) {
	client, err := clusterClient(cfg)
	if err != nil {
		return nil, err
	}
	tracedRedis(client, "", traces)
	return &lockService{store: redislock.NewCluster(client, cfg.Redis.KeyPrefix), close: func() { client.Close() }}, nil
}

func clusterClient(cfg *config.Config) (*redis.ClusterClient, error) {
	encrypted, err := withFiles(cfg.Redis.TLS, cfg.Redis.CAFile, cfg.Redis.CertFile, cfg.Redis.KeyFile)
	if err != nil {
		return nil, err
	}
	timeout := cfg.Redis.Timeout
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:    cfg.Redis.Cluster.Addresses,
		Username: cfg.Redis.Username, Password: cfg.Redis.Password.Reveal(), TLSConfig: encrypted,
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
