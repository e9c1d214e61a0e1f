package client_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/client"
	"github.com/fencegate/fencegate/internal/testenv"
)

const (
	shelf  = "inventory:SKU-1"
	awhile = 30 * time.Second // far more than anything here takes
	short  = time.Second      // a lease that is meant to run out
	long   = time.Minute      // one that is not
)

// TestMain is also the worker that a test starts to have it paused.
func TestMain(m *testing.M) {
	if gateway := os.Getenv(workerEnv); gateway != "" {
		if err := work(gateway); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	if gatewayURL == "" { // TestExamples runs them, with a gateway
		flag.Set("test.skip", "^Example")
	}
	code := m.Run()
	testenv.Stop()
	os.Exit(code)
}

// counting is a transport that counts what it sends.
type counting struct {
	sent atomic.Int64
	http.Transport
}

func (c *counting) RoundTrip(req *http.Request) (*http.Response, error) {
	c.sent.Add(1)
	return c.Transport.RoundTrip(req)
}

func newClient(t testing.TB, address string, change ...func(*client.Config)) *client.Client {
	t.Helper()
	cfg := client.Config{URL: address, Client: t.Name()}
	for _, set := range change {
		set(&cfg)
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func through(by http.RoundTripper) func(*client.Config) {
	return func(cfg *client.Config) { cfg.Transport = by }
}

func acquire(t testing.TB, c *client.Client, key string, options ...client.Option) *client.Lease {
	t.Helper()
	l, err := c.Acquire(t.Context(), key, options...)
	if err != nil {
		t.Fatalf("acquiring %s: %v", key, err)
	}
	t.Cleanup(func() { _, _ = l.Release(context.Background()) })
	return l
}

func release(t testing.TB, l *client.Lease, expected bool) {
	t.Helper()
	if ours, err := l.Release(t.Context()); err != nil || ours != expected {
		t.Fatalf("the release answered %t, %v; expected %t", ours, err, expected)
	}
}

// available sets the shelf's number by way of the lease.
func available(t testing.TB, l *client.Lease, n int) error {
	t.Helper()
	got, err := l.Update(t.Context(), "inventory", sku("SKU-1"), map[string]int{"available": n})
	if err == nil && got.Affected != 1 {
		t.Errorf("the write changed %d rows", got.Affected)
	}
	return err
}

func sku(name string) url.Values { return url.Values{"sku": {"eq." + name}} }

// is checks that err is all of the wanted kinds.
func is(t testing.TB, err error, wanted ...error) {
	t.Helper()
	for _, kind := range wanted {
		if !errors.Is(err, kind) {
			t.Errorf("the error %v is not of the kind %q", err, kind)
		}
	}
}

func isNot(t testing.TB, err error, unwanted ...error) {
	t.Helper()
	for _, kind := range unwanted {
		if errors.Is(err, kind) {
			t.Errorf("the error %v is of the kind %q", err, kind)
		}
	}
}

// await returns once done is closed or has something to say.
func await[T any](t testing.TB, what string, done <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-done:
	case <-time.After(awhile):
		t.Fatalf("%s: not within %s", what, awhile)
	}
	return got
}

func code(err error) string {
	if told := (*client.Error)(nil); errors.As(err, &told) {
		return told.Code
	}
	return ""
}
