package interop_test

import (
	"bufio"
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fencegate/fencegate/client"
	"github.com/fencegate/fencegate/internal/testenv"
)

const exampleShelf = "inventory:SKU-1" // of 10 pieces

// The workers in examples/ are made to be copied: they must do what they say.
func TestExampleWorkers(t *testing.T) {
	t.Parallel()
	needClient(t)
	for language, program := range map[string][]string{
		"Python":     {"python3", "../../examples/worker.py"},
		"TypeScript": {"node", compiled(t)},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			t.Run("SellUnderALockThatTheyKeepAndGiveBack", func(t *testing.T) { t.Parallel(); sells(t, program) })
			t.Run("StopAfterAPauseWithoutSendingAnything", func(t *testing.T) { t.Parallel(); isPaused(t, program) })
			t.Run("StopAtTheFirstRefusal", func(t *testing.T) { t.Parallel(); isRefused(t, program) })
			t.Run("MeetTheirOwnGrantWhenItsAnswerIsLost", func(t *testing.T) { t.Parallel(); isNotAnswered(t, program) })
			t.Run("LeaveALockAloneThatIsHeld", func(t *testing.T) { t.Parallel(); isKeptOut(t, program) })
		})
	}
}

// compiled type-checks the TypeScript and returns the JavaScript made of it.
func compiled(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.Command("node", "node_modules/typescript/bin/tsc", "--strict", "--noUnusedLocals", "--noUncheckedIndexedAccess",
		"--erasableSyntaxOnly", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom", "--outDir", dir,
		"../../examples/worker.mts").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "worker.mjs")
}

// worker is one of the example programs, running.
type worker struct {
	cmd   *exec.Cmd
	lines *bufio.Reader
	log   bytes.Buffer
}

func startWorker(t *testing.T, gateway string, program []string, pieces string, env ...string) *worker {
	t.Helper()
	w := &worker{cmd: exec.Command(program[0], append(program[1:], "SKU-1", pieces)...)}
	w.cmd.Env = append(append(os.Environ(), "FENCE_URL="+gateway), env...)
	w.cmd.Stderr = &w.log
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.lines = bufio.NewReader(out)
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.cmd.Process.Kill() })
	return w
}

func (w *worker) says(t *testing.T, expected string) {
	t.Helper()
	if line, err := w.lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, expected) {
		t.Fatalf("the worker said %q, expected %q: %v\n%s", line, expected, err, w.log.String())
	}
}

// stops reads on until the worker says why it has stopped.
func (w *worker) stops(t *testing.T) (why string) {
	t.Helper()
	for !strings.HasPrefix(why, "stopped:") {
		line, err := w.lines.ReadString('\n')
		if err != nil {
			t.Fatalf("%v\n%s", err, w.log.String())
		}
		why = line
	}
	return why
}

func (w *worker) ends(t *testing.T, expected int) {
	t.Helper()
	if line, err := w.lines.ReadString('\n'); err == nil {
		t.Errorf("the worker also said %q", line)
	}
	w.cmd.Wait()
	if code := w.cmd.ProcessState.ExitCode(); code != expected {
		t.Errorf("exit code %d, expected %d\n%s", code, expected, w.log.String())
	}
}

// sells lets the worker work for longer than its lease.
func sells(t *testing.T, program []string) {
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	began := time.Now()
	w := startWorker(t, g.URL, program, "4", "TTL_MS=3000", "PAUSE_SECONDS=1")
	for _, left := range []string{"9", "8", "7", "6"} {
		w.says(t, "sold one, "+left+" left")
	}
	w.ends(t, 0)
	if worked := time.Since(began); worked < 3500*time.Millisecond {
		t.Errorf("it worked for %s only: nothing was renewed", worked)
	}
	g.Acquire(t, exampleShelf, 0)
}

// counted leads to g, counts requests, and tells of the leases that are granted.
type counted struct {
	*httptest.Server
	leases chan testenv.Lease
	writes chan string
}

