package main_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/identity"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestAPIKeysAreChangedWithoutARestart(t *testing.T) {
	t.Parallel()
	first, keptFirst := identity.NewKey(time.Time{})
	second, keptSecond := identity.NewKey(time.Time{})
	auth := func(role string, kept ...identity.Key) string {
		text := "auth: required\nroles: [{name: boss, admin: true}, {name: reader, tables: [{table: shop.inventory, operations: [select]}]}]\n" +
			"principals:\n  - name: w\n    roles: [" + role + "]\n    api_keys:\n"
		for _, key := range kept {
			text += fmt.Sprintf("      - {id: '%s', sha256: '%x'}\n", key.ID, key.SHA256)
		}
		return text
	}
	g := testenv.StartGateway(t, testenv.GatewayOptions{Auth: auth("boss", keptFirst)})
	status := func(key, path string, want int) {
		t.Helper()
		if answer := g.As(key).Do(t, testenv.Request{Path: path}); answer.Status != want {
			t.Errorf("%s: %d, want %d: %s", path, answer.Status, want, answer.Body)
		}
	}
	status(first, "/v1/marks", http.StatusOK)
	status(second, "/v1/marks", http.StatusUnauthorized)
	status(first, "/rest/inventory?limit=1", http.StatusNotFound)

	o := g.Options
	o.Auth = auth("boss", keptFirst, keptSecond)
	hangUp(t, g, o, readAnew, 1)
	status(first, "/v1/marks", http.StatusOK)
	status(second, "/v1/marks", http.StatusOK)

	o.Auth = auth("reader", keptSecond)
	hangUp(t, g, o, readAnew, 2)
	status(first, "/v1/marks", http.StatusUnauthorized)
	status(second, "/v1/marks", http.StatusForbidden)
	status(second, "/rest/inventory?limit=1", http.StatusOK)

	for n, auth := range []string{auth("no such role", keptSecond), "auth: none\n", "auth: required\n"} {
		o.Auth = auth
		hangUp(t, g, o, notReadAnew, n+1)
		status("", "/v1/marks", http.StatusUnauthorized)
		status(second, "/rest/inventory?limit=1", http.StatusOK)
	}
}

func TestAClientCertificateIsAPrincipal(t *testing.T) {
	t.Parallel()
	ours, others := newAuthority(t), newAuthority(t)
	server, worker, stranger := ours.issued(t, 2), ours.issued(t, 3), others.issued(t, 4)
	key, kept := identity.NewKey(time.Time{})
	g := testenv.StartGateway(t, testenv.GatewayOptions{
		Auth: "auth: required\nidentity: {client_certificate: common_name}\n" +
			"roles: [{name: boss, admin: true}]\nprincipals:\n  - {name: w, roles: [boss], certificate: worker}\n" +
			fmt.Sprintf("  - {name: k, api_keys: [{id: '%s', sha256: '%x'}]}\n", kept.ID, kept.SHA256),
		Config: section("tls", server, ", client_ca_file: '"+ours.file+"', client_auth: verify_if_given"),
	})
	marks := func(c *tls.Config, key string) int {
		t.Helper()
		transport := &http.Transport{TLSClientConfig: c}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, https(g.URL)+"/v1/marks", nil)
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	with, without := &tls.Config{RootCAs: ours.pool(), Certificates: worker.load(t)}, &tls.Config{RootCAs: ours.pool()}
	if resp, err := ask(t, https(g.URL)+"/v1/marks", &tls.Config{RootCAs: ours.pool(), Certificates: stranger.load(t)}); err == nil {
		t.Errorf("a worker of the same name, of another authority: %d", resp.StatusCode)
	}
	for _, c := range []struct {
		what string
		tls  *tls.Config
		key  string
		want int
	}{
		{"its certificate", with, "", http.StatusOK},
		{"none", without, "", http.StatusUnauthorized},
		{"another's key", without, key, http.StatusForbidden},
		{"its certificate and another's key, which counts first", with, key, http.StatusForbidden},
		{"its certificate and a wrong key", with, key + "x", http.StatusUnauthorized},
	} {
		if got := marks(c.tls, c.key); got != c.want {
			t.Errorf("with %s: %d, want %d", c.what, got, c.want)
		}
	}
}

