package testenv

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/fencegate/fencegate/internal/devstack"
)

// RedisEnv names the environment variable with the address of the Redis to test
// against, as go-redis's ParseURL takes it. Empty: tests start their own.
const RedisEnv = "FENCEGATE_TEST_REDIS_URL"

var sharedRedis = sync.OnceValues(func() (string, error) {
	if address := os.Getenv(RedisEnv); address != "" {
		return address, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	server, err := devstack.StartRedis(ctx, devstack.RedisConfig{})
	if err != nil {
		return "", err
	}
	addCloser(server.Stop)
	return server.URL(), nil
})

// Redis returns the address of the shared Redis and a prefix that is this
// test's alone: every key it writes must begin with it. Keys are not removed.
func Redis(t testing.TB) (url, prefix string) {
	t.Helper()
	return mustStart(t, sharedRedis), uniqueName("test:") + ":"
}

// OwnRedis starts a server for this test alone, which may kill or flush it, and
// stops it at the test's end. It keeps nothing over a kill.
func OwnRedis(t testing.TB) *devstack.Redis {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	server, err := devstack.StartRedis(ctx, devstack.RedisConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

var closers struct {
	sync.Mutex
	all []func() error
}

func addCloser(f func() error) {
	closers.Lock()
	defer closers.Unlock()
	closers.all = append(closers.all, f)
}

// Stop stops the shared servers that this program started. It is optional, for
// a TestMain to call after the tests: without it they end with the program and
// their files go with the next start.
func Stop() {
	closers.Lock()
	defer closers.Unlock()
	for _, stop := range closers.all {
		_ = stop() // nobody is left to tell
	}
	closers.all = nil
}

func mustStart[T any](t testing.TB, start func() (T, error)) T {
	t.Helper()
	started, err := start()
	if err != nil {
		t.Fatal(err)
	}
	return started
}

func uniqueName(prefix string) string {
	return prefix + strings.ToLower(rand.Text()[:16])
}
