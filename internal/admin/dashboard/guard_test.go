package dashboard_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// ask sends a request as it is, and follows no redirect.
func ask(t *testing.T, method, address, body string, change func(*http.Request)) testenv.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if change != nil {
		change(r)
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return testenv.Response{Status: answer.StatusCode, Header: answer.Header, Body: string(text)}
}

func TestNobodyGetsInFromElsewhere(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	acquire(t, g, "a", "worker", 60000)
	form := url.Values{"key": {"a"}, "token": {"1"}, "reason": {"why"}, "confirm": {"a"}}.Encode()
	for name, c := range map[string]struct {
		method, page, body string
		change             func(*http.Request)
		status             int
		says               string
	}{
		"UnderANameOfItsOwn":     {"GET", "", "", func(r *http.Request) { r.Host = "rebound.example" }, 421, "loopback"},
		"PostedByAnotherSite":    {"POST", "lock?key=a", form, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403, "not sent by a page of this dashboard"},
		"PostedByASibling":       {"POST", "lock?key=a", form, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, 403, "not sent by a page of this dashboard"},
		"PostedByAnotherOrigin":  {"POST", "lock?key=a", form, func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, 403, "not sent by a page of this dashboard"},
		"TooLarge":               {"POST", "lock?key=a", form + "&x=" + strings.Repeat("x", 20000), nil, 400, "too large"},
		"WithoutAKey":            {"POST", "lock", "reason=x", nil, 400, "names no lock key"},
		"NoSuchPage":             {"GET", "nothing", "", nil, 404, "nothing at this address"},
		"NoSuchRecord":           {"GET", "refusal?id=99", "", nil, 404, "never there"},
		"NoRecord":               {"GET", "refusal?id=x", "", nil, 400, "names no record"},
		"AKeyThatIsNone":         {"GET", "lock?key=%00", "", nil, 400, "The lock key is"},
		"ACursorThatIsNone":      {"GET", "refusals?before=x-1", "", nil, 400, "no such page"},
		"ATimeThatIsNone":        {"GET", "refusals?since=yesterday", "", nil, 400, "A time is written as"},
		"ASpanThatIsNone":        {"GET", "refusals?span=1y", "", nil, 400, "no such span"},
		"ADispositionThatIsNone": {"GET", "refusals?disposition=lost", "", nil, 400, "an event"},
		"ACodeThatIsNone":        {"GET", "refusals?code=%00", "", nil, 400, "no text"},
		"AnotherMethod":          {"PUT", "lock?key=a", "", nil, 404, "nothing at this address"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := ask(t, c.method, ui(g)+c.page, c.body, c.change)
			if answer.Status != c.status || !strings.Contains(answer.Body, c.says) {
				t.Errorf("%d, not %d and %q: %s", answer.Status, c.status, c.says, answer.Body)
			}
			holdsHeaders(t, answer)
		})
	}
	if !look(t, g, "a").Live {
		t.Error("one of them revoked the lock")
	}
}

func holdsHeaders(t *testing.T, answer testenv.Response) {
	t.Helper()
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
		"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "no-referrer",
	} {
		if got := answer.Header.Get(name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
}

func TestEveryFileHasTheHeaders(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	for file, media := range map[string]string{"style.css": "text/css", "app.js": "text/javascript", "icon.svg": "image/svg+xml", "": "text/html"} {
		answer := ask(t, "GET", ui(g)+file, "", nil)
		if got := answer.Header.Get("Content-Type"); answer.Status != 200 || !strings.HasPrefix(got, media) {
			t.Errorf("%q: %d %s", file, answer.Status, got)
		}
		holdsHeaders(t, answer)
		tag := answer.Header.Get("ETag")
		if file == "" {
			continue
		}
		if again := ask(t, "GET", ui(g)+file, "", func(r *http.Request) { r.Header.Set("If-None-Match", tag) }); again.Status != http.StatusNotModified {
			t.Errorf("%q again: %d", file, again.Status)
		}
	}
	if probe := ask(t, "GET", g.AdminURL+"/livez", "", func(r *http.Request) { r.Host = "probe.example" }); probe.Status != 200 || probe.Body != "ok\n" {
		t.Errorf("/livez: %d %q", probe.Status, probe.Body)
	}
	for path, to := range map[string]string{"/": "ui/", "/ui": "ui/"} {
		if answer := ask(t, "GET", g.AdminURL+path, "", nil); answer.Status != 303 || answer.Header.Get("Location") != to {
			t.Errorf("%s: %d %v", path, answer.Status, answer.Header)
		}
	}
}

// Where nobody is authenticated, pages that tell of keys and clients stay on
// loopback, as the workers' listener does.
func TestOffLoopbackThereAreNoPagesWithoutAuthentication(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Env: []string{"FENCEGATE_ADMIN_LISTEN=0.0.0.0:0"}})
	acquire(t, g, "a", "worker", 60000)
	at, err := url.Parse(g.AdminURL)
	if err != nil {
		t.Fatal(err)
	}
	base := "http://127.0.0.1:" + at.Port()
	for _, page := range []string{"", "locks", "lock?key=a", "stream", "app.js"} {
		if answer := ask(t, "GET", base+"/ui/"+page, "", nil); answer.Status != 403 || !strings.Contains(answer.Body, "served on loopback only") {
			t.Errorf("%s: %d %s", page, answer.Status, answer.Body)
		}
	}
	if answer := ask(t, "GET", base+"/readyz", "", nil); answer.Status != 200 {
		t.Errorf("/readyz: %d", answer.Status)
	}
}
