package identity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/fencegate/fencegate/internal/auth"
)

// JWT says which tokens are taken.
type JWT struct {
	Issuer     string   // "": any
	Audience   string   // "": any
	Algorithms []string // one or more, either all HMAC or none
	Leeway     time.Duration
	RolesClaim string // that names the roles of a subject, its path with dots; "": none does
	Keys       KeySource
}

// subjectPrefix begins the name of a principal that only a token knows: no
// principal of the configuration has a colon in its name.
const subjectPrefix = "jwt:"

// plainSubject is what may become part of a principal's name.
var plainSubject = regexp.MustCompile(`^[\x21-\x7e]{1,200}$`)

type tokens struct {
	JWT
	parser *jwt.Parser
	keys   *keySet
}

func newTokens(ctx context.Context, cfg JWT) (*tokens, error) {
	if len(cfg.Algorithms) == 0 {
		return nil, errors.New("no algorithm for tokens is named")
	}
	options := []jwt.ParserOption{jwt.WithValidMethods(cfg.Algorithms), jwt.WithExpirationRequired(), jwt.WithLeeway(cfg.Leeway), jwt.WithStrictDecoding()}
	if cfg.Issuer != "" {
		options = append(options, jwt.WithIssuer(cfg.Issuer))
	}
	if cfg.Audience != "" {
		options = append(options, jwt.WithAudience(cfg.Audience))
	}
	keys, err := openKeys(ctx, cfg.Keys)
	if err != nil {
		return nil, err
	}
	return &tokens{JWT: cfg, parser: jwt.NewParser(options...), keys: keys}, nil
}

func (i *Identity) tokenHolder(ctx context.Context, text string) (auth.Principal, error) {
	claims := jwt.MapClaims{}
	if _, err := i.tokens.parser.ParseWithClaims(text, claims, i.tokens.keys.find(ctx)); err != nil {
		return auth.Principal{}, tokenRejection(err)
	}
	subject, err := claims.GetSubject()
	if err != nil || !plainSubject.MatchString(subject) {
		return auth.Principal{}, &Rejection{"the token's subject is missing or too long", fmt.Sprintf("%.40q", subject)}
	}
	words := textClaims(claims)
	name, roles := subjectPrefix+subject, i.tokens.roles(claims)
	if p, known := i.subjects[subject]; known {
		maps.Copy(words, p.Claims)
		name, roles = p.Name, append(roles, p.Roles...)
	}
	holder := i.policy.Principal(name, roles, words)
	if holder.Torn() {
		return auth.Principal{}, &Rejection{"the token's roles can't be used together", name + " has roles with different database_role"}
	}
	return holder, nil
}

// tokenRejection tells the caller why only once its token is known to be genuine.
func tokenRejection(err error) error {
	switch {
	case errors.Is(err, ErrUnavailable):
		return ErrUnavailable
	case errors.Is(err, jwt.ErrTokenSignatureInvalid), errors.Is(err, jwt.ErrTokenUnverifiable), errors.Is(err, jwt.ErrTokenMalformed):
		return &Rejection{badCredentials, err.Error()}
	case errors.Is(err, jwt.ErrTokenExpired):
		return &Rejection{"the token has expired", err.Error()}
	}
	return &Rejection{"the token is not for this gateway", err.Error()}
}

func textClaims(claims jwt.MapClaims) map[string]string {
	words := map[string]string{}
	for name, value := range claims {
		if text, ok := value.(string); ok {
			words[name] = text
		}
	}
	return words
}

// roles reads an array of strings, or a string of words.
func (t *tokens) roles(claims jwt.MapClaims) (names []string) {
	switch value := lookUp(claims, t.RolesClaim).(type) {
	case string:
		return strings.Fields(value)
	case []any:
		for _, item := range value {
			if name, ok := item.(string); ok {
				names = append(names, name)
			}
		}
	}
	return names
}

// lookUp finds a claim by its name, or else by its path through objects.
func lookUp(claims map[string]any, path string) any {
	if value, ok := claims[path]; ok {
		return value
	}
	name, rest, deeper := strings.Cut(path, ".")
	inner, ok := claims[name].(map[string]any)
	if !deeper || !ok {
		return nil
	}
	return lookUp(inner, rest)
}
