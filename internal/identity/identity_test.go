package identity_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/identity"
)

func policy() *auth.Policy {
	return auth.NewPolicy([]auth.Role{{Name: "operator", Admin: true}, {Name: "worker"},
		{Name: "app", Calls: []auth.Callable{{Name: "take"}}, DatabaseRole: "app"}, {Name: "house", Calls: []auth.Callable{{Name: "take"}}}})
}

func open(t *testing.T, cfg identity.Config) *identity.Identity {
	t.Helper()
	cfg.Policy = policy()
	i, err := identity.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func with(authorization ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for _, value := range authorization {
		r.Header.Add("Authorization", value)
	}
	return r
}

// rejected returns what the caller is told.
func rejected(t *testing.T, i *identity.Identity, r *http.Request) string {
	t.Helper()
	p, err := i.Principal(r)
	var rejection *identity.Rejection
	if !errors.As(err, &rejection) || p.Name != "" || p.Admin {
		t.Errorf("%v: got in as %q, %v", r.Header, p.Name, err)
		return ""
	}
	return rejection.Detail
}

func TestAPIKeys(t *testing.T) {
	t.Parallel()
	good, kept := identity.NewKey(time.Time{})
	second, keptToo := identity.NewKey(time.Now().Add(time.Hour))
	old, expired := identity.NewKey(time.Now().Add(-time.Second))
	stranger, _ := identity.NewKey(time.Time{})
	i := open(t, identity.Config{Principals: []identity.Principal{
		{Name: "a", Roles: []string{"worker"}, Keys: []identity.Key{kept, keptToo, expired}},
		{Name: "boss", Roles: []string{"operator"}},
	}})

	for _, key := range []string{"Bearer " + good, "bearer " + second} {
		if p, err := i.Principal(with(key)); err != nil || p.Name != "a" || p.Admin {
			t.Errorf("%.20s…: %q, %v", key, p.Name, err)
		}
	}
	id := strings.Split(good, "_")[1]
	refusal := rejected(t, i, with("Bearer "+stranger))
	for name, header := range map[string][]string{
		"another secret":           {"Bearer fgk_" + id + "_" + strings.Split(stranger, "_")[2]},
		"a longer one":             {"Bearer " + good + "x"},
		"a shorter one":            {"Bearer " + good[:len(good)-1]},
		"the id alone":             {"Bearer fgk_" + id},
		"no id":                    {"Bearer fgk_"},
		"no key":                   {"Bearer fgk__"},
		"the hash":                 {"Bearer fgk_" + id + "_" + string(kept.SHA256[:])},
		"no API key":               {"Bearer letmein"},
		"two, the first one good":  {"Bearer " + good, "Bearer " + stranger},
		"two, the second one good": {"Bearer " + stranger, "Bearer " + good},
		"the same one twice":       {"Bearer " + good, "Bearer " + good},
		"a space more":             {"Bearer  " + good},
	} {
		if told := rejected(t, i, with(header...)); told != refusal {
			t.Errorf("%s is told %q, want %q", name, told, refusal)
		}
	}
	if told := rejected(t, i, with("Bearer "+old)); !strings.Contains(told, "expired") {
		t.Errorf("the owner of an expired key is told %q", told)
	}
	for _, header := range []string{"", "Bearer", "Bearer ", "Basic " + good, good} {
		if told := rejected(t, i, with(header)); !strings.Contains(told, "no credentials") {
			t.Errorf("Authorization: %q is told %q", header, told)
		}
	}
}

func TestTwoKeysOfOneIDAreAMistake(t *testing.T) {
	t.Parallel()
	_, kept := identity.NewKey(time.Time{})
	cfg := identity.Config{Policy: policy(), Principals: []identity.Principal{{Name: "a", Keys: []identity.Key{kept}}, {Name: "b", Keys: []identity.Key{kept}}}}
	if _, err := identity.New(context.Background(), cfg); err == nil {
		t.Error("one key would be two people's")
	}
}

func TestClientCertificates(t *testing.T) {
	t.Parallel()
	certificate := &x509.Certificate{Subject: pkix.Name{CommonName: "common"}, DNSNames: []string{"a.internal", "b.internal"},
		URIs: []*url.URL{{Scheme: "spiffe", Host: "example.com", Path: "/worker"}}}
	for _, c := range []struct {
		part identity.Certificate
		name string
		in   bool
	}{
		{identity.CommonName, "common", true},
		{identity.CommonName, "a.internal", false},
		{identity.DNSName, "b.internal", true},
		{identity.DNSName, "common", false},
		{identity.URI, "spiffe://example.com/worker", true},
		{identity.URI, "spiffe://example.com/worker/", false},
		{"", "common", false},
	} {
		i := open(t, identity.Config{Name: c.part, Principals: []identity.Principal{{Name: "w", Certificate: c.name}}})
		r := with()
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificate}, VerifiedChains: [][]*x509.Certificate{{certificate}}}
		if p, err := i.Principal(r); (err == nil && p.Name == "w") != c.in {
			t.Errorf("%s %s: %q, %v", c.part, c.name, p.Name, err)
		}
		r.TLS.VerifiedChains = nil
		rejected(t, i, r) // what nobody has verified proves nothing
	}
	nameless := open(t, identity.Config{Name: identity.CommonName, Principals: []identity.Principal{{Name: "w"}}})
	r := with()
	r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{}}}}
	rejected(t, nameless, r)
}
