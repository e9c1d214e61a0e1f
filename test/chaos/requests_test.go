package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

// stale returns a claim that another one of the same key has overtaken.
func (p *plant) stale(t testing.TB, key string) testenv.Lease {
	t.Helper()
	old := p.Acquire(t, key, 60000)
	release(t, p.Gateway, old)
	release(t, p.Gateway, p.Acquire(t, key, 60000))
	return old
}

// set writes available to sku under l.
func set(t testing.TB, g *testenv.Gateway, l testenv.Lease, sku string, available int) testenv.Response {
	t.Helper()
	return g.Patch(t, l, "inventory?sku=eq."+sku, fmt.Sprintf(`{"available":%d}`, available))
}

func setRequest(l testenv.Lease, sku string, available int) testenv.Request {
	return testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq." + sku, Header: l.Header(),
		Body: fmt.Sprintf(`{"available":%d}`, available)}
}

func release(t testing.TB, g *testenv.Gateway, l testenv.Lease) {
	t.Helper()
	answer := g.Do(t, releaseRequest(l))
	if answer.Status != http.StatusOK {
		t.Fatalf("releasing: %d %s", answer.Status, answer.Body)
	}
}

func releaseRequest(l testenv.Lease) testenv.Request {
	return testenv.Request{Method: http.MethodPost, Path: "/v1/leases/release", Body: l.Claim()}
}

func acquireRequest(key string, ttlMS int) testenv.Request {
	body, _ := json.Marshal(map[string]any{"key": key, "ttl_ms": ttlMS})
	return testenv.Request{Method: http.MethodPost, Path: "/v1/leases", Body: string(body)}
}

// reply is an answer, or none, that a request in the background got.
type reply struct {
	testenv.Response
	err error
}

// later sends a request in the background.
func later(t testing.TB, g *testenv.Gateway, q testenv.Request) <-chan reply {
	answers := make(chan reply, 1)
	go func() {
		answer, err := g.Try(t, t.Context(), q)
		answers <- reply{answer, err}
	}()
	return answers
}

// awaitReady asks until the gateway's /readyz answers status.
func awaitReady(t testing.TB, g *testenv.Gateway, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.AdminURL+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatalf("waiting for /readyz to answer %d: %v", status, err)
		}
		resp.Body.Close()
		if resp.StatusCode == status {
			return
		}
	}
}

// try repeats a request until it is answered with status.
func try(t testing.TB, g *testenv.Gateway, q testenv.Request, status int) testenv.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		answer, err := g.Try(t, ctx, q)
		if err != nil {
			t.Fatalf("waiting for %d: %v", status, err)
		}
		if answer.Status == status {
			return answer
		}
	}
}
