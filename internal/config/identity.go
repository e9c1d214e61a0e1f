package config

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/fencegate/fencegate/internal/lease"
)

// Identity says which credentials are taken, under AuthRequired. API keys are with
// their Principals.
type Identity struct {
	// JWT says which tokens are taken. Default: none are.
	JWT JWT `yaml:"jwt,omitempty"`
	// ClientCertificate is the part of a client certificate that names a principal.
	// Default "", none: certificates name nobody. Needs TLS.ClientCAFile.
	ClientCertificate ClientCertificate `yaml:"client_certificate,omitempty"`
}

// ClientCertificate is a part of a client certificate. The zero value is none.
type ClientCertificate string

// The values of ClientCertificate.
const (
	CertificateCommonName ClientCertificate = "common_name"
	CertificateDNSName    ClientCertificate = "dns_name" // any of them
	CertificateURI        ClientCertificate = "uri"      // any of them
)

// JWT says which tokens are taken. The zero value takes none.
type JWT struct {
	// Issuer is what iss must be. No default; 1 or more bytes.
	Issuer string `yaml:"issuer,omitempty"`
	// Audience is what aud must hold. No default; 1 or more bytes.
	Audience string `yaml:"audience,omitempty"`
	// Algorithms are those that a token may be signed with. No default; 1 or more
	// of the HS kind, with SecretFile, or of the others.
	Algorithms []string `yaml:"algorithms,omitempty,flow"`
	// JWKSURL is where a JSON Web Key Set is read from, by https or from loopback.
	// Exactly one of it, JWKSFile, PublicKeyFile and SecretFile.
	JWKSURL string `yaml:"jwks_url,omitempty"`
	// JWKSCAFile holds the certificates of the authorities that JWKSURL's server is
	// checked against, in PEM. Default: those of the system.
	JWKSCAFile string `yaml:"jwks_ca_file,omitempty"`
	// JWKSFile holds a JSON Web Key Set.
	JWKSFile string `yaml:"jwks_file,omitempty"`
	// PublicKeyFile holds a public key or a certificate, in PEM.
	PublicKeyFile string `yaml:"public_key_file,omitempty"`
	// SecretFile holds the secret of the HS algorithms, 32 bytes or more.
	SecretFile string `yaml:"secret_file,omitempty"`
	// RolesClaim names the claim that lists roles, its path with dots. Default "",
	// none: only Principals have roles.
	RolesClaim string `yaml:"roles_claim,omitempty"`
	// Leeway is how far clocks may differ. Default 30s; 0 to 5m.
	Leeway time.Duration `yaml:"leeway,omitempty"`
}

// Taken reports whether tokens are.
func (j JWT) Taken() bool { return len(j.Algorithms) > 0 }

// Role is a set of rights. The zero value is invalid.
type Role struct {
	// Name is what principals and tokens call it by. No default; 1 to 64 letters (a
	// to z), digits and _ . -; each once.
	Name string `yaml:"name"`
	// Admin may see all leases, marks and refusals, and revoke. Default false.
	Admin bool `yaml:"admin,omitempty"`
	// Tables are what it may do with tables. Default none; each once.
	Tables []Grant `yaml:"tables,omitempty"`
	// Call are the statements and functions that it may call. Default none.
	Call []Name `yaml:"call,omitempty,flow"`
	// Locks are the lock keys that it may hold. Default none.
	Locks []LockPattern `yaml:"locks,omitempty,flow"`
	// DatabaseRole is the role of PostgreSQL that Tables and Call are used as, so that
	// its grants and row-level security apply as well. Default "", the gateway's own;
	// all roles with tables or calls that a principal has must have the same.
	DatabaseRole string `yaml:"database_role,omitempty"`
	// MaxInFlight is the most requests that one principal has in flight. Default 0:
	// Limits.MaxInFlightPerPrincipal; 0 to 1000000. Of several roles the highest
	// counts.
	MaxInFlight int `yaml:"max_in_flight,omitempty"`
	// PerSecond is the most requests of one principal in a second; twice as many may
	// come at once. Default 0, no bound; 0 to 1000000. Of several roles the highest
	// counts.
	PerSecond int `yaml:"requests_per_second,omitempty"`
}