func newCounted(t *testing.T, g *testenv.Gateway) *counted {
	t.Helper()
	target, err := url.Parse(g.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := &counted{leases: make(chan testenv.Lease, 9), writes: make(chan string, 99)}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.StatusCode == http.StatusCreated {
			c.leases <- testenv.Lease{Key: r.Header.Get("Lock-Key"), Holder: r.Header.Get("Lock-Holder"), Token: r.Header.Get("Fencing-Token")}
		}
		if r.Request.Method == http.MethodPatch {
			c.writes <- r.Header.Get("Fencing-Refused")
		}
		return nil
	}
	c.Server = httptest.NewServer(proxy)
	t.Cleanup(c.Close)
	return c
}

func isPaused(t *testing.T, program []string) {
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	front := newCounted(t, g)
	w := startWorker(t, front.URL, program, "9", "TTL_MS=1500", "PAUSE_SECONDS=1") // in which it is stopped
	w.says(t, "sold one, 9 left")
	w.cmd.Process.Signal(syscall.SIGSTOP)
	next := takeOver(t, g)
	before := len(front.writes)
	w.cmd.Process.Signal(syscall.SIGCONT)
	w.stops(t)
	w.ends(t, 76)
	if sent := len(front.writes) - before; sent != 0 {
		t.Errorf("it sent %d writes after its lease", sent)
	}
	if a := g.Patch(t, next, "inventory?sku=eq.SKU-1", `{"available":5}`); a.Status != http.StatusNoContent {
		t.Errorf("the next holder's write: %d %s", a.Status, a.Body)
	}
}

// takeOver takes the lock as soon as it is free.
func takeOver(t *testing.T, g *testenv.Gateway) testenv.Lease {
	t.Helper()
	c, err := client.New(client.Config{URL: g.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	l, err := c.Acquire(t.Context(), exampleShelf, client.Wait(time.Minute), client.TTL(time.Minute), client.WithoutWatchdog())
	if err != nil {
		t.Fatal(err)
	}
	h := l.Headers()
	return testenv.Lease{Key: l.Key(), Holder: l.Holder(), Token: h.Get("Fencing-Token"),
		Headers: map[string]string{"Lock-Key": h.Get("Lock-Key"), "Lock-Holder": l.Holder(), "Fencing-Token": h.Get("Fencing-Token")}}
}

func isRefused(t *testing.T, program []string) {
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	front := newCounted(t, g)
	w := startWorker(t, front.URL, program, "9", "TTL_MS=60000", "PAUSE_SECONDS=0.3")
	w.says(t, "sold one, 9 left")
	g.Release(t, <-front.leases) // behind its back
	next := g.Acquire(t, exampleShelf, 0)
	if why := w.stops(t); !strings.Contains(why, "stale_token") && !strings.Contains(why, "lease_released") {
		t.Errorf("the worker said %q", why)
	}
	w.ends(t, 76)
	refused := 0
	for len(front.writes) > 0 {
		if <-front.writes != "" {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("%d writes were refused: it went on after the first", refused)
	}
	g.Release(t, next)
}

func isKeptOut(t *testing.T, program []string) {
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	g.Acquire(t, exampleShelf, 60_000)
	w := startWorker(t, g.URL, program, "1")
	line, _ := w.lines.ReadString('\n')
	if !strings.Contains(line, "lock_held") {
		t.Errorf("the worker said %q\n%s", line, w.log.String())
	}
	w.ends(t, 75)
}

func isNotAnswered(t *testing.T, program []string) {
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	through := newCounted(t, g).Config.Handler
	var lost atomic.Bool
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !lost.Swap(true) {
			through.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	w := startWorker(t, front.URL, program, "1")
	w.says(t, "sold one, 9 left")
	w.ends(t, 0)
	if l := g.Acquire(t, exampleShelf, 0); l.Token != "2" {
		t.Errorf("the next token is %s: it was granted more than one", l.Token)
	}
}
