// Package identity finds out who a request comes from, by an API key, a JWT or a
// client certificate. What that principal may do is package auth's business.
//
// Nothing here tells a caller more than whether the credentials it proved to have
// are good: an unknown key, a wrong one and one of nobody are the same answer.
package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/fencegate/fencegate/internal/auth"
)

// ErrUnavailable says that it can't be told now who the request comes from.
var ErrUnavailable = errors.New("the keys that tokens are checked with could not be read so far")

// Rejection is why a request has no principal. Detail is for the caller, Reason
// for the operator's log.
type Rejection struct {
	Detail string
	Reason string
}

func (r *Rejection) Error() string { return r.Detail + ": " + r.Reason }

const (
	noCredentials  = "no credentials: send an API key or a token as Authorization: Bearer"
	badCredentials = "the credentials are not accepted"
)

// Config says who may come. The zero value lets nobody in.
type Config struct {
	Policy     *auth.Policy
	Principals []Principal
	JWT        *JWT        // nil: no tokens
	Name       Certificate // the part of a client certificate that names a principal; "": none does
}

// Principal is somebody who is known by name.
type Principal struct {
	Name        string
	Roles       []string
	Claims      map[string]string // for lock key patterns
	Keys        []Key
	Subject     string // of a token; "": none
	Certificate string // what Config.Name has of it; "": none
}

// Identity is safe for concurrent use.
type Identity struct {
	keys         map[string]keyed // by their ids
	subjects     map[string]Principal
	certificates map[string]auth.Principal
	name         Certificate
	policy       *auth.Policy
	tokens       *tokens // nil: none are taken
}

// New returns the identity of cfg. It reads remote keys until ctx ends; that they
// can't be read now is no error.
func New(ctx context.Context, cfg Config) (*Identity, error) {
	i := &Identity{keys: map[string]keyed{}, subjects: map[string]Principal{}, certificates: map[string]auth.Principal{},
		name: cfg.Name, policy: cfg.Policy}
	for _, p := range cfg.Principals {
		known := cfg.Policy.Principal(p.Name, p.Roles, p.Claims)
		for _, key := range p.Keys {
			if _, twice := i.keys[key.ID]; twice {
				return nil, fmt.Errorf("two API keys have the id %q", key.ID)
			}
			i.keys[key.ID] = keyed{Key: key, principal: known}
		}
		if p.Subject != "" {
			i.subjects[p.Subject] = p
		}
		if p.Certificate != "" {
			i.certificates[p.Certificate] = known
		}
	}
	if cfg.JWT == nil {
		return i, nil
	}
	var err error
	i.tokens, err = newTokens(ctx, *cfg.JWT)
	return i, err
}

// Ready returns an error that wraps ErrUnavailable while no token can be checked.
func (i *Identity) Ready(ctx context.Context) error {
	if i.tokens == nil || i.tokens.keys.any(ctx) {
		return nil
	}
	return fmt.Errorf("%s: %w", i.tokens.Keys.URL, ErrUnavailable)
}

// Principal returns who r comes from. Errors: *Rejection, ErrUnavailable. An
// Authorization counts before a certificate.
func (i *Identity) Principal(r *http.Request) (auth.Principal, error) {
	switch values := r.Header.Values("Authorization"); len(values) {
	case 0:
		return i.certified(r.TLS)
	case 1:
		scheme, credential, _ := strings.Cut(values[0], " ")
		if !strings.EqualFold(scheme, "Bearer") || credential == "" {
			return auth.Principal{}, &Rejection{noCredentials, "Authorization is not Bearer"}
		}
		return i.bearer(r.Context(), credential)
	}
	return auth.Principal{}, &Rejection{badCredentials, "more than one Authorization"}
}

func (i *Identity) bearer(ctx context.Context, credential string) (auth.Principal, error) {
	switch {
	case strings.HasPrefix(credential, keyPrefix):
		return i.keyHolder(credential)
	case i.tokens != nil:
		return i.tokenHolder(ctx, credential)
	}
	return auth.Principal{}, &Rejection{badCredentials, "the credential is no API key, and no tokens are taken"}
}
