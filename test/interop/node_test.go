package interop_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// runCases runs one file of cases. Each case becomes a subtest.
func runCases(t *testing.T, file string, environment []string) {
	t.Helper()
	var out, log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "node", "--test-reporter=./reporter.mjs", file)
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stdout, cmd.Stderr = &out, &log
	ended := cmd.Run()
	cases, failed := 0, false
	for lines := json.NewDecoder(&out); lines.More(); cases++ {
		var c struct{ Name, Error string }
		if err := lines.Decode(&c); err != nil {
			t.Fatalf("reading what node printed: %v", err)
		}
		failed = !t.Run(c.Name, func(t *testing.T) {
			if c.Error != "" {
				t.Error(c.Error)
			}
		}) || failed
	}
	if cases == 0 || ended != nil && !failed {
		t.Errorf("node ended after %d cases: %v\n%s", cases, ended, log.Bytes())
	}
}

// installed is a copy of the lock file that the installed packages are of.
const installed = "node_modules/.installed"

// needClient makes sure that the client which package-lock.json names is there.
func needClient(t *testing.T) {
	t.Helper()
	if err := install(); err != nil {
		t.Fatal(err)
	}
}

var install = sync.OnceValue(func() error {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is not on this machine: run `scripts/deps.sh node`, or install Node.js 20 or newer with npm", program)
		}
	}
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		return err
	}
	if there, err := os.ReadFile(installed); err == nil && bytes.Equal(there, lock) {
		return nil
	}
	if out, err := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts").CombinedOutput(); err != nil {
		return fmt.Errorf("installing the packages of test/interop/package-lock.json by `npm ci`, which needs the network once: %w\n%s", err, out)
	}
	return os.WriteFile(installed, lock, 0o644)
})
