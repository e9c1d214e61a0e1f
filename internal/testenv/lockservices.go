package testenv

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/devstack"
)

// stopper is a server of devstack.
type stopper interface{ Stop() error }

// stopAtEnd stops servers at the test's end, all at once: an orderly end may take
// a while.
func stopAtEnd[S stopper](t testing.TB, servers ...S) {
	t.Cleanup(func() {
		var all sync.WaitGroup
		for _, s := range servers {
			all.Go(func() {
				if err := s.Stop(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}

func freePorts(t testing.TB, n int) []int {
	t.Helper()
	ports, err := devstack.FreePorts(n)
	if err != nil {
		t.Fatal(err)
	}
	return ports
}

func ownRedis(t testing.TB, port int, args ...string) *devstack.Redis {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	server, err := devstack.StartRedis(ctx, devstack.RedisConfig{Port: port, Args: args})
	if err != nil {
		t.Fatal(err)
	}
	stopAtEnd(t, server)
	return server
}

// OwnEtcd starts an etcd of three members for this test alone, and stops it at the
// test's end.
func OwnEtcd(t testing.TB) []*devstack.Etcd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	members, err := devstack.StartEtcd(ctx, 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	stopAtEnd(t, members...)
	return members
}

// Sentinels is a Redis with one replica, and the Sentinels that watch it.
type Sentinels struct {
	Master, Replica *devstack.Redis // as they began
	Name            string
	Addresses       []string
	sentinels       []*devstack.Sentinel
}

// Silence is for how long a master of OwnSentinels answers nothing before another
// one takes its place.
const Silence = time.Second

// OwnSentinels starts a Redis with a replica and three Sentinels for this test
// alone, and stops them at its end. The replica is in sync, and known to all.
func OwnSentinels(t testing.TB) *Sentinels {
	t.Helper()
	ports := freePorts(t, 5)
	s := &Sentinels{Name: "mymaster", Master: ownRedis(t, ports[0], "--repl-diskless-sync-delay", "0")}
	s.Replica = ownRedis(t, ports[1], "--replicaof", "127.0.0.1 "+strconv.Itoa(ports[0]))
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	for _, port := range ports[2:] {
		one, err := devstack.StartSentinel(ctx, devstack.SentinelConfig{
			Port: port, Master: s.Name, MasterPort: ports[0], Quorum: 2, DownAfter: Silence,
		})
		if err != nil {
			t.Fatal(err)
		}
		stopAtEnd(t, one)
		s.sentinels = append(s.sentinels, one)
		s.Addresses = append(s.Addresses, one.Address())
	}
	for _, address := range s.Addresses {
		s.awaitKnown(ctx, t, address)
	}
	return s
}

// awaitKnown returns once the Sentinel at address knows the replica and the others.
func (s *Sentinels) awaitKnown(ctx context.Context, t testing.TB, address string) {
	t.Helper()
	c := redis.NewSentinelClient(&redis.Options{Addr: address})
	defer c.Close()
	for {
		state, err := c.Master(ctx, s.Name).Result()
		if err == nil && state["num-slaves"] == "1" && state["num-other-sentinels"] == "2" && s.inSync(ctx, t) {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("the Sentinel at %s knows %v: %v", address, state, err)
		}
	}
}

func (s *Sentinels) inSync(ctx context.Context, t testing.TB) bool {
	t.Helper()
	options, err := redis.ParseURL(s.Replica.URL())
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(options)
	defer c.Close()
	return strings.Contains(c.Info(ctx, "replication").Val(), "master_link_status:up")
}

// FreezeAll makes all servers answer nothing, and the Sentinels too.
func (s *Sentinels) FreezeAll(t testing.TB) (thaw func()) {
	t.Helper()
	all := []*devstack.Server{s.Master.Server, s.Replica.Server}
	for _, one := range s.sentinels {
		all = append([]*devstack.Server{one.Server}, all...) // first: they would act
	}
	for _, server := range all {
		if err := server.Pause(); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		for i := range all { // last, or they would act on the silence
			if err := all[len(all)-1-i].Resume(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// RedisCluster is a Redis Cluster: three masters, and a replica of the first.
type RedisCluster struct {
	Masters   []*devstack.Redis
	Replica   *devstack.Redis
	Addresses []string
}

const slots = 16384

// OwnRedisCluster starts a Redis Cluster for this test alone, and stops it at the
// test's end.
func OwnRedisCluster(t testing.TB) *RedisCluster {
	t.Helper()
	const masters = 3
	ports := freePorts(t, 2*(masters+1))
	c := &RedisCluster{}
	var nodes []*redis.Client
	for i, port := range ports[:masters+1] {
		server := ownRedis(t, port, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(ports[masters+1+i]),
			"--cluster-node-timeout", "10000", "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0")
		address := fmt.Sprint("127.0.0.1:", port)
		node := redis.NewClient(&redis.Options{Addr: address})
		t.Cleanup(func() { node.Close() })
		nodes = append(nodes, node)
		if i == masters {
			c.Replica = server
			break
		}
		c.Masters, c.Addresses = append(c.Masters, server), append(c.Addresses, address)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	for i, node := range nodes[:masters] {
		do(ctx, t, node, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		do(ctx, t, node, "CLUSTER", "ADDSLOTSRANGE", slots*i/masters, slots*(i+1)/masters-1)
	}
	for i := 1; i <= masters; i++ {
		do(ctx, t, nodes[0], "CLUSTER", "MEET", "127.0.0.1", ports[i], ports[masters+1+i])
	}
	id := nodes[0].Do(ctx, "CLUSTER", "MYID").Val()
	await(ctx, t, "the replica joins", func() bool {
		return nodes[masters].Do(ctx, "CLUSTER", "REPLICATE", id).Err() == nil
	})
	for _, node := range nodes {
		await(ctx, t, "the cluster is whole", func() bool {
			return strings.Contains(node.ClusterInfo(ctx).Val(), "cluster_state:ok") &&
				strings.Count(node.ClusterNodes(ctx).Val(), "\n") == masters+1 &&
				strings.Count(node.ClusterNodes(ctx).Val(), " connected") == masters+1
		})
	}
	await(ctx, t, "the replica is in sync", func() bool {
		return strings.Contains(nodes[masters].Info(ctx, "replication").Val(), "master_link_status:up")
	})
	return c
}

func do(ctx context.Context, t testing.TB, c *redis.Client, args ...any) {
	t.Helper()
	if err := c.Do(ctx, args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

// await asks until it is so.
func await(ctx context.Context, t testing.TB, what string, so func() bool) {
	t.Helper()
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for !so() {
		select {
		case <-ctx.Done():
			t.Fatalf("waiting until %s: %v", what, context.Cause(ctx))
		case <-pace.C:
		}
	}
}
