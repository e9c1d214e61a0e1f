package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/fencegate/fencegate/client"
	"github.com/fencegate/fencegate/internal/testenv"
)

// workerEnv makes this program a worker at the gateway that it names.
const workerEnv = "FENCEGATE_TEST_WORKER"

// awake is what the worker saw when it went on after its pause.
type awake struct {
	Headers   http.Header
	Cancelled bool // its context's Err, asked at once
	Lost      bool // the context's Cause
	Refused   bool // its next write, locally
	Sent      int64
}

// work takes the lock, says so, stops until it is told to go on, and tells what
// it found then.
func work(gateway string) error {
	wire := &counting{}
	c, err := client.New(client.Config{URL: gateway, Client: "paused worker", Transport: wire})
	if err != nil {
		return err
	}
	ctx := context.Background()
	l, err := c.Acquire(ctx, shelf, client.TTL(short))
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(awake{Headers: l.Headers()}); err != nil {
		return err
	}
	if _, err := io.ReadAll(os.Stdin); err != nil {
		return err
	}
	found := awake{Headers: l.Headers(), Cancelled: l.Context().Err() != nil}
	found.Lost = errors.Is(context.Cause(l.Context()), client.ErrLost)
	sent := wire.sent.Load()
	_, err = l.Update(ctx, "inventory", sku("SKU-1"), map[string]int{"available": 3})
	found.Refused, found.Sent = errors.Is(err, client.ErrLost), wire.sent.Load()-sent
	return out.Encode(found)
}

// The worker stops, its lease runs out, another takes the lock and writes, and
// the worker goes on: it knows before its next write. One that does not look is
// refused by the gateway.
func TestAPausedWorkerKnowsBeforeItsNextWrite(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+g.URL)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}()
	lines := bufio.NewReader(out)
	before := said(t, lines)
	signal(t, cmd, syscall.SIGSTOP)
	next := acquire(t, newClient(t, g.URL), shelf, client.Wait(awhile), client.TTL(long))
	if err := available(t, next, 5); err != nil {
		t.Error(err)
	}
	in.Close() // nothing is to be waited for when it wakes up
	signal(t, cmd, syscall.SIGCONT)
	after := said(t, lines)
	if !after.Cancelled || !after.Lost || !after.Refused || after.Sent != 0 {
		t.Errorf("awake again, the worker found %+v", after)
	}
	raw := g.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1", Header: before.Headers, Body: `{"available":3}`})
	if raw.Status != http.StatusPreconditionFailed || raw.Header.Get("Fencing-Refused") != "stale_token" {
		t.Errorf("a write past the SDK: %d %s", raw.Status, raw.Body)
	}
	if err := available(t, next, 4); err != nil {
		t.Error(err)
	}
}

func said(t *testing.T, lines *bufio.Reader) (a awake) {
	t.Helper()
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(line), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func signal(t *testing.T, cmd *exec.Cmd, s syscall.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
