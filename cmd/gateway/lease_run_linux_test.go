package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencegate/fencegate/internal/testenv"
)

const lockOfRun = "job:nightly"

// running is a `lease run` under way.
type running struct {
	cmd    *exec.Cmd
	lines  *bufio.Reader
	stderr bytes.Buffer
}

// leaseRun starts a shell script under a lease.
func leaseRun(t *testing.T, url, script string, flags ...string) *running {
	t.Helper()
	return leaseRunTelling(t, nil, url, script, flags...)
}

// leaseRunTelling is leaseRun with a standard error of its own, unless it is nil.
func leaseRunTelling(t *testing.T, stderr *os.File, url, script string, flags ...string) *running {
	t.Helper()
	args := append([]string{"lease", "run", "--url", url, "--key", lockOfRun}, flags...)
	r := &running{cmd: exec.Command(testenv.GatewayBinary(t), append(args, "--", "sh", "-c", script)...)}
	r.cmd.Stderr = &r.stderr
	if stderr != nil {
		r.cmd.Stderr = stderr
	}
	r.cmd.Env = leaseEnv(t, url)
	r.start(t)
	return r
}

func (r *running) start(t *testing.T) {
	t.Helper()
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.lines = bufio.NewReader(out)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.cmd.Process.Kill() })
}

// leaseEnv is the environment of scripts that call the program. One that was built
// with the race detector would else sleep for a second before it ends.
func leaseEnv(t *testing.T, url string) []string {
	t.Helper()
	return append(os.Environ(), "GATEWAY="+testenv.GatewayBinary(t), "FENCE_URL="+url, "GORACE=atexit_sleep_ms=0")
}

func (r *running) line(t *testing.T) string {
	t.Helper()
	line, err := r.lines.ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %s", err, r.stderr.String())
	}
	return strings.TrimSpace(line)
}

// code waits for the end.
func (r *running) code(t *testing.T, expected int) {
	t.Helper()
	io.Copy(io.Discard, r.lines)
	r.cmd.Wait()
	if got := r.cmd.ProcessState.ExitCode(); got != expected {
		t.Errorf("exit code %d, expected %d: %s", got, expected, r.stderr.String())
	}
}

// process opens a process that a script has told of for waiting on its end.
func process(t *testing.T, pid string) int {
	t.Helper()
	var n int
	fmt.Sscan(pid, &n)
	fd, err := unix.PidfdOpen(n, 0)
	if err != nil {
		t.Fatalf("process %q: %v", pid, err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func awaitEnd(t *testing.T, what string, fd int, within time.Duration) {
	t.Helper()
	for end := time.Now().Add(within); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(max(0, time.Until(end)).Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if n == 0 || err != nil {
			t.Errorf("%s still runs after %s: %v", what, within, err)
		}
		return
	}
}

func TestLeaseRunGivesItsCommandALeaseAndPassesItsExitCodeOn(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	r := leaseRun(t, g.URL, `echo "$FENCE_URL $FENCE_KEY $FENCE_HOLDER $FENCE_TOKEN"; exit 3`)
	fields := strings.Fields(r.line(t))
	if len(fields) != 4 || fields[0] != g.URL || fields[1] != lockOfRun || fields[3] != "1" {
		t.Errorf("the command was told %q", fields)
	}
	r.code(t, 3)
	g.Acquire(t, lockOfRun, 0)
}

func TestLeaseRunHasExitCodesOfItsOwn(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: "leases: {max_ttl: 1h}\n"})
	g.Acquire(t, "job:held", 3600_000) // the cases may have to wait for their turn
	for name, c := range map[string]struct {
		args string
		code int
		says string
	}{
		"ASignalEndsTheCommand":  {"--key job:a -- sh -c 'kill -9 $$'", 137, ""},
		"NoSuchCommand":          {"--key job:b -- /no/such/command", 127, "no such"},
		"NotToBeRun":             {"--key job:c -- /", 126, "directory"},
		"NoKey":                  {"-- true", 64, "--key is needed"},
		"OneKeyTwice":            {"--key job:d --key job:d -- true", 64, "twice"},
		"HeldAmongOthers":        {"--key job:d --key job:held --if-busy fail -- true", 75, "held"},
		"NoCommand":              {"--key job:d", 64, "at least 1 arg"},
		"AnUnknownFlag":          {"--key job:d --keys -- true", 64, "unknown flag"},
		"AnUnknownWayToBeBusy":   {"--key job:d --if-busy maybe -- true", 64, "maybe"},
		"ALeaseThatIsTooLong":    {"--key job:d --ttl 2h -- true", 64, "ttl_out_of_range"},
		"HeldAndThatIsAFailure":  {"--key job:held --if-busy fail -- true", 75, "held"},
		"HeldAndThatIsNone":      {"--key job:held --if-busy skip -- false", 0, "skipped"},
		"HeldForTooLong":         {"--key job:held --wait 20ms -- true", 75, "held"},
		"NoGateway":              {"--key job:e --url http://127.0.0.1:1 --if-busy fail -- true", 69, "refused"},
		"WhatTheCommandIsNested": {"--key job:f -- sh -c '\"$GATEWAY\" lease run --key job:g -- sh -c \"echo is \\$FENCE_KEY; exit 9\"'", 9, "is job:g"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := fmt.Sprintf(`exec "$GATEWAY" lease run %s`, c.args)
			cmd := exec.Command("sh", "-c", script)
			cmd.Env = leaseEnv(t, g.URL)
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.says) {
				t.Errorf("exit code %d, expected %d and %q: %s", code, c.code, c.says, out)
			}
		})
	}
}

