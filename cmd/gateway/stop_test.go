package main_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

const (
	lingering = "stopping: not ready any more, still accepting"
	finishing = "stopping: finishing what is in flight"
)

func readyStatus(t *testing.T, g *testenv.Gateway) int {
	t.Helper()
	resp, err := http.Get(g.AdminURL + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// askAnew asks on a connection of its own.
func askAnew(t *testing.T, g *testenv.Gateway) *http.Response {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	resp, err := client.Get(g.URL + "/v1/marks")
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp
}

func TestTheGatewayGoesDownInOrder(t *testing.T) {
	t.Parallel()
	const delay = 5 * time.Second
	g := patientGateway(t, "log: {level: debug}\nlimits: {request_timeout: 1m, drain_delay: "+delay.String()+"}\n")
	if resp := askAnew(t, g); resp.Close || readyStatus(t, g) != http.StatusOK {
		t.Errorf("before: close %t, ready %d", resp.Close, readyStatus(t, g))
	}
	held, late := g.Acquire(t, "inventory:SKU-1", 60_000), g.Acquire(t, "order:1", 60_000)
	g.Release(t, late)
	unlock := lockRow(t, g)
	write, waiter := make(chan testenv.Response, 1), make(chan testenv.Response, 1)
	go func() { write <- g.Patch(t, held, "inventory?sku=eq.SKU-1", `{"available":3}`) }()
	awaitBlocked(t, g)
	go func() {
		waiter <- g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/v1/leases", Body: `{"key":"inventory:SKU-1","wait_ms":60000}`})
	}()
	g.AwaitLog(t, "an acquire waits")

	signalled := time.Now()
	g.Signal(t, syscall.SIGTERM)
	g.AwaitLog(t, lingering)
	if status := readyStatus(t, g); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz is %d at once", status)
	}
	if resp := askAnew(t, g); resp.StatusCode != http.StatusOK || !resp.Close {
		t.Errorf("a request of a new connection: %d, close %t", resp.StatusCode, resp.Close)
	}
	if answer := g.Patch(t, late, "orders?order_no=eq.1", `{"note":"x"}`); answer.Problem(t).Slug() != "lease_released" {
		t.Errorf("a late write: %d %s", answer.Status, answer.Body)
	}
	if strings.Contains(g.Log(), finishing) {
		t.Fatalf("it stopped accepting after %s", time.Since(signalled))
	}

	g.AwaitLog(t, finishing)
	if waited := time.Since(signalled); waited < delay {
		t.Errorf("it accepted for %s, not %s", waited, delay)
	}
	if answer := <-waiter; answer.Status != http.StatusLocked {
		t.Errorf("who waited for a lock: %d %s", answer.Status, answer.Body)
	}
	for {
		conn, err := net.Dial("tcp", strings.TrimPrefix(g.URL, "http://"))
		if errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
		if err == nil {
			conn.Close()
		}
	}
	select {
	case answer := <-write:
		t.Errorf("the write was answered %d although its row is locked", answer.Status)
	default:
	}
	unlock()
	if answer := <-write; answer.Status != http.StatusNoContent {
		t.Errorf("the write that was under way: %d %s", answer.Status, answer.Body)
	}
	if code := g.Wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	var records int
	if err := g.Database.Pool(t).QueryRow(t.Context(), `SELECT count(*) FROM fencegate.refusals`).Scan(&records); err != nil || records != 1 {
		t.Errorf("%d refusals are on record, %v", records, err)
	}
}

func TestASecondSignalWaitsForNothing(t *testing.T) {
	t.Parallel()
	for _, second := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		g := testenv.StartGateway(t, testenv.GatewayOptions{Config: "limits: {drain_delay: 1h}\n"})
		g.Signal(t, syscall.SIGTERM)
		g.AwaitLog(t, lingering)
		g.Signal(t, second)
		if code := g.Wait(); code != 3 {
			t.Errorf("%s: exit code %d", second, code)
		}
	}
}
