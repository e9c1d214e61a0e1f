package proxy_test

import (
	"net/http"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestWhereARequestComesFromIsWhatTrustedProxiesSay(t *testing.T) {
	t.Parallel()
	trusting := testenv.StartGateway(t, testenv.GatewayOptions{Config: "trusted_proxies: [127.0.0.1, 10.0.0.0/8, 'fd00::/8']\n"})
	wary := testenv.StartGateway(t, testenv.GatewayOptions{})
	refusedAs := want{status: 412, slug: "token_not_granted"}
	for name, c := range map[string]struct {
		forwarded []string
		want      string
	}{
		"nothing":                     {nil, "127.0.0.1"},
		"one hop":                     {[]string{"203.0.113.7"}, "203.0.113.7"},
		"a hop that the client added": {[]string{"198.51.100.1, 203.0.113.7"}, "203.0.113.7"},
		"through another proxy":       {[]string{"198.51.100.1, 203.0.113.7, 10.1.2.3"}, "203.0.113.7"},
		"two headers":                 {[]string{"198.51.100.1", "203.0.113.7, fd00::1"}, "203.0.113.7"},
		"a version 6 address":         {[]string{"2001:db8::1"}, "2001:db8::1"},
		"version 4 in version 6":      {[]string{"::ffff:203.0.113.7"}, "203.0.113.7"},
		"proxies alone":               {[]string{"10.1.2.3"}, "10.1.2.3"},
		"no address":                  {[]string{"<script>"}, "127.0.0.1"},
		"no address behind a proxy":   {[]string{"nobody, 10.1.2.3"}, "10.1.2.3"},
	} {
		for g, want := range map[*testenv.Gateway]string{trusting: c.want, wary: "127.0.0.1"} {
			l := g.Acquire(t, "inventory:SKU-1", 60_000)
			header := l.Header()
			header.Set("Fencing-Token", "999")
			if c.forwarded != nil {
				header["X-Forwarded-For"] = c.forwarded
			}
			answer := g.Do(t, testenv.Request{Method: http.MethodDelete, Path: "/rest/inventory?sku=eq.SKU-1", Header: header})
			p := mustRefuse(t, answer, refusedAs)
			var record struct {
				Remote string `json:"remote_address"`
			}
			g.Do(t, testenv.Request{Path: "/v1/refusals/" + p.AuditID}).JSON(t, &record)
			if record.Remote != want {
				t.Errorf("%s: recorded as from %q, want %q", name, record.Remote, want)
			}
			g.Release(t, l)
		}
	}
}
