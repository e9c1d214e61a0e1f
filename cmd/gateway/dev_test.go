package main_test

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// program returns the gateway with args, with a temporary directory of its own
// for the servers that it starts.
func program(t *testing.T, args ...string) (cmd *exec.Cmd, tmp string) {
	t.Helper()
	tmp, err := os.MkdirTemp("/tmp", "fg-") // short: socket paths have a limit; and open to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	if err := os.Chmod(tmp, 0o755|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(testenv.GatewayBinary(t), args...)
	cmd.Dir = tmp
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "DATABASE_URL=", "REDIS_URL=")
	return cmd, tmp
}

func TestDemoPlaysTheWholeStory(t *testing.T) {
	t.Parallel()
	cmd, tmp := program(t, "demo")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, line := range []string{
		"two sold, 9 left: one sale is LOST",
		"REFUSED, 412 stale_token. Nothing was written",
		"nothing to release (stale_token)",
		"update of shop.inventory by worker-a under token 1, mark at 2: stale_token",
		"two sold, 8 left: nothing is lost",
		"Every step came out as it should",
	} {
		if !strings.Contains(string(out), line) {
			t.Errorf("the timeline lacks %q:\n%s", line, out)
		}
	}
	nothingIn(t, tmp)
}

func TestDemoUsesGivenServers(t *testing.T) {
	t.Parallel()
	cmd, tmp := program(t, "demo")
	db := testenv.EmptyPostgres(t)
	address := testenv.OwnRedis(t).URL()
	cmd.Env = append(cmd.Env, "DATABASE_URL="+db.URL, "REDIS_URL="+address)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	nothingIn(t, tmp)
	var refusals int
	if err := db.Pool(t).QueryRow(t.Context(), `SELECT count(*) FROM fencegate.refusals`).Scan(&refusals); err != nil || refusals == 0 {
		t.Fatalf("%d refusals in the given database, %v", refusals, err)
	}
}

// startDev returns the printed greeting once the gateway serves.
func startDev(t *testing.T, args ...string) (cmd *exec.Cmd, tmp string, greeting []string) {
	t.Helper()
	cmd, tmp = program(t, append([]string{"dev", "--listen", "127.0.0.1:0", "--admin-listen", "localhost:0"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		greeting = append(greeting, lines.Text())
		if strings.HasPrefix(lines.Text(), "What was refused") {
			go io.Copy(io.Discard, out)
			return cmd, tmp, greeting
		}
	}
	t.Fatalf("dev ended early:\n%s", strings.Join(greeting, "\n"))
	return nil, "", nil
}

func TestDevPrintsLinesThatWorkAsPasted(t *testing.T) {
	t.Parallel()
	cmd, tmp, greeting := startDev(t)
	var answers []string
	for _, line := range greeting {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "curl ") && !strings.HasPrefix(line, "until ") {
			continue
		}
		shell := exec.Command("bash", "-c", line)
		shell.Dir = tmp
		out, err := shell.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		answers = append(answers, string(out))
	}
	for i, expected := range []string{"Fencing-Token: 1", "204 No Content", `"token":"2"`, "Fencing-Refused: stale_token"} {
		if i >= len(answers) || !strings.Contains(answers[i], expected) {
			t.Fatalf("line %d was not answered with %q: %q", i+1, expected, answers)
		}
	}
	pages, err := http.Get(addressIn(t, greeting, "dashboard"))
	if err != nil {
		t.Fatal(err)
	}
	if pages.Body.Close(); pages.StatusCode != http.StatusOK {
		t.Errorf("the dashboard answers %s", pages.Status)
	}
	os.Remove(filepath.Join(tmp, "a.headers"))
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("after Ctrl-C: %v", err)
	}
	nothingIn(t, tmp)
}

func TestDevKeepsItsDataWhenAsked(t *testing.T) {
	t.Parallel()
	for round, expected := range []string{"[]", `"key":"inventory:SKU-1"`} {
		cmd, tmp, greeting := startDev(t, "--data-dir", dataDir(t))
		base := addressIn(t, greeting, "gateway")
		resp, err := http.Get(base + "/v1/marks")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if !strings.Contains(string(body), expected) {
			t.Fatalf("round %d: %s", round, body)
		}
		if _, err := http.Post(base+"/v1/leases", "application/json", strings.NewReader(`{"key":"inventory:SKU-1"}`)); err != nil {
			t.Fatal(err)
		}
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		nothingIn(t, tmp)
	}
}

// dataDir is one directory for all rounds of a test.
func dataDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join("/tmp", "fg-data-"+strings.ToLower(t.Name()))
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func addressIn(t *testing.T, greeting []string, of string) string {
	t.Helper()
	for _, line := range greeting {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == of {
			return fields[1]
		}
	}
	t.Fatalf("no address in the greeting:\n%s", strings.Join(greeting, "\n"))
	return ""
}

// nothingIn fails the test if a server left anything in its temporary directory.
func nothingIn(t *testing.T, tmp string) {
	t.Helper()
	entries, err := os.ReadDir(tmp)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		t.Errorf("%s was left behind", entry.Name())
	}
}
