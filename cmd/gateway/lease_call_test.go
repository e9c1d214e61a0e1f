package main_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"testing"
)

// A proxy's page for logging in is no gateway, whatever its status says.
func TestLeaseCommandsTellWhatIsNoGateway(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{"APage": "<html>please log in</html>", "Null": "null"} {
		stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, answer) }))
		t.Cleanup(stranger.Close)
		for _, args := range []string{"run --key job:a --if-busy fail -- true", "acquire --key job:a --if-busy fail", "renew", "release"} {
			t.Run(name+"To"+args, func(t *testing.T) {
				t.Parallel()
				cmd := exec.Command("sh", "-c", `exec "$GATEWAY" lease `+args)
				cmd.Env = append(leaseEnv(t, stranger.URL), "FENCE_KEY=job:a", "FENCE_HOLDER=h", "FENCE_TOKEN=1")
				out, _ := cmd.CombinedOutput()
				if code := cmd.ProcessState.ExitCode(); code != 69 {
					t.Errorf("exit code %d: %s", code, out)
				}
			})
		}
	}
}
