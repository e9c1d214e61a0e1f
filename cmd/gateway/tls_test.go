package main_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencegate/fencegate/client"
	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/doctor"
	"github.com/fencegate/fencegate/internal/testenv"
)

func section(name string, p pair, more string) string {
	return fmt.Sprintf("%s: {cert_file: '%s', key_file: '%s'%s}\n", name, p.cert, p.key, more)
}

func https(url string) string { return "https" + strings.TrimPrefix(url, "http") }

func hostOf(url string) string { return strings.TrimPrefix(url, "http://") }

// ask gets url with a connection of its own.
func ask(t *testing.T, url string, c *tls.Config) (*http.Response, error) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get(url)
	if err == nil {
		resp.Body.Close()
	}
	return resp, err
}

func TestListenersSpeakTLS(t *testing.T) {
	t.Parallel()
	ours, others := newAuthority(t), newAuthority(t)
	server, worker, stranger := ours.issued(t, 2), ours.issued(t, 3), others.issued(t, 4)
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: section("tls", server, ", client_ca_file: '"+ours.file+"'") +
		section("admin_tls", server, ", client_ca_file: '"+ours.file+"', client_auth: verify_if_given")})
	public, operators := https(g.URL)+"/v1/marks", https(g.AdminURL)+"/readyz"

	known := &tls.Config{RootCAs: ours.pool(), Certificates: worker.load(t)}
	resp, err := ask(t, public, known)
	if err != nil || resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 || resp.TLS.Version != tls.VersionTLS13 {
		t.Fatalf("%+v, %v", resp, err)
	}
	if resp.Header.Get("X-Content-Type-Options") != "nosniff" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("the headers are %v", resp.Header)
	}
	for name, url := range map[string]string{"public": public, "admin": operators} {
		for why, c := range map[string]*tls.Config{
			"an authority that the client does not know":   {RootCAs: others.pool(), Certificates: worker.load(t)},
			"a certificate that the gateway does not know": {RootCAs: ours.pool(), Certificates: stranger.load(t)},
			"an old version": {RootCAs: ours.pool(), Certificates: worker.load(t), MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10},
		} {
			if resp, err := ask(t, url, c); err == nil {
				t.Errorf("%s: %d under %s", name, resp.StatusCode, why)
			}
		}
		if resp, err := ask(t, url, &tls.Config{RootCAs: ours.pool()}); (err == nil) != (name == "admin") {
			t.Errorf("%s without a certificate: %+v, %v", name, resp, err)
		}
	}
	if resp, err := ask(t, g.URL+"/v1/marks", nil); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("without TLS: %+v, %v", resp, err)
	}
	withoutTLS12, err := ask(t, public, &tls.Config{RootCAs: ours.pool(), Certificates: worker.load(t), MaxVersion: tls.VersionTLS12})
	if err != nil || withoutTLS12.TLS.Version != tls.VersionTLS12 {
		t.Errorf("TLS 1.2: %v", err)
	}
}

