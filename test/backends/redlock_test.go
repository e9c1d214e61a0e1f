package backends_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/lease"
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

// A take that gets no majority leaves nothing behind, and is told how long it is
// to wait: for a majority's lease, or until enough nodes are free.
func TestATakeWithoutAMajorityIsGivenBack(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	store := redlockStore(t, nodes, "")
	var each []lockclient.Store
	for _, node := range nodes {
		each = append(each, redislock.New(redisClient(t, node.URL()), ""))
	}
	seconds := func(n int) time.Duration { return time.Duration(n) * time.Second }
	for name, c := range map[string]struct {
		holders     []lease.Holder // of each node, for 10 s, 20 s, …
		holder      lease.Holder
		least, most time.Duration
	}{
		"a majority's":     {[]lease.Holder{"a", "a", "a", "", ""}, "a", seconds(8), seconds(10)},
		"all but one's":    {[]lease.Holder{"", "a", "a", "a", "a"}, "a", seconds(18), seconds(30)}, // those who answer late may not count
		"split":            {[]lease.Holder{"a", "b", "c", "d", "e"}, "", seconds(28), seconds(30)},
		"split, some free": {[]lease.Holder{"a", "a", "b", "", ""}, "", seconds(8), seconds(10)},
	} {
		key := lease.Key(name)
		began := time.Now()
		for i, holder := range c.holders {
			if holder != "" {
				_, _, err := each[i].Take(t.Context(), key, holder, seconds(10*(i+1)))
				must(t, err)
			}
		}
		taken, r, err := store.Take(t.Context(), key, "me", time.Minute)
		least := c.least - time.Since(began) // a busy machine takes its time
		if err != nil || taken || r.Holder != c.holder || r.Remaining < least || r.Remaining > c.most {
			t.Errorf("%s: %t %+v %v, want %q for %s to %s", name, taken, r, err, c.holder, least, c.most)
		}
		for i, node := range each {
			found, err := node.Read(t.Context(), key)
			must(t, err)
			if found[0].Holder != c.holders[i] {
				t.Errorf("%s: node %d has %q, had %q", name, i, found[0].Holder, c.holders[i])
			}
		}
	}
}

// A lease that a minority of the nodes has left is nobody's, and is not made again
// where it is gone.
func TestALeaseThatLostItsMajorityIsOver(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	store := redlockStore(t, nodes, "")
	for n, want := range map[int]bool{1: true, 2: true, 3: false, 5: false} {
		key := lease.Key(fmt.Sprint("lost on ", n))
		taken, _, err := store.Take(t.Context(), key, "me", time.Minute)
		must(t, err)
		for _, node := range nodes[:n] {
			must(t, redisClient(t, node.URL()).Del(t.Context(), string(key)).Err())
		}
		readings, err := store.Read(t.Context(), key)
		must(t, err)
		extended, err := store.Extend(t.Context(), key, "me", time.Minute)
		must(t, err)
		if !taken || readings[0].HeldBy("me") != want || extended != want {
			t.Errorf("%s: taken %t, read %+v, extended %t, want %t", key, taken, readings[0], extended, want)
		}
		if made := redisClient(t, nodes[0].URL()).Exists(t.Context(), string(key)).Val(); made != 0 {
			t.Errorf("%s: it was made again", key)
		}
	}
}

// A node that hangs must not cost each call its timeout.
func TestANodeThatHangsCostsLittle(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	store := redlockStore(t, nodes, "")
	must(t, nodes[2].Pause())
	began := time.Now()
	const times = 20
	for i := range times {
		key := lease.Key(fmt.Sprint(i))
		taken, _, err := store.Take(t.Context(), key, "me", time.Minute)
		must(t, err)
		refused, _, err := store.Take(t.Context(), key, "another", time.Minute)
		must(t, err)
		_, err = store.Read(t.Context(), key, "free")
		must(t, err)
		extended, err := store.Extend(t.Context(), key, "me", time.Minute)
		must(t, err)
		dropped, err := store.Drop(t.Context(), key, "me")
		must(t, err)
		if !taken || refused || !extended || !dropped {
			t.Fatalf("taken %t, another %t, extended %t, dropped %t", taken, refused, extended, dropped)
		}
	}
	if took := time.Since(began); took > times*callTimeout {
		t.Errorf("%d rounds of five calls took %s, a call may take %s", times, took, callTimeout)
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