func TestProfilesAreForAdministrators(t *testing.T) {
	t.Parallel()
	boss, keptBoss := identity.NewKey(time.Time{})
	worker, keptWorker := identity.NewKey(time.Time{})
	guarded := testenv.StartGateway(t, testenv.GatewayOptions{Auth: "auth: required\nroles: [{name: boss, admin: true}]\nprincipals:\n" +
		fmt.Sprintf("  - {name: b, roles: [boss], api_keys: [{id: '%s', sha256: '%x'}]}\n  - {name: w, api_keys: [{id: '%s', sha256: '%x'}]}\n",
			keptBoss.ID, keptBoss.SHA256, keptWorker.ID, keptWorker.SHA256)})
	open := testenv.StartGateway(t, testenv.GatewayOptions{})
	for _, c := range []struct {
		g    *testenv.Gateway
		key  string
		path string
		want int
	}{
		{guarded, boss, "/debug/pprof/heap", http.StatusOK},
		{guarded, worker, "/debug/pprof/heap", http.StatusForbidden},
		{guarded, "", "/debug/pprof/heap", http.StatusUnauthorized},
		{guarded, boss + "x", "/debug/pprof/", http.StatusUnauthorized},
		{guarded, "", "/metrics", http.StatusOK},
		{guarded, "", "/readyz", http.StatusOK},
		{open, "", "/debug/pprof/heap", http.StatusOK},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.g.AdminURL+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.key != "" {
			req.SetBasicAuth("anything", c.key)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", c.path, resp.StatusCode, c.want)
		}
	}
}

func TestProfilesAreNotForPagesUnderAnotherName(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	for host, want := range map[string]int{"localhost:9090": http.StatusOK, "rebound.example:9090": http.StatusMisdirectedRequest} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.AdminURL+"/debug/pprof/goroutine?debug=2", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", host, resp.StatusCode, want)
		}
	}
}

func TestAStreamEndsWithTheRightsItBeganWith(t *testing.T) {
	t.Parallel()
	key, kept := identity.NewKey(time.Time{})
	other, keptOther := identity.NewKey(time.Time{})
	auth := func(key identity.Key) string {
		return "auth: required\nroles: [{name: boss, admin: true}]\nprincipals:\n" +
			fmt.Sprintf("  - {name: b, roles: [boss], api_keys: [{id: '%s', sha256: '%x'}]}\n", key.ID, key.SHA256)
	}
	g := testenv.StartGateway(t, testenv.GatewayOptions{Auth: auth(kept)})
	refuse := func(code string) {
		g.Database.Exec(t, `INSERT INTO fencegate.refusals (code, disposition, operation, lock_key, presented_token, holder_digest, principal, request_id, remote_address, instance)
			VALUES ('`+code+`', 'refused', 'update', 'k', 1, 'd', 'p', 'r', 'a', 'i')`)
	}
	read := func(key string) *bufio.Scanner {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.URL+"/v1/refusals/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		lines := bufio.NewScanner(resp.Body)
		if resp.StatusCode != http.StatusOK || !lines.Scan() {
			t.Fatalf("the stream has not begun: %d", resp.StatusCode)
		}
		return lines
	}
	before := read(key)
	o := g.Options
	o.Auth = auth(keptOther)
	hangUp(t, g, o, readAnew, 1)
	after := read(other)
	refuse("secret")
	for after.Scan() && !strings.Contains(after.Text(), "secret") {
	}
	if after.Err() != nil {
		t.Error(after.Err())
	}
	last := ""
	for before.Scan() {
		if text := before.Text(); text != "" {
			last += text + "\n"
		}
		if strings.Contains(last, "secret") {
			t.Fatalf("a key that was taken away still tells: %s", last)
		}
	}
	if last != "event: stopping\ndata: {}\n" {
		t.Errorf("the stream ends with %q", last)
	}
}

func TestAStoredAnswerDoesNotOutliveTheRightToItsColumns(t *testing.T) {
	t.Parallel()
	key, kept := identity.NewKey(time.Time{})
	auth := func(read string) string {
		return fmt.Sprintf("auth: required\nroles: [{name: r, tables: [{table: shop.inventory, read: [%s]}], locks: ['*']}]\n"+
			"principals: [{name: p, roles: [r], api_keys: [{id: '%s', sha256: '%x'}]}]\n", read, kept.ID, kept.SHA256)
	}
	g := testenv.StartGateway(t, testenv.GatewayOptions{Auth: auth("sku, available")}).As(key)
	l := g.Acquire(t, "inventory:SKU-1", 60_000)
	header := l.Header()
	header.Set("Prefer", "return=representation")
	header.Set("Idempotency-Key", "once")
	q := testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1", Header: header, Body: `{"available":4711}`}
	if first := g.Do(t, q); first.Status != http.StatusOK || !strings.Contains(first.Body, "4711") {
		t.Fatalf("%d %s", first.Status, first.Body)
	}
	if again := g.Do(t, q); again.Status != http.StatusOK || again.Header.Get("Idempotency-Replayed") != "true" || !strings.Contains(again.Body, "4711") {
		t.Errorf("sent again: %d %s", again.Status, again.Body)
	}
	o := g.Options
	o.Auth = auth("sku")
	hangUp(t, g, o, readAnew, 1)
	if answer := g.Do(t, q); answer.Status != http.StatusUnprocessableEntity || strings.Contains(answer.Body, "4711") {
		t.Errorf("with less to read: %d %s", answer.Status, answer.Body)
	}
}