func TestClientsReachAGatewayOverTLS(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t)
	server, worker := ours.issued(t, 2), ours.issued(t, 3)
	g := testenv.StartGateway(t, testenv.GatewayOptions{
		Config: section("tls", server, ", client_ca_file: '"+ours.file+"'") + section("admin_tls", server, "")})

	sdk, err := client.New(client.Config{URL: https(g.URL), TLS: &tls.Config{RootCAs: ours.pool(), Certificates: worker.load(t)}})
	if err != nil {
		t.Fatal(err)
	}
	defer sdk.CloseIdleConnections()
	lease, err := sdk.Acquire(t.Context(), "job:sdk")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}

	shown := []string{"--url", https(g.URL), "--ca-file", ours.file, "--cert-file", worker.cert, "--key-file", worker.key}
	run := append(append([]string{"lease", "run", "--key", "job:a"}, shown...), "--", testenv.GatewayBinary(t), "lease", "ls")
	if out, code := gateway(t, run...); code != 0 || !strings.Contains(out, "job:a") {
		t.Errorf("a command under a lock, which lists leases itself: exit code %d: %s", code, out)
	}
	if out, code := gateway(t, append([]string{"audit", "ls"}, shown...)...); code != 0 {
		t.Errorf("audit: exit code %d: %s", code, out)
	}
	if out, code := gateway(t, "lease", "ls", "--url", https(g.URL), "--ca-file", ours.file); code != 69 {
		t.Errorf("without a certificate: exit code %d: %s", code, out)
	}

	for name, c := range map[string]struct {
		args []string
		code int
	}{
		"TheConfigurationsOwn":      {[]string{"--config", g.Config, "--admin-listen", hostOf(g.AdminURL)}, 0},
		"WithAnAuthority":           {[]string{"--url", https(g.AdminURL) + "/readyz", "--ca-file", ours.file}, 0},
		"WithoutTheAuthority":       {[]string{"--url", https(g.AdminURL) + "/readyz"}, 1},
		"WithAnotherAuthoritysFile": {[]string{"--url", https(g.AdminURL) + "/readyz", "--ca-file", newAuthority(t).file}, 1},
	} {
		if out, code := gateway(t, append([]string{"healthcheck", "--timeout", "10s"}, c.args...)...); code != c.code {
			t.Errorf("%s: exit code %d, not %d: %s", name, code, c.code, out)
		}
	}
	g.Config = configFile(t, strings.Replace(readFile(t, g.Config), server.cert, newAuthority(t).issued(t, 9).cert, 2))
	if out, code := gateway(t, "healthcheck", "--config", g.Config, "--admin-listen", hostOf(g.AdminURL)); code != 1 {
		t.Errorf("a listener that shows another certificate: exit code %d: %s", code, out)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// serialOf is the serial number of the certificate that is shown.
func serialOf(t *testing.T, g *testenv.Gateway, a *authority) int64 {
	t.Helper()
	conn, err := tls.Dial("tcp", hostOf(g.URL), &tls.Config{RootCAs: a.pool()})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func TestCertificatesThatChangeAreTakenOver(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	shown := a.issued(t, 2)
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: section("tls", shown, "")})
	until := func(what string, so func(serial int64) bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !so(serialOf(t, g, a)); {
			if time.Now().After(end) {
				t.Fatalf("never: %s:\n%s", what, g.Log())
			}
		}
	}
	a.issue(t, shown, 3, 365*24*time.Hour)
	until("the renewed certificate", func(serial int64) bool { return serial == 3 })

	if err := os.WriteFile(shown.key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	const stays = "a changed certificate could not be read; the old one stays"
	until("that a bad one is told of", func(int64) bool { return strings.Contains(g.Log(), stays) })
	if serial := serialOf(t, g, a); serial != 3 || strings.Count(g.Log(), stays) != 1 {
		t.Errorf("%d is shown; told %d times", serial, strings.Count(g.Log(), stays))
	}
	good := g.Options
	hangUp(t, g, good, notReadAnew, 1)

	other := a.issued(t, 4)
	bad := good
	bad.Config = section("tls", pair{other.cert, shown.key}, "")
	hangUp(t, g, bad, notReadAnew, 2)
	bad.Config = ""
	hangUp(t, g, bad, notReadAnew, 3)
	for _, says := range []string{"tls: reading cert_file and key_file: ", "tls: turned on or off: needs a restart"} {
		if !strings.Contains(g.Log(), says) {
			t.Errorf("the log does not say %q:\n%s", says, g.Log())
		}
	}
	if serial := serialOf(t, g, a); serial != 3 {
		t.Errorf("%d is shown", serial)
	}
	good.Config = section("tls", other, "")
	hangUp(t, g, good, readAnew, 1)
	if serial := serialOf(t, g, a); serial != 4 {
		t.Errorf("%d is shown", serial)
	}
	if !strings.Contains(metricsOf(t, g), `fencegate_certificate_expiry_timestamp_seconds{listener="public"}`) {
		t.Error("/metrics does not tell when the certificate ends")
	}
	g.Signal(t, syscall.SIGTERM)
	g.Wait()
}

func TestCheckReadsTheCertificates(t *testing.T) {
	t.Parallel()
	p := newAuthority(t).issued(t, 2)
	text := readFile(t, configFor(t, "postgres://a@localhost/b", devstack.ShopTables))
	if out, code := gateway(t, "check", "--config", configFile(t, text+section("tls", p, ""))); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
	for says, tls := range map[string]string{
		"tls: reading cert_file and key_file": section("tls", pair{p.cert, p.cert}, ""),
		"tls: reading client_ca_file":         section("tls", p, ", client_ca_file: '"+p.key+"'"),
		"tls: needs cert_file and key_file":   "tls: {cert_file: x}\n",
		"tls.client_auth: stands without":     section("tls", p, ", client_auth: require"),
		"tls.client_auth: is \"maybe\"":       section("tls", p, ", client_ca_file: x, client_auth: maybe"),
		"admin_tls: encrypts what":            section("admin_tls", p, ""),
	} {
		if out, code := gateway(t, "check", "--config", configFile(t, text+tls)); code != 1 || !strings.Contains(out, says) {
			t.Errorf("exit code %d, expected %q: %s", code, says, out)
		}
	}
}

func TestDoctorLooksAtCertificates(t *testing.T) {
	t.Parallel()
	soon := newPair(t)
	newAuthority(t).issue(t, soon, 2, 3*24*time.Hour)
	text := strings.Replace(readFile(t, configFor(t, "postgres://nobody@127.0.0.1:1/x?connect_timeout=1", devstack.ShopTables)),
		"admin_listen: off", "admin_listen: 127.0.0.1:0", 1)
	out, _ := gateway(t, "doctor", "--json", "--config",
		configFile(t, text+section("tls", pair{soon.cert, soon.cert}, "")+section("admin_tls", soon, "")))
	var report doctor.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for code, about := range map[string]string{"certificate_ends": "admin_tls", "certificate_unusable": "tls"} {
		if !slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool { return f.Code == code && f.About == about }) {
			t.Errorf("no %s of %s: %s", code, about, out)
		}
	}
}
