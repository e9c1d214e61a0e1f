package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/client"
	"github.com/fencegate/fencegate/internal/identity"
	"github.com/fencegate/fencegate/internal/testenv"
)

// startGuarded starts a gateway that only the returned key opens.
func startGuarded(t *testing.T) (g *testenv.Gateway, key string) {
	t.Helper()
	key, kept := identity.NewKey(time.Time{})
	return testenv.StartGateway(t, testenv.GatewayOptions{Auth: fmt.Sprintf(`auth: required
roles: [{name: stock, tables: [{table: shop.inventory}], locks: ["inventory:*"]}]
principals: [{name: w, roles: [stock], api_keys: [{id: '%s', sha256: '%x'}]}]
`, kept.ID, kept.SHA256)}), key
}

func TestACredentialGoesWithEveryRequest(t *testing.T) {
	t.Parallel()
	g, key := startGuarded(t)
	var asked atomic.Int64
	c := newClient(t, g.URL, func(cfg *client.Config) {
		cfg.Credential = func(context.Context) (string, error) { asked.Add(1); return key, nil }
	})
	l := acquire(t, c, shelf, client.TTL(long), client.WithoutWatchdog())
	if _, err := l.Update(t.Context(), "inventory", sku("SKU-1"), map[string]int{"available": 7}); err != nil {
		t.Error(err)
	}
	for name, base := range map[string]http.RoundTripper{"the client's transport": nil, "another": &http.Transport{}} {
		resp, err := (&http.Client{Transport: &client.Transport{Lease: l, Base: base}}).Get(g.URL + "/rest/inventory?sku=eq.SKU-1")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("by %s: %s", name, resp.Status)
		}
	}
	if _, err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if asked.Load() < 5 {
		t.Errorf("the credential was asked for %d times", asked.Load())
	}
}

func TestACredentialGoesToNobodyElse(t *testing.T) {
	t.Parallel()
	g, key := startGuarded(t)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.Header.Get("Lock-Holder") != "" {
			t.Error("somebody else was shown the credential or the holder")
		}
	}))
	t.Cleanup(elsewhere.Close)
	c := newClient(t, g.URL, func(cfg *client.Config) { cfg.Credential = client.Bearer(key) })
	l := acquire(t, c, shelf, client.TTL(long), client.WithoutWatchdog())
	resp, err := l.HTTPClient().Get(elsewhere.URL + "/rest/inventory")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

func TestWithoutACredentialNothingIsToldToComeAgain(t *testing.T) {
	t.Parallel()
	g, _ := startGuarded(t)
	_, err := newClient(t, g.URL).Acquire(t.Context(), shelf)
	is(t, err, client.ErrRefused)
	if told := (*client.Error)(nil); !errors.As(err, &told) || told.Status != http.StatusUnauthorized || told.Code != "unauthenticated" {
		t.Errorf("%v", err)
	}
	broken := errors.New("the vault is sealed")
	c := newClient(t, g.URL, func(cfg *client.Config) {
		cfg.Credential = func(context.Context) (string, error) { return "", broken }
	})
	if _, err := c.Acquire(t.Context(), shelf); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}
