package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/client"
	"github.com/fencegate/fencegate/internal/testenv"
)

// gatewayURL is where the examples find a gateway.
var gatewayURL = os.Getenv("FENCEGATE_URL")

func TestExamples(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	cmd := exec.Command(os.Args[0], "-test.run=^Example", "-test.v")
	cmd.Env = append(os.Environ(), "FENCEGATE_URL="+g.URL)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS: Example") != 3 {
		t.Errorf("%v\n%s", err, out)
	}
}

func ExampleClient_WithLock() {
	gateway, err := client.New(client.Config{URL: gatewayURL, Client: "worker-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = gateway.WithLock(context.Background(), "inventory:SKU-1", func(ctx context.Context, lease *client.Lease) error {
		_, err := lease.Update(ctx, "inventory", url.Values{"sku": {"eq.SKU-1"}}, map[string]any{"available": 9})
		return err
	}, client.TTL(10*time.Second), client.Wait(time.Minute))
	switch {
	case errors.Is(err, client.ErrLost):
		fmt.Println("stopped:", err) // somebody else may have the lock: nothing more of this job
	case errors.Is(err, client.ErrHeld), errors.Is(err, client.ErrUnavailable):
		fmt.Println("later:", err)
	case err != nil:
		fmt.Println("to be looked at:", err)
	default:
		fmt.Println("done")
	}
	// Output: done
}

func ExampleLease_HTTPClient() {
	gateway, err := client.New(client.Config{URL: gatewayURL})
	if err != nil {
		fmt.Println(err)
		return
	}
	lease, err := gateway.Acquire(context.Background(), "inventory:SKU-2")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(context.Background())
	// Any HTTP or PostgREST client will do; this one has the lock headers.
	req, err := http.NewRequestWithContext(lease.Context(), http.MethodPatch,
		gatewayURL+"/rest/inventory?sku=eq.SKU-2", strings.NewReader(`{"available":4}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := lease.HTTPClient().Do(req)
	if err != nil {
		fmt.Println(err) // ErrLost: nothing was sent
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output: 204 No Content
}

func ExampleClient_Transaction() {
	gateway, err := client.New(client.Config{URL: gatewayURL})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	lease, err := gateway.Acquire(ctx, "inventory:SKU-3")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)
	one := int64(1)
	results, err := gateway.Transaction(ctx, []client.Operation{{
		Op: "update", Table: "inventory",
		Where:     map[string]any{"sku": "eq.SKU-3", "available": "gte.1"},
		Increment: map[string]any{"available": -1}, ExpectRows: &one, Returning: []string{"available"},
	}}, lease)
	if err != nil {
		fmt.Println(err) // ErrConflict: none is available
		return
	}
	fmt.Println(string(results[0].Rows))
	// Output: [{"available":1}]
}
