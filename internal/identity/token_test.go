package identity_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/fencegate/fencegate/internal/identity"
)

const (
	issuer   = "https://id.example.com/"
	audience = "fencegate"
)

// claims are good ones, but for what other says.
func claims(other jwt.MapClaims) jwt.MapClaims {
	all := jwt.MapClaims{"iss": issuer, "aud": audience, "sub": "worker-1", "exp": time.Now().Add(time.Hour).Unix(), "tenant": "acme"}
	for name, value := range other {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	return all
}

func sign(t *testing.T, method jwt.SigningMethod, key any, kid string, other jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims(other))
	if kid != "" {
		token.Header["kid"] = kid
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return "Bearer " + text
}

func rsaKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func publicPEM(t *testing.T, key crypto.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func tokensOf(algorithms []string, keys identity.KeySource) identity.Config {
	return identity.Config{
		JWT:        &identity.JWT{Issuer: issuer, Audience: audience, Algorithms: algorithms, RolesClaim: "realm.roles", Keys: keys},
		Principals: []identity.Principal{{Name: "known", Subject: "subject-of-known", Roles: []string{"operator"}}},
	}
}

func TestTokensOfEveryAlgorithm(t *testing.T) {
	t.Parallel()
	secret := make([]byte, 64)
	rand.Read(secret)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	long := rsaKey(t)
	for _, c := range []struct {
		method jwt.SigningMethod
		key    any
		source identity.KeySource
	}{
		{jwt.SigningMethodHS256, secret, identity.KeySource{Secret: secret}},
		{jwt.SigningMethodHS512, secret, identity.KeySource{Secret: secret}},
		{jwt.SigningMethodRS256, long, identity.KeySource{PublicPEM: publicPEM(t, long.Public())}},
		{jwt.SigningMethodPS256, long, identity.KeySource{PublicPEM: publicPEM(t, long.Public())}},
		{jwt.SigningMethodES256, curve, identity.KeySource{PublicPEM: publicPEM(t, curve.Public())}},
		{jwt.SigningMethodEdDSA, edwards, identity.KeySource{PublicPEM: publicPEM(t, edwards.Public())}},
		{jwt.SigningMethodRS256, long, identity.KeySource{Set: keySet(t, map[string]*rsa.PublicKey{"": &long.PublicKey})}},
	} {
		i := open(t, tokensOf([]string{c.method.Alg()}, c.source))
		if p, err := i.Principal(with(sign(t, c.method, c.key, "", nil))); err != nil || p.Name != "jwt:worker-1" {
			t.Errorf("%s: %q, %v", c.method.Alg(), p.Name, err)
		}
	}
}

func TestTokensOfOthersAreRejected(t *testing.T) {
	t.Parallel()
	key, stranger := rsaKey(t), rsaKey(t)
	public := publicPEM(t, key.Public())
	i := open(t, tokensOf([]string{"RS256"}, identity.KeySource{PublicPEM: public}))
	good := sign(t, jwt.SigningMethodRS256, key, "", nil)
	if p, err := i.Principal(with(good)); err != nil || p.Name != "jwt:worker-1" {
		t.Fatalf("%q, %v", p.Name, err)
	}
	parts := strings.Split(good, ".")
	unsigned := sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "", nil)
	critical := jwt.NewWithClaims(jwt.SigningMethodRS256, claims(nil))
	critical.Header["crit"], critical.Header["b64"] = []string{"b64"}, false
	extended, err := critical.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	secretly := "the credentials are not accepted"
	for name, text := range map[string]string{
		"another's key":                    sign(t, jwt.SigningMethodRS256, stranger, "", nil),
		"another's key, expired":           sign(t, jwt.SigningMethodRS256, stranger, "", jwt.MapClaims{"exp": 1}),
		"no signature":                     unsigned,
		"its signature cut off":            parts[0] + "." + parts[1] + ".",
		"the public key as an HMAC secret": sign(t, jwt.SigningMethodHS256, public, "", nil),
		"another algorithm":                sign(t, jwt.SigningMethodRS512, key, "", nil),
		"other claims":                     parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"root"}`)) + "." + parts[2],
		"an extension nobody understands":  "Bearer " + extended,
		"no token":                         "Bearer a.b.c",
		"words":                            "Bearer x",
	} {
		if told := rejected(t, i, with(text)); told != secretly {
			t.Errorf("%s is told %q", name, told)
		}
	}
	for name, other := range map[string]jwt.MapClaims{
		"expired":          {"exp": time.Now().Add(-time.Minute).Unix()},
		"without end":      {"exp": nil},
		"not yet":          {"nbf": time.Now().Add(time.Minute).Unix()},
		"another issuer":   {"iss": "https://evil.example.com/"},
		"no issuer":        {"iss": nil},
		"another audience": {"aud": []string{"other", "others"}},
		"no audience":      {"aud": nil},
		"no subject":       {"sub": nil},
		"an empty subject": {"sub": ""},
		"an odd subject":   {"sub": "a\nb"},
		"a long subject":   {"sub": strings.Repeat("x", 300)},
	} {
		if told := rejected(t, i, with(sign(t, jwt.SigningMethodRS256, key, "", other))); told == secretly {
			t.Errorf("%s: its owner is told nothing", name)
		}
	}
}

func TestWhoATokenIs(t *testing.T) {
	t.Parallel()
	key := rsaKey(t)
	i := open(t, tokensOf([]string{"RS256"}, identity.KeySource{PublicPEM: publicPEM(t, key.Public())}))
	for _, c := range []struct {
		other jwt.MapClaims
		name  string
		admin bool
	}{
		{nil, "jwt:worker-1", false},
		{jwt.MapClaims{"sub": "known"}, "jwt:known", false}, // a subject is never a principal's name
		{jwt.MapClaims{"sub": "subject-of-known"}, "known", true},
		{jwt.MapClaims{"realm": map[string]any{"roles": []string{"worker", "operator", "no such role"}}}, "jwt:worker-1", true},
		{jwt.MapClaims{"realm.roles": "worker operator"}, "jwt:worker-1", true},
		{jwt.MapClaims{"realm": map[string]any{"roles": []any{1, nil, "worker"}}}, "jwt:worker-1", false},
		{jwt.MapClaims{"realm": "operator", "roles": "operator"}, "jwt:worker-1", false},
	} {
		p, err := i.Principal(with(sign(t, jwt.SigningMethodRS256, key, "", c.other)))
		if err != nil || p.Name != c.name || p.Admin != c.admin {
			t.Errorf("%v: %q, admin %t, %v", c.other, p.Name, p.Admin, err)
		}
	}
}

func TestATokenOfTwoDatabaseRolesIsRejected(t *testing.T) {
	t.Parallel()
	key := rsaKey(t)
	i := open(t, tokensOf([]string{"RS256"}, identity.KeySource{PublicPEM: publicPEM(t, key.Public())}))
	if got := rejected(t, i, with(sign(t, jwt.SigningMethodRS256, key, "", jwt.MapClaims{"realm.roles": "app worker house"}))); !strings.Contains(got, "can't be used together") {
		t.Errorf("it is rejected as %q", got)
	}
	p, err := i.Principal(with(sign(t, jwt.SigningMethodRS256, key, "", jwt.MapClaims{"realm.roles": "app worker"})))
	if err != nil || p.DatabaseRole() != "app" {
		t.Errorf("one of one runs as %q: %v", p.DatabaseRole(), err)
	}
}

// keySet is a JSON Web Key Set.
func keySet(t *testing.T, keys map[string]*rsa.PublicKey) []byte {
	t.Helper()
	set := struct {
		Keys []map[string]string `json:"keys"`
	}{Keys: []map[string]string{}}
	for kid, key := range keys {
		one := map[string]string{"kty": "RSA", "use": "sig", "alg": "RS256",
			"n": base64.RawURLEncoding.EncodeToString(key.N.Bytes()),
			"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes())}
		if kid != "" {
			one["kid"] = kid
		}
		set.Keys = append(set.Keys, one)
	}
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// provider serves a key set that can be changed and taken away.
type provider struct {
	meanwhile atomic.Pointer[context.CancelFunc] // nil: nothing happens while it is asked
	*httptest.Server
	set   atomic.Pointer[[]byte] // nil: 503
	moved atomic.Bool            // it redirects
	asked atomic.Int64
}

func startProvider(t *testing.T, set []byte) *provider {
	t.Helper()
	p := &provider{}
	if set != nil {
		p.set.Store(&set)
	}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.asked.Add(1)
		if meanwhile := p.meanwhile.Load(); meanwhile != nil {
			(*meanwhile)()
		}
		if p.moved.Load() {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusFound)
			return
		}
		if set := p.set.Load(); set != nil {
			w.Write(*set)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *provider) config() identity.Config {
	return tokensOf([]string{"RS256"}, identity.KeySource{URL: p.URL, Log: slog.New(slog.DiscardHandler)})
}

func TestRemoteKeysAreChangedWithoutARestart(t *testing.T) {
	t.Parallel()
	first, second := rsaKey(t), rsaKey(t)
	keys := map[string]*rsa.PublicKey{"one": &first.PublicKey}
	p := startProvider(t, keySet(t, keys))
	i := open(t, p.config())
	in := func(key *rsa.PrivateKey, kid string) error {
		_, err := i.Principal(with(sign(t, jwt.SigningMethodRS256, key, kid, nil)))
		return err
	}
	if err := in(first, "one"); err != nil {
		t.Fatal(err)
	}
	both := maps.Clone(keys)
	both["two"] = &second.PublicKey
	set := keySet(t, both)
	p.set.Store(&set)
	if err := in(second, "two"); err != nil {
		t.Errorf("the new key, in use at once: %v", err)
	}
	if err := in(second, "one"); err == nil {
		t.Error("a token passed under another key's name")
	}
	if err := in(first, "one"); err != nil {
		t.Errorf("the old key, still listed: %v", err)
	}

	p.set.Store(nil)
	if err := errors.Join(in(first, "one"), in(second, "two")); err != nil {
		t.Errorf("while the provider is away: %v", err)
	}
	asked := p.asked.Load()
	for n := range 50 {
		if err := in(first, fmt.Sprintf("unknown-%d", n)); err == nil {
			t.Fatal("a key that nobody knows let somebody in")
		}
	}
	if more := p.asked.Load() - asked; more > 2 {
		t.Errorf("50 tokens of unknown keys asked the provider %d times", more)
	}
}

// Whoever sends a token of an unknown key and goes at once does not use up the look for
// new keys, of which there are few.
func TestALookForNewKeysOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	first, second := rsaKey(t), rsaKey(t)
	p := startProvider(t, keySet(t, map[string]*rsa.PublicKey{"one": &first.PublicKey}))
	i := open(t, p.config())
	set := keySet(t, map[string]*rsa.PublicKey{"two": &second.PublicKey})
	p.set.Store(&set)
	gone, leave := context.WithCancel(t.Context())
	p.meanwhile.Store(&leave)
	if _, err := i.Principal(with(sign(t, jwt.SigningMethodRS256, first, "nobody's", nil)).WithContext(gone)); err == nil {
		t.Error("an unknown key let somebody in")
	}
	if _, err := i.Principal(with(sign(t, jwt.SigningMethodRS256, second, "two", nil))); err != nil {
		t.Errorf("the new key, after somebody who did not stay: %v", err)
	}
}

func TestBeforeTheFirstKeysNobodyCanBeTold(t *testing.T) {
	t.Parallel()
	key := rsaKey(t)
	p := startProvider(t, nil)
	i := open(t, p.config())
	token := with(sign(t, jwt.SigningMethodRS256, key, "one", nil))
	if _, err := i.Principal(token); !errors.Is(err, identity.ErrUnavailable) {
		t.Errorf("without any key: %v", err)
	}
	rejected(t, i, with("Bearer fgk_000000000000_x")) // needs no key set
}

func TestASetThatWouldLockEverybodyOutIsNotTaken(t *testing.T) {
	t.Parallel()
	key := rsaKey(t)
	good := keySet(t, map[string]*rsa.PublicKey{"one": &key.PublicKey})
	for name, set := range map[string][]byte{
		"empty":         []byte(`{"keys":[]}`),
		"no set":        []byte(`{}`),
		"no JSON":       []byte(`<html>`),
		"too large":     []byte(`{"keys":[],"x":"` + strings.Repeat("x", 2<<20) + `"}`),
		"symmetric":     []byte(`{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"one"}]}`),
		"another's URL": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startProvider(t, good)
			i := open(t, p.config())
			p.set.Store(&set)
			p.moved.Store(set == nil)
			if _, err := i.Principal(with(sign(t, jwt.SigningMethodRS256, key, "two", nil))); err == nil {
				t.Error("an unknown key let somebody in")
			}
			if _, err := i.Principal(with(sign(t, jwt.SigningMethodRS256, key, "one", nil))); err != nil {
				t.Errorf("the last good key: %v", err)
			}
		})
	}
	if _, err := identity.New(t.Context(), identity.Config{Policy: policy(), JWT: &identity.JWT{Algorithms: []string{"HS256"},
		Keys: identity.KeySource{Set: []byte(`{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`)}}}); err == nil {
		t.Error("a secret in a file of public keys was taken")
	}
}
