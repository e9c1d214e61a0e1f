package testenv

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/fencegate/fencegate/internal/devstack"
)

// GatewayEnv names the environment variable with the path of the gateway to
// test. Empty: each test program builds its own.
const GatewayEnv = "FENCEGATE_TEST_GATEWAY"

// GatewayOptions says what a gateway works with. The zero value is a database
// with the shop in it, the shared Redis, and the defaults of the configuration.
type GatewayOptions struct {
	Database    *Database // nil: a new one, with devstack.Shop
	DatabaseURL string    // "": the database's own
	RedisURL    string    // "": the shared one
	KeyPrefix   string    // "": one of this test's own
	LockService string    // YAML of the lock service, instead of the section redis; "": RedisURL and KeyPrefix
	Tables      string    // "": devstack.ShopTables
	Config      string    // more top-level YAML sections
	Auth        string    // YAML of who may come, from auth: on; "": auth: none
	Env         []string
	// OwnRole lets it log in as GatewayRole, and not as the superuser.
	OwnRole bool
}

// Gateway is a running gateway process.
type Gateway struct {
	URL      string
	AdminURL string
	Database *Database
	Options  GatewayOptions
	// Credential is what requests are sent with, as Bearer; "": none is.
	Credential string
	Config     string // the file that it reads

	cmd   *exec.Cmd
	log   *logBuffer
	ended chan struct{}
}

// StartGateway runs the real program and returns when it serves. At the test's
// end it must stop on SIGTERM with exit code 0, unless the test ended it.
func StartGateway(t testing.TB, o GatewayOptions) *Gateway {
	t.Helper()
	if o.Database == nil {
		o.Database = Shop(t)
	}
	shared, prefix := "", ""
	if o.LockService == "" && (o.RedisURL == "" || o.KeyPrefix == "") {
		shared, prefix = Redis(t)
	}
	o.RedisURL, o.KeyPrefix = first(o.RedisURL, shared), first(o.KeyPrefix, prefix)
	o.DatabaseURL = first(o.DatabaseURL, o.Database.URL)
	o.Tables = first(o.Tables, devstack.ShopTables)
	g := &Gateway{Database: o.Database, Options: o, Config: filepath.Join(t.TempDir(), "gateway.yaml")}
	g.Configure(t, o)
	g.start(t)
	t.Cleanup(func() { g.Stop(t) })
	return g
}

// Again starts another gateway on the same database and lock service.
func (g *Gateway) Again(t testing.TB) *Gateway {
	t.Helper()
	return StartGateway(t, g.Options)
}

// As is g for requests under another credential.
func (g *Gateway) As(credential string) *Gateway {
	as := *g
	as.Credential = credential
	return &as
}

