package client

import (
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// Transport makes any HTTP or PostgREST client write under Lease: it adds the
// three lock headers, and the client's credential, to what goes to the gateway's /rest, and to nothing else,
// also not after a redirect. Once the lease can't be relied upon it sends
// nothing at all, wherever to, and returns an error that is ErrLost or
// ErrReleased. A refusal by the fence that comes back ends the lease's trust.
type Transport struct {
	Lease *Lease            // needed
	Base  http.RoundTripper // nil: that of the lease's client
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	// Right before sending, and by the clocks: timers are late after a pause.
	if err := t.Lease.Err(); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, &localRefusal{err}
	}
	base := t.Lease.client.transport
	if t.Base != nil {
		base = t.Lease.client.vouch(t.Base)
	}
	ours := under(t.Lease.client.base, "rest", req.URL)
	if ours {
		req = req.Clone(req.Context())
		for name, value := range t.Lease.headers {
			req.Header.Set(name, value)
		}
	}
	resp, err := base.RoundTrip(req)
	if err == nil && ours {
		t.Lease.heed(resp)
	}
	return resp, err
}

// localRefusal is why nothing was sent.
type localRefusal struct{ err error }

func (r *localRefusal) Error() string { return "nothing was sent: " + r.err.Error() }
func (r *localRefusal) Unwrap() error { return r.err }

// heed ends the lease's trust if the answer is a refusal by the fence. Its body
// is left to who asked.
func (l *Lease) heed(resp *http.Response) {
	code := resp.Header.Get("Fencing-Refused")
	if code == "" {
		return
	}
	l.lose(&Error{
		Status: resp.StatusCode, Code: code, Refused: code, Detail: "the fence refused a write under this lease",
		LockKey: l.wire, PresentedToken: l.headers[tokenHeader], RequestID: resp.Header.Get("Request-Id"),
	})
}

// under reports whether target is the gateway's path below, or in it. Case and
// the default port of a host do not matter.
func under(base *url.URL, below string, target *url.URL) bool {
	if !strings.EqualFold(base.Scheme, target.Scheme) || hostPort(base) != hostPort(target) {
		return false
	}
	root, asked := strings.TrimSuffix(base.JoinPath(below).Path, "/"), path.Clean(target.Path)
	return asked == root || strings.HasPrefix(asked, root+"/")
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}

// HTTPClient returns an HTTP client whose requests go by a Transport. It follows
// no redirects: the gateway has none.
func (l *Lease) HTTPClient() *http.Client {
	return &http.Client{Transport: &Transport{Lease: l}, CheckRedirect: stay}
}

// isLost tells an error that stands for the end of trust.
func isLost(err error) bool { return errors.Is(err, ErrLost) }