// The command and its child ignore SIGTERM; the gateway answers nobody, and nobody
// reads what is said. Both are dead before the lease is over.
func TestLeaseRunKillsItsCommandInTimeWithoutAnyAnswer(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	front := testenv.NewFront(t, g)
	said, stuck := fullPipe(t)
	r := leaseRunTelling(t, stuck, front.URL, `trap "" TERM; sh -c 'while :; do sleep 1; done' & echo $! $$; while :; do sleep 1; done`,
		"--ttl", ttl.String(), "--kill-after", "1s")
	pids := strings.Fields(r.line(t))
	front.BlackHole()
	granted := time.Now() // or earlier
	grandchild, child := process(t, pids[0]), process(t, pids[1])
	awaitEnd(t, "the command", child, ttl-time.Since(granted))
	awaitEnd(t, "its child", grandchild, ttl-time.Since(granted))
	stuck.Close()
	text, err := io.ReadAll(said)
	r.code(t, 76)
	if err != nil || !strings.Contains(string(text), "is over") {
		t.Errorf("it said %q: %v", text, err)
	}
}

// fullPipe returns a pipe that takes nothing more until it is read.
func fullPipe(t *testing.T) (out, in *os.File) {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close(); in.Close() })
	fd := int(in.Fd())
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(unix.SetNonblock(fd, true))
	for err == nil {
		_, err = unix.Write(fd, []byte{'.'})
	}
	must(unix.SetNonblock(fd, false))
	return out, in
}

func TestLeaseRunStopsItsCommandWhenTheLockIsTakenAway(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	r := leaseRun(t, g.URL, `echo "$FENCE_HOLDER $$"; while :; do sleep 1; done`, "--ttl", "3s")
	fields := strings.Fields(r.line(t))
	command := process(t, fields[1])
	g.Release(t, testenv.Lease{Key: lockOfRun, Holder: fields[0], Token: "1"})
	awaitEnd(t, "the command", command, 3*time.Second)
	r.code(t, 76)
}

func TestLeaseRunHoldsSeveralLocks(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	r := leaseRun(t, g.URL, `echo "$FENCE_KEY $FENCE_LOCKS"; "$GATEWAY" lease ls --url "$FENCE_URL" --prefix job:
		"$GATEWAY" lease revoke --url "$FENCE_URL" --key job:second --reason "it loops" --block 1h; sleep 60`,
		"--key", "job:second", "--ttl", "3s", "--client", "runner")
	key, locks, _ := strings.Cut(r.line(t), " ")
	var all []struct{ Key, Holder, Token string }
	if err := json.Unmarshal([]byte(locks), &all); err != nil || key != lockOfRun || len(all) != 2 || all[1].Key != "job:second" || all[1].Token != "1" {
		t.Errorf("the command was told %q, %s: %v", key, locks, err)
	}
	for _, begins := range []string{"KEY ", "job:nightly  1 ", "job:second   1 ", "revoked, token 1, nobody is granted it until 2"} {
		if line := r.line(t); !strings.HasPrefix(line, begins) {
			t.Errorf("%q, expected %q", line, begins)
		}
	}
	r.code(t, 76)
	if !strings.Contains(r.stderr.String(), `"job:second" is over`) || !strings.Contains(r.stderr.String(), "lease_revoked") {
		t.Errorf("it said %q", r.stderr.String())
	}
	g.Acquire(t, lockOfRun, 0)
	if a := g.TryAcquire(t, "job:second", 0); a.Status != http.StatusLocked {
		t.Errorf("the revoked key: %d %s", a.Status, a.Body)
	}
}

func TestLeaseRunPassesSignalsOn(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	r := leaseRun(t, g.URL, `trap 'echo hup' HUP; trap 'exit 7' TERM; echo ready; while :; do sleep 0.1; done`)
	r.line(t)
	r.cmd.Process.Signal(syscall.SIGHUP)
	if line := r.line(t); line != "hup" {
		t.Errorf("the command said %q", line)
	}
	r.cmd.Process.Signal(syscall.SIGTERM)
	r.code(t, 7)
	g.Acquire(t, lockOfRun, 0)
}

