package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"

	"github.com/fencegate/fencegate/internal/gate"
)

// maxIdempotencyKey bounds the header's value, in bytes.
const maxIdempotencyKey = 255

// idempotencyKey reads the header Idempotency-Key, quoted or bare. The zero
// Once if there is none.
func idempotencyKey(h http.Header) (gate.Once, error) {
	values := h.Values("Idempotency-Key")
	if len(values) == 0 {
		return gate.Once{}, nil
	}
	key := values[0]
	if len(key) >= 2 && key[0] == '"' && key[len(key)-1] == '"' {
		key = key[1 : len(key)-1]
	}
	visible := !strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' })
	if len(values) > 1 || key == "" || len(key) > maxIdempotencyKey || !visible {
		return gate.Once{}, &fault{status: http.StatusBadRequest, slug: "idempotency_key_malformed", parameter: "Idempotency-Key",
			detail: fmt.Sprintf("Idempotency-Key is 1 to %d visible ASCII characters, quoted or bare, given once", maxIdempotencyKey)}
	}
	return gate.Once{Key: key}, nil
}

// fingerprint tells one request from another under the same key, by everything
// that says what is written and what is answered. The lock headers are no part of
// it: a retry may come under a newer grant.
func fingerprint(r *http.Request, bodyDigest string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		r.Method, r.URL.EscapedPath(), r.URL.RawQuery, bodyDigest,
		r.Header.Get("Content-Profile"), r.Header.Get("Prefer"), r.Header.Get("Accept"), strings.Join(r.Header.Values("If-Match"), ","),
	}, "\n")))
	return hex.EncodeToString(sum[:])
}
