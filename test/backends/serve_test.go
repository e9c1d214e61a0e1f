package backends_test

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencegate/fencegate/internal/lockclient"
	"github.com/fencegate/fencegate/internal/lockclient/etcdlock"
	"github.com/fencegate/fencegate/internal/lockclient/pglock"
	"github.com/fencegate/fencegate/internal/lockclient/redislock"
	"github.com/fencegate/fencegate/internal/testenv"
)

func serveRedis(t testing.TB) *service {
	server := testenv.OwnRedis(t)
	client := redisClient(t, server.URL())
	s := &service{yaml: onRedis(server.URL()), store: redislock.New(client, redisPrefix)}
	s.lose = func(t testing.TB) { flush(t, server) }
	s.demote = func(t testing.TB) lockclient.Store {
		must(t, client.SlaveOf(t.Context(), "127.0.0.1", "1").Err())
		return s.store
	}
	return s
}

func serveSentinel(t testing.TB) *service {
	servers := testenv.OwnSentinels(t)
	s := &service{yaml: onSentinel(servers), store: redislock.New(failoverClient(t, servers), redisPrefix)}
	s.lose = func(t testing.TB) { flush(t, servers.Master) }
	s.strike = func(t testing.TB) {
		// The lease is on the replica before its master goes.
		awaitKeys(t, redisClient(t, servers.Replica.URL()), redisClient(t, servers.Master.URL()).DBSize(t.Context()).Val())
		must(t, servers.Master.Kill())
	}
	s.demote = func(t testing.TB) lockclient.Store {
		must(t, servers.Master.Restart(t.Context())) // it comes back as what it was
		old := awaitReplica(t, redisClient(t, servers.Master.URL()), redisClient(t, servers.Replica.URL()))
		return redislock.New(old, redisPrefix)
	}
	return s
}

func serveCluster(t testing.TB) *service {
	servers := testenv.OwnRedisCluster(t)
	s := &service{yaml: onCluster(servers), store: redislock.NewCluster(clusterClient(t, servers), redisPrefix)}
	s.lose = func(t testing.TB) { flush(t, servers.Masters...) }
	s.strike = func(t testing.TB) { failOver(t, servers) }
	s.demote = func(t testing.TB) lockclient.Store {
		old := redisClient(t, servers.Masters[0].URL())
		awaitRole(t, old, "slave")
		return redislock.New(old, redisPrefix)
	}
	return s
}

func serveRedlock(t testing.TB) *service {
	nodes := five(t)
	s := &service{yaml: onRedlock(nodes), store: redlockStore(t, nodes, redisPrefix)}
	s.lose = func(t testing.TB) { flush(t, nodes[:3]...) } // two votes are left of five
	s.strike = func(t testing.TB) { flush(t, nodes[4]); must(t, nodes[1].Kill()) }
	s.demote = func(t testing.TB) lockclient.Store {
		for _, node := range nodes[2:4] {
			must(t, redisClient(t, node.URL()).SlaveOf(t.Context(), "127.0.0.1", "1").Err())
		}
		return s.store
	}
	return s
}

func servePostgres(t testing.TB) *service {
	db := testenv.Shop(t)
	return &service{yaml: onPostgres, db: db, store: pglock.New(db.Pool(t)),
		lose: func(t testing.TB) { db.Exec(t, `TRUNCATE fencegate.leases`) }}
}

func serveEtcd(t testing.TB) *service {
	members := testenv.OwnEtcd(t)
	client := etcdClient(t, members)
	s := &service{yaml: onEtcd(members), store: etcdlock.New(etcdlock.Config{Client: client, Prefix: etcdPrefix, Timeout: callTimeout})}
	s.lose = func(t testing.TB) {
		_, err := client.Delete(t.Context(), etcdPrefix, clientv3.WithPrefix())
		must(t, err)
	}
	s.strike = func(t testing.TB) { must(t, members[0].Kill()) }
	s.demote = func(t testing.TB) lockclient.Store {
		must(t, members[1].Kill())
		return s.store
	}
	return s
}
