package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/client"
	"github.com/fencegate/fencegate/internal/testenv"
)

const loginPage = "<html>please log in</html>"

// stranger answers in the gateway's place, as a proxy does that wants a login.
func stranger(t *testing.T, status int, body string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s
}

// inPlaceOf returns a client that acquires from the gateway, and has everything
// else answered by the stranger.
func inPlaceOf(t *testing.T, g *testenv.Gateway, s *httptest.Server) *client.Client {
	t.Helper()
	return newClient(t, g.URL, through(diverting{http.DefaultTransport, s}))
}

type diverting struct {
	http.RoundTripper
	to *httptest.Server
}

func (d diverting) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Path != "/v1/leases" {
		req = req.Clone(req.Context())
		req.URL.Host = d.to.Listener.Addr().String()
	}
	return d.RoundTripper.RoundTrip(req)
}

// foreign are successes that no gateway answers.
var foreign = map[string]struct {
	status int
	body   string
}{
	"APageForLoggingIn": {http.StatusOK, loginPage},
	"Null":              {http.StatusOK, "null"},
	"OtherJSON":         {http.StatusOK, `{"status":"ok"}`},
	"Nothing":           {http.StatusNoContent, ""},
}

func TestAnAnswerThatIsNotTheGatewaysLeavesAWriteInDoubt(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	for name, f := range foreign {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := inPlaceOf(t, g, stranger(t, f.status, f.body))
			l := acquire(t, c, "inventory:"+name, client.TTL(long), client.WithoutWatchdog())
			_, err := l.Update(client.Once(t.Context(), "mine"), "inventory", sku(name), map[string]int{"available": 7})
			inDoubt(t, err)
			_, err = c.Transaction(client.Once(t.Context(), "mine"), []client.Operation{{Op: "delete"}}, l)
			inDoubt(t, err)
			if l.Err() != nil {
				t.Errorf("the lease: %v", l.Err())
			}
		})
	}
}

func inDoubt(t *testing.T, err error) {
	t.Helper()
	is(t, err, client.ErrOutcomeUnknown)
	isNot(t, err, client.ErrLost, client.ErrRefused, client.ErrConflict)
	if told := (*client.Error)(nil); !errors.As(err, &told) || told.IdempotencyKey != "mine" {
		t.Errorf("no key to ask with: %v", err)
	}
}

func TestAnAnswerThatIsNotTheGatewaysIsNoGateway(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	cases := map[string]struct {
		status int
		body   string
	}{
		"AFailureOfSomebodyElses": {http.StatusInternalServerError, loginPage},
		"FarTooMuch":              {http.StatusOK, string(make([]byte, 64<<20+1))},
	}
	for name, f := range foreign {
		cases[name] = f
	}
	for name, f := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stranger(t, f.status, f.body)
			impatient := newClient(t, s.URL, func(cfg *client.Config) { cfg.Patience = time.Millisecond })
			_, err := impatient.Acquire(t.Context(), shelf)
			noGateway(t, err)
			l := acquire(t, inPlaceOf(t, g, s), "job:"+name, client.TTL(long), client.WithoutWatchdog())
			noGateway(t, l.Renew(t.Context()))
			_, err = l.Release(t.Context())
			noGateway(t, err)
		})
	}
}

func noGateway(t *testing.T, err error) {
	t.Helper()
	is(t, err, client.ErrUnavailable)
	isNot(t, err, client.ErrLost, client.ErrRefused, client.ErrHeld, client.ErrOutcomeUnknown)
	if code(err) == "" {
		t.Errorf("no *Error: %v", err)
	}
}

func TestAnAcquireWhoseAnswerCannotBeReadMeetsItsOwnGrant(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	by := &garbling{}
	l := acquire(t, newClient(t, g.URL, through(by)), shelf, client.TTL(long))
	if l.Token() != 1 || by.asked != 2 {
		t.Errorf("token %d after %d requests", l.Token(), by.asked)
	}
	if err := available(t, l, 7); err != nil {
		t.Error(err)
	}
}

// garbling makes the first answer unreadable, and counts the acquires.
type garbling struct {
	http.Transport
	asked int
}

func (g *garbling) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := g.Transport.RoundTrip(req)
	if req.URL.Path != "/v1/leases" {
		return resp, err
	}
	if g.asked++; err == nil && g.asked == 1 {
		resp.Body.Close()
		resp.Body = io.NopCloser(strings.NewReader(loginPage))
	}
	return resp, err
}

// losing has the first write answered by nobody, although it was sent.
type losing struct {
	http.RoundTripper
	lost *atomic.Bool
}

func (l losing) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodPatch && l.lost.CompareAndSwap(false, true) {
		return nil, io.ErrUnexpectedEOF
	}
	return l.RoundTripper.RoundTrip(req)
}

func TestADoubtOutlivesWhatAStrangerSays(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	for _, status := range []int{http.StatusFound, http.StatusUnauthorized, http.StatusNotFound} {
		c := newClient(t, g.URL, through(losing{diverting{http.DefaultTransport, stranger(t, status, loginPage)}, new(atomic.Bool)}))
		l := acquire(t, c, fmt.Sprintf("inventory:%d", status))
		is(t, available(t, l, 1), client.ErrOutcomeUnknown)
	}
}