// Configure writes the gateway's file as it would be if it had been started with o.
func (g *Gateway) Configure(t testing.TB, o GatewayOptions) {
	t.Helper()
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	text := "listen: 127.0.0.1:0\nadmin_listen: localhost:0\n" + first(o.Auth, "auth: none\n")
	if o.LockService != "" {
		text += o.LockService
	} else if !strings.Contains(o.Config, "redis:") {
		text += fmt.Sprintf("redis: {url: %s, key_prefix: %s}\n", quote(o.RedisURL), quote(o.KeyPrefix))
	}
	if !strings.Contains(o.Config, "database:") {
		// What a test counts on a wire is to come from requests alone.
		text += fmt.Sprintf("database: {url: %s, reload_on_notify: false}\n", quote(o.DatabaseURL))
	}
	text += o.Tables + o.Config
	if o.OwnRole {
		text = o.Database.asGateway(text)
		o.Database.grant(t, text)
	}
	if err := os.WriteFile(g.Config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (g *Gateway) start(t testing.TB) {
	t.Helper()
	g.cmd = exec.Command(GatewayBinary(t), "serve", "--config", g.Config)
	g.cmd.Env = append(os.Environ(), g.Options.Env...)
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	g.log = newLogBuffer()
	g.cmd.Stdout, g.cmd.Stderr = g.log, g.log
	g.ended = make(chan struct{})
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		g.cmd.Wait()
		g.log.close()
		close(g.ended)
	}()
	var serving struct{ Address, Admin string }
	if !g.log.await("serving", 1, &serving) {
		t.Fatalf("the gateway did not start:\n%s", g.Log())
	}
	g.URL, g.AdminURL = "http://"+serving.Address, "http://"+serving.Admin
}

// Log returns what the gateway has printed so far.
func (g *Gateway) Log() string { return g.log.String() }

// AwaitLog returns once a log line with this message has been printed, now or
// earlier; it fails the test when the gateway ends without it.
func (g *Gateway) AwaitLog(t testing.TB, message string) {
	t.Helper()
	g.AwaitLogs(t, message, 1)
}

// AwaitLogs is AwaitLog for the times-th line with this message.
func (g *Gateway) AwaitLogs(t testing.TB, message string, times int) {
	t.Helper()
	if !g.log.await(message, times, nil) {
		t.Fatalf("the gateway ended without logging %q %d times:\n%s", message, times, g.Log())
	}
}

// Signal sends the gateway a signal.
func (g *Gateway) Signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := g.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// Kill ends the gateway as kill -9 does and waits for its end.
func (g *Gateway) Kill(t testing.TB) {
	t.Helper()
	g.Signal(t, syscall.SIGKILL)
	<-g.ended
}

// Wait returns the exit code once the gateway has ended.
func (g *Gateway) Wait() int {
	<-g.ended
	return g.cmd.ProcessState.ExitCode()
}

// Stop ends the gateway by SIGTERM and checks that it went well. A gateway that
// has ended already is left alone.
func (g *Gateway) Stop(t testing.TB) {
	t.Helper()
	select {
	case <-g.ended:
	default:
		g.Signal(t, syscall.SIGTERM)
		if code := g.Wait(); code != 0 {
			t.Errorf("the gateway's exit code is %d:\n%s", code, g.Log())
		}
	}
	for _, alarm := range []string{"DATA RACE", "a handler panicked", "panic:"} {
		if strings.Contains(g.Log(), alarm) {
			t.Errorf("%s in the gateway:\n%s", alarm, g.Log())
		}
	}
}

var buildGateway = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(GatewayEnv); path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "fencegate-gateway-")
	if err != nil {
		return "", err
	}
	addCloser(func() error { return os.RemoveAll(dir) })
	path := filepath.Join(dir, "gateway")
	out, err := exec.CommandContext(context.Background(), "go", "build", "-race", "-o", path,
		"github.com/fencegate/fencegate/cmd/gateway").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the gateway: %w\n%s", err, out)
	}
	return path, nil
})

// GatewayBinary returns the path of the program, built with the race detector.
func GatewayBinary(t testing.TB) string {
	t.Helper()
	return mustStart(t, buildGateway)
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// logBuffer keeps what a process prints and wakes those who wait for a line.
type logBuffer struct {
	mu     sync.Mutex
	cond   *sync.Cond
	data   bytes.Buffer
	closed bool
}

func newLogBuffer() *logBuffer {
	b := &logBuffer{}
	b.cond = sync.NewCond(&b.mu)
	return b
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.cond.Broadcast()
	return b.data.Write(p)
}

func (b *logBuffer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.cond.Broadcast()
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}

// await waits for the times-th JSON line whose msg is message and decodes it into
// into. It returns false when the process ended without it.
func (b *logBuffer) await(message string, times int, into any) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		lines := bufio.NewScanner(bytes.NewReader(b.data.Bytes()))
		for left := times; lines.Scan(); {
			var line struct{ Msg string }
			if json.Unmarshal(lines.Bytes(), &line) != nil || line.Msg != message {
				continue
			}
			if left--; left > 0 {
				continue
			}
			return into == nil || json.Unmarshal(lines.Bytes(), into) == nil
		}
		if b.closed {
			return false
		}
		b.cond.Wait()
	}
}