func TestASignalEndsTheWaitingForALock(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	g.Acquire(t, lockOfRun, 60_000)
	front := testenv.NewFront(t, g)
	asked := make(chan struct{}, 1)
	front.OnRequest(1, func() bool { asked <- struct{}{}; return true })
	r := leaseRun(t, front.URL, "true", "--wait", "1m")
	<-asked
	r.cmd.Process.Signal(syscall.SIGTERM)
	r.code(t, 143)
}

// Nobody can give the lock back then; the command must not work on without it.
func TestTheCommandDiesWithItsLeaseRun(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	r := leaseRun(t, g.URL, `echo $$; while :; do sleep 1; done`)
	command := process(t, r.line(t))
	r.cmd.Process.Kill()
	awaitEnd(t, "the command", command, 30*time.Second)
}

func TestNothingOfTheGroupGoesOnAfterTheRelease(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	r := leaseRun(t, g.URL, `trap "" TERM; sh -c 'while :; do sleep 1; done' & echo $!; read -r line`, "--kill-after", "50ms")
	left := process(t, r.line(t))
	r.code(t, 1) // read met the end of its input
	awaitEnd(t, "what the command left behind", left, time.Second)
	g.Acquire(t, lockOfRun, 0)
}

func TestALeaseIsTakenKeptAndGivenBackByHand(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	file := filepath.Join(t.TempDir(), "headers")
	story := `set -e
"$GATEWAY" lease acquire --key 'order:ö' --ttl 1m >"$FILE"
"$GATEWAY" lease renew --headers "$FILE" --ttl 2m
"$GATEWAY" lease renew --headers - --json <"$FILE" | grep -o '"token":"1"'
eval "$("$GATEWAY" lease acquire --key "it's" --env)"
"$GATEWAY" lease renew
"$GATEWAY" lease release
"$GATEWAY" lease release
"$GATEWAY" lease renew || echo code $?
"$GATEWAY" lease acquire --key "it's" --json | grep -o '"token":"2"'
"$GATEWAY" lease release || echo code $?
unset FENCE_TOKEN
"$GATEWAY" lease release || echo code $?
"$GATEWAY" lease acquire --key "it's" --if-busy fail || echo code $?
"$GATEWAY" lease ls --prefix order: --json | grep -c '"key":"order:ö"'
"$GATEWAY" lease revoke --key order:none --reason none || echo code $?
"$GATEWAY" lease revoke --key order:ö || echo code $?
"$GATEWAY" lease revolt || echo code $?
"$GATEWAY" lease release --headers "$FILE"
"$GATEWAY" lease release --headers "$FILE" --url http://127.0.0.1:1 || echo code $?`
	cmd := exec.Command("sh", "-c", story)
	cmd.Env = append(leaseEnv(t, g.URL), "FILE="+file)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	expected := `120000 ms left
"token":"1"
30000 ms left
released
already_released
code 76
"token":"2"
stale_token
code 76
code 64
code 75
1
code 64
code 64
code 64
released
code 69
`
	if err != nil || string(out) != expected {
		t.Errorf("%v:\n%s%s", err, out, errs.String())
	}
	if raw, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(raw), "Lock-Key: base64:") {
		t.Errorf("%s, %v", raw, err)
	}
	if a := g.Do(t, testenv.Request{Method: http.MethodGet, Path: "/v1/leases?key=order:%C3%B6"}); !strings.Contains(a.Body, `"live":false`) {
		t.Errorf("after the release: %s", a.Body)
	}
}

// What nohup, and a script for what it starts with &, has told a program to ignore.
func TestLeaseRunGoesOnIgnoringWhatItWasToldToIgnore(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	for name, s := range map[string]syscall.Signal{"HUP": syscall.SIGHUP, "INT": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &running{cmd: exec.Command("sh", "-c", `trap "" `+name+`; exec "$GATEWAY" lease run --key job:`+name+` -- sh -c 'echo ready; read line < "$FIFO"; echo done'`)}
			fifo := filepath.Join(t.TempDir(), "fifo")
			if err := unix.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			r.cmd.Env = append(leaseEnv(t, g.URL), "FIFO="+fifo)
			r.start(t)
			r.line(t)
			if err := r.cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			// Both ends: it opens whether or not anybody is left to read.
			end, err := os.OpenFile(fifo, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer end.Close()
			fmt.Fprintln(end, "go on")
			if line := r.line(t); line != "done" {
				t.Error(line)
			}
			r.code(t, 0)
		})
	}
}