// Grant is what a role may do with one table. The zero value is invalid.
type Grant struct {
	// Table is one of Config.Tables. No default.
	Table Name `yaml:"table"`
	// Operations are some of the table's. Default: all of them.
	Operations []string `yaml:"operations,omitempty,flow"`
	// Read are the columns that may be returned, and that filters may name beside
	// those of the primary key and of the lock. Default: all if Operations has
	// Select, else none.
	Read []string `yaml:"read,omitempty,flow"`
	// Write are the columns that may be set. Default: all.
	Write []string `yaml:"write,omitempty,flow"`
}

// Name is the name of a table, function or statement; a statement's has no Schema.
type Name struct{ Schema, Name string }

// LockPattern is a set of lock keys.
type LockPattern struct{ lease.Pattern }

// Principal is somebody who is known by name. The zero value is invalid.
type Principal struct {
	// Name is what records call it. No default; 1 to 128 letters (a to z), digits
	// and _ . @ / -; each once.
	Name string `yaml:"name"`
	// Roles are some of Config.Roles. Default none.
	Roles []string `yaml:"roles,omitempty,flow"`
	// Claims are what the lock key patterns of its roles may name. Default none.
	Claims Claims `yaml:"claims,omitempty"`
	// APIKeys are those that it may use. Default none.
	APIKeys []APIKey `yaml:"api_keys,omitempty"`
	// JWTSubject is the sub of its tokens. Default "", none; each once.
	JWTSubject string `yaml:"jwt_subject,omitempty"`
	// Certificate is what Identity.ClientCertificate has of its certificate. Default
	// "", none; each once.
	Certificate string `yaml:"certificate,omitempty"`
}

// Claims are names and their values.
type Claims []Claim

// Claim is one of Claims.
type Claim struct{ Name, Value string }

// APIKey is what `gateway auth key new` prints to be kept of a key.
type APIKey struct {
	// ID names the key in logs. No default; 12 hex digits; each once.
	ID string `yaml:"id"`
	// SHA256 is the hash of the key. No default; 64 hex digits.
	SHA256 string `yaml:"sha256"`
	// Expires is when it ends, as in 2027-01-31T00:00:00Z. Default "", never.
	Expires string `yaml:"expires,omitempty"`
}

// Ends is when the key does; the zero value is never.
func (k APIKey) Ends() time.Time {
	at, _ := time.Parse(time.RFC3339, k.Expires) // the configuration was checked
	return at
}

// Sum is the hash of the key.
func (k APIKey) Sum() (sum [sha256.Size]byte) {
	hex.Decode(sum[:], []byte(k.SHA256)) // the configuration was checked
	return sum
}

// callable reads a name of Call.
func (d *decoder) callable(n ast.Node, path string, name *Name) {
	var form nameForm
	d.name(n, path, &form)
	*name = Name(form)
}

func (d *decoder) pattern(n ast.Node, path string, pattern *LockPattern) bool {
	var text string
	if !d.value(n, path, &text) {
		return false
	}
	var err error
	if pattern.Pattern, err = lease.ParsePattern(text); err != nil {
		d.reject(path, "%v", err)
	}
	return err == nil
}

// claims reads a mapping of names to values.
func (d *decoder) claims(n ast.Node, path string, claims *Claims) bool {
	m, ok := n.(ast.MapNode)
	if !ok {
		return d.fail(path, "must be a mapping of names to values")
	}
	for it := m.MapRange(); it.Next(); {
		claim := Claim{Name: it.Key().GetToken().Value}
		child := path + "." + claim.Name
		d.places[child] = d.atValue(it.Value(), d.at(it.Key()))
		if slices.ContainsFunc(*claims, func(c Claim) bool { return c.Name == claim.Name }) {
			d.reject(child, "is written twice")
			continue
		}
		d.value(it.Value(), child, &claim.Value)
		*claims = append(*claims, claim)
	}
	return true
}

// MarshalYAML returns the name as a file would write it.
func (n Name) MarshalYAML() (any, error) {
	if n.Schema == "" {
		return n.Name, nil
	}
	return written(n.Schema, n.Name), nil
}

// MarshalYAML returns the pattern as a file would write it.
func (p LockPattern) MarshalYAML() (any, error) { return shown(p.String()), nil }

// MarshalYAML returns a mapping.
func (c Claims) MarshalYAML() (any, error) {
	var form yaml.MapSlice
	for _, claim := range c {
		form = append(form, yaml.MapItem{Key: claim.Name, Value: shown(claim.Value)})
	}
	return form, nil
}
