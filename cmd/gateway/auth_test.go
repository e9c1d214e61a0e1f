package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// newAPIKey returns a key of `gateway auth key new` and what it says to keep of it.
func newAPIKey(t *testing.T, args ...string) (key, kept string) {
	t.Helper()
	cmd := exec.Command(testenv.GatewayBinary(t), append([]string{"auth", "key", "new"}, args...)...)
	var told strings.Builder
	cmd.Stderr = &told
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, told.String())
	}
	return strings.TrimSuffix(string(out), "\n"), told.String()
}

func TestAKeyIsMadeKeptAndUsed(t *testing.T) {
	t.Parallel()
	key, kept := newAPIKey(t, "--expires-in", "1h")
	if !regexp.MustCompile(`^fgk_[0-9a-f]{12}_[A-Za-z0-9_-]{43}$`).MatchString(key) || strings.Contains(kept, key) {
		t.Fatalf("the key is %q, kept is\n%s", key, kept)
	}
	second, keptToo := newAPIKey(t)
	if second == key {
		t.Fatal("two keys are one")
	}
	g := testenv.StartGateway(t, testenv.GatewayOptions{Auth: `auth: required
roles:
  - {name: job, locks: ["job:*"]}
  - {name: boss, admin: true}
principals:
  - name: w
    roles: [job, boss]
    api_keys:
` + kept + keptToo})
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(second+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		env  []string
		code int
	}{
		"AKey":        {[]string{"FENCE_API_KEY=" + key}, 0},
		"AFile":       {[]string{"FENCE_API_KEY_FILE=" + file}, 0},
		"Nothing":     {nil, 64},
		"AnotherKey":  {[]string{"FENCE_API_KEY=fgk_000000000000_x"}, 64},
		"Both":        {[]string{"FENCE_API_KEY=" + key, "FENCE_API_KEY_FILE=" + file}, 64},
		"NoSuchFile":  {[]string{"FENCE_API_KEY_FILE=" + file + "x"}, 64},
		"AnEmptyFile": {[]string{"FENCE_API_KEY_FILE=/dev/null"}, 64},
	} {
		for _, args := range []string{"lease ls", "audit ls", "lease acquire --key job:" + name, "lease run --key job:run-" + name + " -- true"} {
			t.Run(name+"/"+args, func(t *testing.T) {
				t.Parallel()
				cmd := exec.Command(testenv.GatewayBinary(t), strings.Fields(args)...)
				cmd.Env = append(leaseEnv(t, g.URL), c.env...)
				out, _ := cmd.CombinedOutput()
				if code := cmd.ProcessState.ExitCode(); code != c.code {
					t.Errorf("exit code %d, want %d: %s", code, c.code, out)
				}
				if strings.Contains(string(out), key) || strings.Contains(string(out), second) {
					t.Errorf("the key is shown: %s", out)
				}
			})
		}
	}
	if log := g.Log(); strings.Contains(log, key) || strings.Contains(log, second) {
		t.Error("the key is in the gateway's log")
	}
}
