package backends_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/lockclient/etcdlock"
	"github.com/fencegate/fencegate/internal/lockclient/locktest"
	"github.com/fencegate/fencegate/internal/lockclient/redislock"
	"github.com/fencegate/fencegate/internal/testenv"
)

func failoverClient(t testing.TB, s *testenv.Sentinels) *redis.Client {
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: s.Name, SentinelAddrs: s.Addresses,
		DialTimeout: callTimeout, ReadTimeout: callTimeout, WriteTimeout: callTimeout,
		ContextTimeoutEnabled: true, MaxRetries: 1,
	})
	t.Cleanup(func() { client.Close() })
	return client
}

func openSentinel(t testing.TB) locktest.Backend {
	s := testenv.OwnSentinels(t)
	client := failoverClient(t, s)
	return locktest.Backend{
		Store:  redislock.New(client, "test:"),
		Freeze: s.FreezeAll,
		Kill:   func(t testing.TB) { kill(t, s.Replica, s.Master) },
		Forget: func(t testing.TB) { must(t, client.ScriptFlush(t.Context()).Err()) },
	}
}

func clusterClient(t testing.TB, c *testenv.RedisCluster) *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: c.Addresses, DialTimeout: callTimeout, ReadTimeout: callTimeout, WriteTimeout: callTimeout,
		ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { client.Close() })
	return client
}

func openCluster(t testing.TB) locktest.Backend {
	c := testenv.OwnRedisCluster(t)
	all := append([]*devstack.Redis{c.Replica}, c.Masters...)
	return locktest.Backend{
		Store:  redislock.NewCluster(clusterClient(t, c), "test:"),
		Freeze: func(t testing.TB) func() { return freeze(t, all...) },
		Kill:   func(t testing.TB) { kill(t, all...) },
		Forget: func(t testing.TB) {
			for _, one := range c.Masters {
				must(t, redisClient(t, one.URL()).ScriptFlush(t.Context()).Err())
			}
		},
		Except: map[locktest.Rule]string{locktest.OneMoment: "those of one hash tag"},
	}
}

func etcdClient(t testing.TB, members []*devstack.Etcd, options ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	var endpoints []string
	for _, m := range members {
		endpoints = append(endpoints, m.Endpoint())
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: callTimeout, DialOptions: options, Logger: zap.NewNop()})
	must(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

func openEtcd(t testing.TB) locktest.Backend {
	members := testenv.OwnEtcd(t)
	client := etcdClient(t, members)
	return locktest.Backend{
		Store:  etcdlock.New(etcdlock.Config{Client: client, Prefix: "test/", Timeout: callTimeout}),
		Freeze: func(t testing.TB) func() { return freeze(t, members...) },
		Kill:   func(t testing.TB) { kill(t, members...) },
	}
}

// list is a YAML list of text.
func list(items []string) (text string) {
	for _, item := range items {
		text += fmt.Sprintf("%q, ", item)
	}
	return "[" + text + "]"
}
