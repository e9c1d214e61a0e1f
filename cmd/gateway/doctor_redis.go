package main

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/config"
	"github.com/fencegate/fencegate/internal/doctor"
)

// redisServers are the servers that keep leases, as far as the configuration names
// them: the master that a Sentinel names is one, a cluster's masters are told as one.
func redisServers(cfg *config.Config) (servers []doctor.Server, closeAll func(), err error) {
	var clients []redis.UniversalClient
	closeAll = func() {
		for _, c := range clients {
			c.Close()
		}
	}
	add := func(name string, client redis.UniversalClient) {
		clients = append(clients, client)
		servers = append(servers, doctor.Server{Name: name, Info: func(ctx context.Context) (string, error) { return client.Info(ctx).Result() }})
	}
	switch cfg.Leases.Backend {
	case config.BackendRedis, config.BackendRedlock:
		for n := range redisAddresses(cfg) {
			client, err := redisClient(settingsOf(cfg), n)
			if err != nil {
				closeAll()
				return nil, nil, err
			}
			add(client.Options().Addr, client)
		}
	case config.BackendSentinel:
		client, err := sentinelClient(settingsOf(cfg))
		if err != nil {
			return nil, nil, err
		}
		add(cfg.Redis.Sentinel.Master, client)
	case config.BackendCluster:
		client, err := clusterClient(settingsOf(cfg))
		if err != nil {
			return nil, nil, err
		}
		clients = append(clients, client)
		servers, err = clusterMasters(client, cfg)
		if err != nil {
			servers = []doctor.Server{{Name: strings.Join(cfg.Redis.Cluster.Addresses, ", "),
				Info: func(context.Context) (string, error) { return "", err }}}
		}
	}
	return servers, closeAll, nil
}

// clusterMasters asks the cluster who its masters are. Their clients go with the
// cluster's.
func clusterMasters(client *redis.ClusterClient, cfg *config.Config) ([]doctor.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), cfg.Redis.Timeout)
	defer cancel()
	var mu sync.Mutex
	var servers []doctor.Server
	err := client.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		servers = append(servers, doctor.Server{Name: master.Options().Addr,
			Info: func(ctx context.Context) (string, error) { return master.Info(ctx).Result() }})
		return nil
	})
	if err == nil && len(servers) == 0 {
		err = errors.New("the cluster names no master")
	}
	return servers, err
}
