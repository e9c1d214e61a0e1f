package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"

	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/config"
	"github.com/fencegate/fencegate/internal/identity"
	"github.com/fencegate/fencegate/internal/proxy"
)

// authenticator says who a request comes from. ready is an error as long as it can't
// tell for some.
type authenticator struct {
	principal func(*http.Request) (auth.Principal, error)
	ready     func(context.Context) error
}

// openIdentity reads the keys that cfg names, remote ones until ctx ends.
func openIdentity(ctx context.Context, cfg *config.Config, tables *catalog.Snapshot, log *slog.Logger) (*authenticator, error) {
	if cfg.Auth == config.AuthNone {
		return &authenticator{principal: proxy.Anyone, ready: func(context.Context) error { return nil }}, nil
	}
	roles := authRoles(cfg.Roles)
	if err := auth.Check(roles, tables); err != nil {
		return nil, err
	}
	tokens, err := tokensOf(cfg.Identity.JWT, log)
	if err != nil {
		return nil, fmt.Errorf("identity.jwt: %w", err)
	}
	known, err := identity.New(ctx, identity.Config{
		Policy: auth.NewPolicy(roles), Principals: principals(cfg.Principals),
		JWT: tokens, Name: identity.Certificate(cfg.Identity.ClientCertificate),
	})
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	return &authenticator{principal: known.Principal, ready: known.Ready}, nil
}

func authRoles(roles []config.Role) []auth.Role {
	made := make([]auth.Role, len(roles))
	for i, role := range roles {
		made[i] = auth.Role{Name: role.Name, Admin: role.Admin, DatabaseRole: role.DatabaseRole, Limits: auth.Limits{InFlight: role.MaxInFlight, PerSecond: role.PerSecond}}
		for _, grant := range role.Tables {
			made[i].Tables = append(made[i].Tables, auth.Grant{Schema: grant.Table.Schema, Name: grant.Table.Name, Narrowing: narrowing(grant)})
		}
		for _, name := range role.Call {
			made[i].Calls = append(made[i].Calls, auth.Callable(name))
		}
		for _, pattern := range role.Locks {
			made[i].Locks = append(made[i].Locks, pattern.Pattern)
		}
	}
	return made
}

// narrowing: what is not written down is everything, but that nobody searches
// columns of rows that they may not read.
func narrowing(g config.Grant) (n catalog.Narrowing) {
	set := func(names []string) catalog.ColumnSet { return catalog.ColumnSet{All: names == nil, Names: names} }
	n.Columns = map[catalog.Operation]catalog.ColumnSet{}
	for _, op := range g.Operations {
		switch op {
		case config.Select:
			n.Columns[catalog.Select] = set(g.Read)
		case config.Delete:
			n.Columns[catalog.Delete] = catalog.ColumnSet{}
		default:
			n.Columns[catalog.Operation(op)] = set(g.Write)
		}
	}
	if !slices.Contains(g.Operations, config.Select) {
		n.Search = catalog.ColumnSet{Names: g.Read}
	}
	return n
}

func principals(all []config.Principal) []identity.Principal {
	made := make([]identity.Principal, len(all))
	for i, p := range all {
		made[i] = identity.Principal{Name: p.Name, Roles: p.Roles, Claims: map[string]string{}, Subject: p.JWTSubject, Certificate: p.Certificate}
		for _, claim := range p.Claims {
			made[i].Claims[claim.Name] = claim.Value
		}
		for _, key := range p.APIKeys {
			made[i].Keys = append(made[i].Keys, identity.Key{ID: key.ID, SHA256: key.Sum(), Expires: key.Ends()})
		}
	}
	return made
}

// tokensOf reads the files of cfg.
func tokensOf(cfg config.JWT, log *slog.Logger) (*identity.JWT, error) {
	if !cfg.Taken() {
		return nil, nil
	}
	keys := identity.KeySource{URL: cfg.JWKSURL, Log: log}
	for _, file := range []struct {
		name string
		into *[]byte
	}{{cfg.SecretFile, &keys.Secret}, {cfg.PublicKeyFile, &keys.PublicPEM}, {cfg.JWKSFile, &keys.Set}} {
		if file.name == "" {
			continue
		}
		var err error
		if *file.into, err = os.ReadFile(file.name); err != nil {
			return nil, err
		}
	}
	if keys.Secret != nil {
		if keys.Secret = bytes.TrimRight(keys.Secret, "\r\n"); len(keys.Secret) < leastSecret {
			return nil, fmt.Errorf("the secret in %s is shorter than %d bytes", cfg.SecretFile, leastSecret)
		}
	}
	if cfg.JWKSCAFile != "" {
		text, err := os.ReadFile(cfg.JWKSCAFile)
		if err != nil {
			return nil, err
		}
		if keys.Roots = x509.NewCertPool(); !keys.Roots.AppendCertsFromPEM(text) {
			return nil, errors.New(cfg.JWKSCAFile + " has no certificate in PEM")
		}
	}
	return &identity.JWT{Issuer: cfg.Issuer, Audience: cfg.Audience, Algorithms: cfg.Algorithms,
		Leeway: cfg.Leeway, RolesClaim: cfg.RolesClaim, Keys: keys}, nil
}

// leastSecret is what RFC 7518 asks of HS256.
const leastSecret = 32

// perPrincipal is how many requests one principal may have in flight: everybody's,
// where nobody is told from anybody else.
func perPrincipal(cfg *config.Config) int {
	if cfg.Auth == config.AuthNone {
		return 0
	}
	return cmp.Or(cfg.Limits.MaxInFlightPerPrincipal, max(1, cfg.Limits.MaxInFlight/2))
}
