package backends_test

import (
	"context"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient"
	"github.com/fencegate/fencegate/internal/lockclient/redislock"
	"github.com/fencegate/fencegate/internal/testenv"
)

// Whichever server of a Cluster has the key, and whichever one is listened to.
func TestDropsAreHeardOfOnEveryKindOfRedis(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) lockclient.Store{
		"Redis": func(t testing.TB) lockclient.Store {
			address, prefix := testenv.Redis(t)
			return redislock.New(redisClient(t, address), prefix)
		},
		"Redlock": func(t testing.TB) lockclient.Store { return redlockStore(t, five(t), "") },
		"Sentinel": func(t testing.TB) lockclient.Store {
			return redislock.New(failoverClient(t, testenv.OwnSentinels(t)), "test:")
		},
		"Cluster": func(t testing.TB) lockclient.Store {
			return redislock.NewCluster(clusterClient(t, testenv.OwnRedisCluster(t)), "test:")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := open(t)
			heard := make(chan lease.Key, 1)
			ctx, stop := context.WithTimeout(t.Context(), patience)
			defer stop()
			ended := make(chan error, 1)
			go func() {
				ended <- store.(lockclient.Watcher).Watch(ctx, func(key lease.Key) {
					select {
					case heard <- key:
					default:
					}
				})
			}()
			for _, key := range []lease.Key{"one", "another", "{tag} ü", "x"} { // in slots of several servers
				awaitHeard(ctx, t, store, heard, key)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// awaitHeard drops leases of key until it is heard of: listening begins when it can.
func awaitHeard(ctx context.Context, t *testing.T, store lockclient.Store, heard <-chan lease.Key, key lease.Key) {
	t.Helper()
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	for {
		_, _, err := store.Take(t.Context(), key, "me", time.Minute)
		must(t, err)
		_, err = store.Drop(t.Context(), key, "me")
		must(t, err)
		select {
		case got := <-heard:
			if got == key {
				return
			}
		case <-pace.C:
		case <-ctx.Done():
			t.Fatalf("nothing is heard of %q", key)
		}
	}
}
