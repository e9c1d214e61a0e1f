package backends_test

import (
	"testing"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/lockclient"
	"github.com/fencegate/fencegate/internal/lockclient/locktest"
	"github.com/fencegate/fencegate/internal/lockclient/redislock"
	"github.com/fencegate/fencegate/internal/lockclient/redlock"
	"github.com/fencegate/fencegate/internal/testenv"
)

// five are the nodes of a Redlock.
func five(t testing.TB) []*devstack.Redis {
	var nodes []*devstack.Redis
	for range 5 {
		nodes = append(nodes, testenv.OwnRedis(t))
	}
	return nodes
}

func openRedlock(t testing.TB) locktest.Backend { return redlockOf(t, five(t)) }

// openMinorityGone is a Redlock that has lost one node, and can't hear another.
func openMinorityGone(t testing.TB) locktest.Backend {
	nodes := five(t)
	must(t, nodes[0].Kill())
	must(t, nodes[3].Pause())
	return redlockOf(t, nodes)
}

func redlockStore(t testing.TB, nodes []*devstack.Redis, prefix string) lockclient.Store {
	t.Helper()
	config := redlock.Config{NodeTimeout: callTimeout}
	for _, node := range nodes {
		config.Nodes = append(config.Nodes, redislock.New(redisClient(t, node.URL()), prefix))
	}
	store, err := redlock.New(config)
	must(t, err)
	return store
}

func redlockOf(t testing.TB, nodes []*devstack.Redis) locktest.Backend {
	return locktest.Backend{
		Store:  redlockStore(t, nodes, ""),
		Freeze: func(t testing.TB) func() { return freeze(t, nodes[1], nodes[2], nodes[4]) },
		Kill:   func(t testing.TB) { kill(t, nodes[1], nodes[2], nodes[4]) },
		Forget: func(t testing.TB) {
			for _, node := range nodes[1:3] {
				must(t, redisClient(t, node.URL()).ScriptFlush(t.Context()).Err())
			}
		},
		Except: map[locktest.Rule]string{locktest.OneMoment: "each node at its own"},
	}
}

// server is what devstack starts.
type server interface {
	Kill() error
	Pause() error
	Resume() error
}

func freeze[S server](t testing.TB, servers ...S) (thaw func()) {
	t.Helper()
	for _, s := range servers {
		must(t, s.Pause())
	}
	return func() {
		for _, s := range servers {
			must(t, s.Resume())
		}
	}
}

func kill[S server](t testing.TB, servers ...S) {
	t.Helper()
	for _, s := range servers {
		must(t, s.Kill())
	}
}
