package backends_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
)

func onRedis(url string) string { return fmt.Sprintf("redis: {url: %q}\n", url) }

func onSentinel(s *testenv.Sentinels) string {
	return fmt.Sprintf("redis: {sentinel: {master: %s, addresses: %s}}\nleases: {backend: redis_sentinel}\n", s.Name, list(s.Addresses))
}

func onCluster(c *testenv.RedisCluster) string {
	return fmt.Sprintf("redis: {cluster: {addresses: %s}}\nleases: {backend: redis_cluster}\n", list(c.Addresses))
}

func onRedlock(nodes []*devstack.Redis) string {
	var urls []string
	for _, node := range nodes {
		urls = append(urls, node.URL())
	}
	return fmt.Sprintf("redis: {redlock: {urls: %s}}\nleases: {backend: redlock}\n", list(urls))
}

func onEtcd(members []*devstack.Etcd) string {
	var endpoints []string
	for _, m := range members {
		endpoints = append(endpoints, m.Endpoint())
	}
	return fmt.Sprintf("etcd: {endpoints: %s}\nleases: {backend: etcd}\n", list(endpoints))
}

func flush(t testing.TB, servers ...*devstack.Redis) {
	t.Helper()
	for _, s := range servers {
		must(t, redisClient(t, s.URL()).FlushAll(t.Context()).Err())
	}
}

// A backup of yesterday, restored, names holders of yesterday.
func TestOneRedisFromAnOldSnapshot(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	start := func(t testing.TB) *devstack.Redis {
		s, err := devstack.StartRedis(context.WithoutCancel(t.Context()), devstack.RedisConfig{Args: []string{"--dir", data}})
		must(t, err)
		t.Cleanup(func() { s.Stop() })
		return s
	}
	must(t, os.Chmod(data, 0o777)) // the server may run as another user
	must(t, os.Chmod(filepath.Dir(data), 0o711))
	server := start(t)
	wire := testenv.NewWire(t, server.URL())
	p := build(t, onRedis(wire.URL()))
	ghostOf(t, p, func(t testing.TB) {
		must(t, redisClient(t, server.URL()).Save(t.Context()).Err())
	}, func(t testing.TB) {
		must(t, server.Kill())
		wire.Down()
		wire.Lead(t, start(t).URL())
		wire.Mend(t)
	})
}

// A replica that had fallen behind becomes the master.
func TestAStaleReplicaThatIsPromoted(t *testing.T) {
	t.Parallel()
	ports, err := devstack.FreePorts(1)
	must(t, err)
	master, err := devstack.StartRedis(t.Context(), devstack.RedisConfig{Port: ports[0], Args: []string{"--repl-diskless-sync-delay", "0"}})
	must(t, err)
	t.Cleanup(func() { master.Stop() })
	replica := testenv.OwnRedis(t)
	wire := testenv.NewWire(t, fmt.Sprintf("redis://127.0.0.1:%d/0", ports[0]))
	p := build(t, onRedis(wire.URL()))
	behind := redisClient(t, replica.URL())
	ghostOf(t, p, func(t testing.TB) {
		must(t, behind.SlaveOf(t.Context(), "127.0.0.1", strconv.Itoa(ports[0])).Err())
		awaitKeys(t, behind, 1)
		must(t, behind.SlaveOf(t.Context(), "127.0.0.1", "1").Err()) // it hears nothing more
	}, func(t testing.TB) {
		must(t, behind.SlaveOf(t.Context(), "NO", "ONE").Err())
		must(t, master.Kill())
		wire.Down()
		wire.Lead(t, replica.URL())
		wire.Mend(t)
	})
}

// awaitKeys returns once the server has n keys.
func awaitKeys(t testing.TB, c *redis.Client, n int64) {
	t.Helper()
	for began := time.Now(); ; {
		size, err := c.DBSize(t.Context()).Result()
		if err == nil && size == n {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("%d keys: %v", size, err)
		}
	}
}

// A master that was frozen, was replaced meanwhile and wakes up still calls itself
// one: nothing may be read or taken there that holds.
func TestAMasterThatWasFrozenAndReplaced(t *testing.T) {
	t.Parallel()
	s := testenv.OwnSentinels(t)
	p := build(t, onSentinel(s))
	sku, key := p.item(t)
	old := p.acquire(t, key, 300000)
	wantStatus(t, p.set(t, old, sku, 1), 204)
	must(t, s.Master.Pause())
	p.set(t, old, sku, 2)
	replica := redisClient(t, s.Replica.URL())
	must(t, replica.Del(t.Context(), "fencegate:lease:"+key).Err()) // as if it had never got there
	must(t, s.Master.Resume())
	wantOvertaken(t, p, sku, old, 300000)
}

// failOver makes the replica a master, and its master a replica.
func failOver(t testing.TB, c *testenv.RedisCluster) {
	t.Helper()
	replica := redisClient(t, c.Replica.URL())
	must(t, replica.ClusterFailover(t.Context()).Err())
	awaitRole(t, replica, "master")
}

func awaitRole(t testing.TB, c *redis.Client, want string) {
	t.Helper()
	for began := time.Now(); ; {
		role, err := c.Do(t.Context(), "ROLE").Slice()
		if err == nil && role[0] == want {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("it is %v, want %s: %v", role, want, err)
		}
	}
}

// awaitReplica returns the one that is a replica, once there is one: on a busy machine
// the Sentinels may have changed their minds.
func awaitReplica(t testing.TB, servers ...*redis.Client) *redis.Client {
	t.Helper()
	for began := time.Now(); time.Since(began) < patience; {
		for _, c := range servers {
			if role, err := c.Do(t.Context(), "ROLE").Slice(); err == nil && role[0] == "slave" {
				return c
			}
		}
	}
	t.Fatal("there is no replica")
	return nil
}
