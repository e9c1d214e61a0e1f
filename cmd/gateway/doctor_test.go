package main_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/doctor"
	"github.com/fencegate/fencegate/internal/testenv"
)

// The servers of the tests are those of `gateway dev`: in memory, and the gateway is
// their superuser. All of that is true, and nothing else is found.
func TestDoctorTellsTheTruthAboutADevStack(t *testing.T) {
	t.Parallel()
	db := testenv.Shop(t)
	out, code := gateway(t, "doctor", "--json", "--config", configFor(t, db.URL, devstack.ShopTables))
	var report doctor.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var found []string
	for _, f := range report.Findings {
		if f.Severity != doctor.Note {
			found = append(found, f.Code)
		}
	}
	if expected := []string{"fsync_off", "full_page_writes_off", "gateway_is_superuser"}; !slices.Equal(found, expected) || code != doctor.ExitDangers || len(report.Unseen) > 0 {
		t.Errorf("exit code %d, found %v: %s", code, found, out)
	}
}

func TestDoctorSaysWhenItCouldNotLook(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ url, says string }{
		"NoDatabase":      {"postgres://nobody@127.0.0.1:1/x?connect_timeout=1", "NOT LOOKED AT  the database"},
		"NoConfiguration": {"", "--config FILE is needed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"doctor"}
			if c.url != "" {
				args = append(args, "--config", configFor(t, c.url, devstack.ShopTables))
			}
			if out, code := gateway(t, args...); code != doctor.ExitBlind || !strings.Contains(out, c.says) {
				t.Errorf("exit code %d, expected %d and %q: %s", code, doctor.ExitBlind, c.says, out)
			}
		})
	}
}

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	unready := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "database: not reachable\n")
	}))
	t.Cleanup(unready.Close)
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(hung.Close)
	off := configFile(t, "auth: none\nadmin_listen: off\ndatabase: {url: 'host=/nowhere'}\nredis: {url: redis://localhost}\n"+devstack.ShopTables)
	port := g.AdminURL[strings.LastIndex(g.AdminURL, ":"):]
	all := configFile(t, "auth: none\nadmin_listen: '0.0.0.0"+port+"'\ndatabase: {url: 'host=/nowhere'}\nredis: {url: redis://localhost}\n"+devstack.ShopTables)
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"Ready":          {[]string{"--url", g.AdminURL + "/readyz"}, 0, "ready\n"},
		"ReadyByConfig":  {[]string{"--config", all}, 0, "ready\n"},
		"NotReady":       {[]string{"--url", unready.URL}, 1, "not ready: 503 database: not reachable\n"},
		"NoAnswerInTime": {[]string{"--url", hung.URL, "--timeout", "100ms"}, 1, "deadline exceeded"},
		"NobodyThere":    {[]string{"--url", "http://127.0.0.1:1/readyz"}, 1, "connection refused"},
		"Off":            {[]string{"--config", off}, 1, "admin_listen is off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, code := gateway(t, append([]string{"healthcheck"}, c.args...)...)
			if code != c.code || !strings.HasSuffix(out, "\n") || strings.Count(out, "\n") != 1 || !strings.Contains(out, c.says) {
				t.Errorf("exit code %d, expected %d and %q: %s", code, c.code, c.says, out)
			}
		})
	}
}
