package identity

import (
	"bytes"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/time/rate"
)

// KeySource is where the keys come from that tokens are checked with. Exactly one
// of its first four is set.
type KeySource struct {
	Secret    []byte // for HMAC
	PublicPEM []byte // a public key or a certificate
	Set       []byte // a JSON Web Key Set
	URL       string // of one, read again every few minutes and for a key that is not known
	Roots     *x509.CertPool
	Log       *slog.Logger
}

// Bounds of reading a remote set.
const (
	refreshEvery   = 5 * time.Minute
	unknownEvery   = 5 * time.Second // between two looks for keys that are not known
	fetchTimeout   = 5 * time.Second
	unknownTimeout = 2 * time.Second // which keeps its request waiting
	maxSet         = 1 << 20         // bytes
)

// keySet finds the key of a token.
type keySet struct {
	one any // the only one; nil: set has them
	set keyfunc.Keyfunc
}

func openKeys(ctx context.Context, source KeySource) (*keySet, error) {
	switch {
	case source.Secret != nil:
		return &keySet{one: source.Secret}, nil
	case source.PublicPEM != nil:
		key, err := publicKey(source.PublicPEM)
		return &keySet{one: key}, err
	case source.Set != nil:
		if err := checkSet(source.Set); err != nil {
			return nil, err
		}
		set, err := keyfunc.NewJWKSetJSON(source.Set)
		return &keySet{set: set}, err
	}
	set, err := remoteKeys(ctx, source)
	return &keySet{set: set}, err
}

// remoteKeys keeps the last good set while there is no other.
func remoteKeys(ctx context.Context, source KeySource) (keyfunc.Keyfunc, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: source.Roots}
	return keyfunc.NewDefaultOverrideCtx(ctx, []string{source.URL}, keyfunc.Override{
		Client:            &http.Client{Transport: &setTransport{transport}, Timeout: fetchTimeout, CheckRedirect: noRedirect},
		HTTPTimeout:       fetchTimeout,
		RefreshInterval:   refreshEvery,
		RefreshUnknownKID: rate.NewLimiter(rate.Every(unknownEvery), 1),
		RateLimitWaitMax:  unknownTimeout,
		RefreshErrorHandlerFunc: func(string) func(context.Context, error) {
			return func(_ context.Context, err error) {
				source.Log.Error("the keys that tokens are checked with could not be read; the last ones are used on", "url", source.URL, "error", err)
			}
		},
	})
}

// noRedirect: what is trusted is what was configured.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// setTransport lets only whole, sensible sets through: an empty one would lock
// everybody out.
type setTransport struct{ http.RoundTripper }

func (t *setTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.RoundTripper.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		return answer, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxSet+1))
	if err == nil {
		err = checkSet(body)
	}
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return answer, nil
}

func checkSet(body []byte) error {
	var set struct {
		Keys []struct {
			Kty string `json:"kty"`
		} `json:"keys"`
	}
	if len(body) > maxSet {
		return fmt.Errorf("the key set is larger than %d bytes", maxSet)
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return fmt.Errorf("reading the key set: %w", err)
	}
	if len(set.Keys) == 0 {
		return errors.New("the key set has no keys")
	}
	for _, key := range set.Keys {
		if key.Kty == string(jwkset.KtyOct) {
			return errors.New("the key set has a symmetric key, which everybody who can read it could sign with")
		}
	}
	return nil
}

func publicKey(text []byte) (crypto.PublicKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the public key is not PEM")
	}
	if block.Type == "CERTIFICATE" {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("reading the certificate: %w", err)
		}
		return certificate.PublicKey, nil
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the public key: %w", err)
	}
	return key, nil
}

// find returns the key for a token, or ErrUnavailable while none was ever read.
func (k *keySet) find(ctx context.Context) jwt.Keyfunc {
	return func(token *jwt.Token) (any, error) {
		if _, critical := token.Header["crit"]; critical {
			return nil, errors.New("the token has an extension that must be understood, and none is")
		}
		if k.one != nil {
			return k.one, nil
		}
		// A look for new keys, which are few, is for everybody: its caller can't end it.
		key, err := k.set.KeyfuncCtx(context.WithoutCancel(ctx))(token)
		if err == nil {
			return key, nil
		}
		if !k.any(ctx) {
			return nil, ErrUnavailable
		}
		return nil, err
	}
}

// any reports whether there is a key.
func (k *keySet) any(ctx context.Context) bool {
	if k.one != nil {
		return true
	}
	all, err := k.set.Storage().KeyReadAll(ctx)
	return err == nil && len(all) > 0
}
