package identity_test

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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

// A genuine token opens only what its claims say, as a plain reading of them has it.
func FuzzToken(f *testing.F) {
	secret := []byte(strings.Repeat("a secret ", 5))
	i, err := identity.New(f.Context(), identity.Config{Policy: policy(), JWT: &identity.JWT{
		Issuer: issuer, Audience: audience, Algorithms: []string{"HS256"}, RolesClaim: "realm.roles", Keys: identity.KeySource{Secret: secret}}})
	if err != nil {
		f.Fatal(err)
	}
	const good = `{"iss":"` + issuer + `","aud":"` + audience + `","sub":"w","exp":4102444800`
	for _, more := range []string{
		`}`, `,"realm":{"roles":["operator"]}}`, `,"realm":{"roles":"worker operator"}}`, `,"realm.roles":"operator"}`, `,"exp":1}`, `,"exp":"4102444800"}`, `,"exp":1e400}`,
		`,"sub":"a b"}`, `,"sub":7}`, `,"aud":["x","` + audience + `"]}`, `,"aud":[]}`, `,"aud":null}`, `,"iss":"` + issuer + `x"}`, `,"nbf":4102444800}`, `,"ISS":"x"}`, `,"realm":{"roles":[["operator"],"Operator"]}}`, ``,
	} {
		f.Add([]byte(`{"alg":"HS256"}`), []byte(good+more))
	}
	if p, err := i.Principal(signedBy(secret, []byte(`{"alg":"HS256"}`), []byte(good+`}`))); err != nil || p.Name != "jwt:w" {
		f.Fatalf("a good token is of %q, %v", p.Name, err)
	}
	f.Add([]byte(`{"alg":"none"}`), []byte(good+`}`))
	f.Add([]byte(`{"alg":"HS512","kid":"../x"}`), []byte(good+`}`))
	f.Add([]byte(`{"alg":"HS256","crit":["exp"]}`), []byte(good+`}`))
	f.Fuzz(func(t *testing.T, header, body []byte) {
		p, err := i.Principal(signedBy(secret, header, body))
		if err != nil {
			if rejection := (*identity.Rejection)(nil); !errors.As(err, &rejection) || p.Name != "" {
				t.Errorf("%s is rejected by %v as %q", body, err, p.Name)
			}
			return
		}
		var form, said map[string]any // as it says so itself, and in no other case of letters
		err = cmp.Or(json.Unmarshal(header, &form), json.Unmarshal(body, &said))
		subject, _ := said["sub"].(string)
		ends, _ := said["exp"].(float64)
		if err != nil || form["alg"] != "HS256" || p.Name != "jwt:"+subject || said["iss"] != issuer || ends < float64(time.Now().Add(-time.Minute).Unix()) ||
			!strings.Contains(fmt.Sprint(said["aud"]), audience) || strings.ContainsAny(subject, " \n") {
			t.Errorf("%s with %s came in as %q (%v)", body, header, p.Name, err)
		}
		if p.Admin && !strings.Contains(string(body), "oper") && !strings.Contains(string(body), `\u`) {
			t.Errorf("%s is an administrator", body)
		}
	})
}

// signedBy is a request with a token of these two parts, whatever they are.
func signedBy(secret, header, body []byte) *http.Request {
	part := base64.RawURLEncoding.EncodeToString
	text := part(header) + "." + part(body)
	sum := hmac.New(sha256.New, secret)
	sum.Write([]byte(text))
	return with("Bearer " + text + "." + part(sum.Sum(nil)))
}
