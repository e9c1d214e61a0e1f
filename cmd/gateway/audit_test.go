package main_test

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// refuseLate has worker-a's write refused after worker-b took over.
func refuseLate(t *testing.T, g *testenv.Gateway) {
	t.Helper()
	acquire := func(client string) (l testenv.Lease) {
		answer := g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/v1/leases", Body: `{"key":"inventory:SKU-1","ttl_ms":60000,"client":"` + client + `"}`})
		answer.JSON(t, &l)
		return l
	}
	a := acquire("worker-\\u001b[2Ja")
	g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/v1/leases/release", Body: a.Claim()})
	b := acquire("worker-b")
	if answer := g.Patch(t, a, "inventory?sku=eq.SKU-1", `{"available":1}`); answer.Status != http.StatusPreconditionFailed {
		t.Fatalf("%d %s", answer.Status, answer.Body)
	}
	g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/v1/leases/release", Body: b.Claim()})
}

func TestAuditTellsWhatWasRefused(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	refuseLate(t, g)
	story := `set -e
"$GATEWAY" audit ls
"$GATEWAY" audit ls --json --since 1h --until 2100-01-01T00:00:00Z | grep -o '"code":"stale_token"'
"$GATEWAY" audit ls --since 2100-01-01T00:00:00Z --limit 5
"$GATEWAY" audit ls --since yesterday || echo code $?
"$GATEWAY" audit ls --limit 0 || echo code $?
"$GATEWAY" audit show 1
"$GATEWAY" audit show 1 --json | grep -o '"superseded_by":{[^}]*"client":"worker-b"' | wc -l
"$GATEWAY" audit show 2 || echo code $?
"$GATEWAY" audit show || echo code $?
"$GATEWAY" audit export --format csv --key inventory:SKU-1 | cut -d, -f1,3
"$GATEWAY" audit export | grep -c .
"$GATEWAY" audit export --format xml || echo code $?
"$GATEWAY" audit export --url http://127.0.0.1:1 || echo code $?
"$GATEWAY" audit export > /dev/full || echo code $?`
	cmd := exec.Command("sh", "-c", story)
	cmd.Env = leaseEnv(t, g.URL)
	out, err := cmd.Output()
	const row = "TIME refused stale_token inventory:SKU-1 1 2 \"worker-\\x1b[2Ja\" update shop.inventory 1\n"
	want := "TIME DISPOSITION CODE KEY TOKEN MARK CLIENT WHAT ID\n" + row + `"code":"stale_token"
TIME DISPOSITION CODE KEY TOKEN MARK CLIENT WHAT ID
code 64
code 64
stale_token of update shop.inventory under inventory:SKU-1, token 1
client "worker-\x1b[2Ja", principal anyone, from 127.0.0.1, request ID, gateway HOST

TIME granted token 1 "worker-\x1b[2Ja"
TIME released token 1 "worker-\x1b[2Ja"
TIME granted token 2 worker-b
TIME REFUSED token 1 "worker-\x1b[2Ja"
TIME released token 2 worker-b
1
code 64
code 64
id,code
1,stale_token
1
code 64
code 69
code 1
`
	got := string(out)
	for pattern, instead := range map[string]string{
		`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}`: "TIME", `request [0-9a-f]+`: "request ID", `gateway \S+/\d+`: "gateway HOST", ` {2,}`: " ", ` +\n`: "\n",
	} {
		got = regexp.MustCompile(pattern).ReplaceAllString(got, instead)
	}
	if got = regexp.MustCompile(`(?m) +$`).ReplaceAllString(got, ""); err != nil || got != want {
		t.Errorf("%v:\n%s\nnot\n%s", err, got, want)
	}
}

func TestAuditTailPrintsRefusalsAsTheyCome(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	cmd := exec.Command(testenv.GatewayBinary(t), "audit", "tail", "--key", "inventory:SKU-1", "--json")
	cmd.Env = leaseEnv(t, g.URL)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	for got := ""; got == ""; { // until the stream has begun, what is refused is not in it
		refuseLate(t, g)
		select {
		case got = <-lines:
			if !strings.Contains(got, `"code":"stale_token"`) {
				t.Error(got)
			}
		default:
		}
	}
	cmd.Process.Signal(syscall.SIGINT)
	for range lines {
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("interrupted: %v", err)
	}
}

func TestAuditTailEndsWhenItCannotWrite(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	cmd := exec.Command(testenv.GatewayBinary(t), "audit", "tail")
	cmd.Env = leaseEnv(t, g.URL)
	cmd.Stdout = full
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	first := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(said).ReadString('\n')
		first <- line
	}()
	for line := ""; line == ""; { // until the stream has begun, what is refused is not in it
		refuseLate(t, g)
		select {
		case line = <-first:
			if !strings.Contains(line, "writing the output") {
				t.Fatal(line)
			}
		default:
		}
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d", code)
	}
}
