package identity_test

import (
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/fencegate/fencegate/internal/identity"
)

// Whatever is sent, nobody gets in who does not have the key or the secret.
func FuzzAuthorization(f *testing.F) {
	key, kept := identity.NewKey(time.Time{})
	secret := sha256.Sum256([]byte("a secret that is long enough for this"))
	i, err := identity.New(f.Context(), identity.Config{Policy: policy(),
		JWT:        &identity.JWT{Issuer: issuer, Audience: audience, Algorithms: []string{"HS256"}, Keys: identity.KeySource{Secret: secret[:]}},
		Principals: []identity.Principal{{Name: "w", Keys: []identity.Key{kept}}}})
	if err != nil {
		f.Fatal(err)
	}
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, claims(jwt.MapClaims{"exp": 4102444800}))
	good, err := token.SignedString(secret[:])
	if err != nil {
		f.Fatal(err)
	}
	parts := strings.Split(good, ".")
	for _, seed := range []string{"", "Bearer", "Bearer " + key + "x", "Bearer fgk_", "Bearer " + good + ".", "Bearer " + parts[0] + "." + parts[1] + ".",
		"Bearer eyJhbGciOiJub25lIn0.e30.", "Bearer ..", "basic x", "Bearer " + strings.Repeat(".", 1000), "Bearer e30.e30.e30", "Bearer\x00", "Bearer \xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		p, err := i.Principal(with(header))
		var rejection *identity.Rejection
		switch {
		case strings.EqualFold(header, "Bearer "+good), strings.EqualFold(header, "Bearer "+key):
		case p.Name != "" || !errors.As(err, &rejection):
			t.Errorf("%q got in as %q, %v", header, p.Name, err)
		case strings.Contains(rejection.Detail, header) && len(header) > 20:
			t.Errorf("the answer repeats %q", header)
		}
	})
}
