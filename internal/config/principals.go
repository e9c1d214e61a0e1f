package config

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

var (
	roleName      = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
	principalName = regexp.MustCompile(`^[A-Za-z0-9_.@/-]{1,128}$`)
	keyID         = regexp.MustCompile(`^[0-9a-f]{12}$`)
	keyHash       = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

const (
	hmacAlgorithms = "HS256 HS384 HS512"
	keyAlgorithms  = "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA"
	longestLeeway  = 5 * time.Minute
)

func (c *Config) checkAuth(r *report) {
	switch c.Auth {
	case AuthNone:
		for _, key := range []string{"identity", "roles", "principals"} {
			if _, written := r.places[key]; written {
				r.reject(key, "means nothing under auth: none, where everybody may do everything")
			}
		}
	case AuthRequired:
		c.checkIdentity(r)
	case "":
		r.reject("auth", "is missing; write %s, or %s for an open gateway on loopback", AuthRequired, AuthNone)
	default:
		r.reject("auth", "is %q; allowed are %s, %s", c.Auth, AuthRequired, AuthNone)
	}
}

func (c *Config) checkIdentity(r *report) {
	c.checkRoles(r)
	c.checkPrincipals(r)
	if _, written := r.places["identity.jwt"]; written {
		c.Identity.JWT.check(r)
	}
	if c.Identity.ClientCertificate != "" && !slices.Contains(certificateParts(), c.Identity.ClientCertificate) {
		r.reject("identity.client_certificate", "is %q; allowed are common_name, dns_name, uri", c.Identity.ClientCertificate)
	}
	keys := slices.ContainsFunc(c.Principals, func(p Principal) bool { return len(p.APIKeys) > 0 })
	if !keys && !c.Identity.JWT.Taken() && c.Identity.ClientCertificate == "" {
		r.reject("auth", "is %s, and nobody could come: give a principal an API key, or set identity.jwt or identity.client_certificate", AuthRequired)
	}
}

func certificateParts() []ClientCertificate {
	return []ClientCertificate{CertificateCommonName, CertificateDNSName, CertificateURI}
}

func (c *Config) checkRoles(r *report) {
	first := map[string]int{}
	for i := range c.Roles {
		role, path := &c.Roles[i], fmt.Sprintf("roles[%d]", i)
		if !roleName.MatchString(role.Name) {
			r.reject(path+".name", "is %q; must be 1 to 64 letters (a to z), digits and _ . -", role.Name)
		} else if j, twice := first[role.Name]; twice {
			r.reject(path+".name", "%s is roles[%d] already", role.Name, j)
		} else {
			first[role.Name] = i
		}
		if fault := nameFault(role.DatabaseRole); role.DatabaseRole != "" && fault != "" {
			r.reject(path+".database_role", "the role's name %s", fault)
		} else if role.DatabaseRole == "none" {
			r.reject(path+".database_role", "none is no role's name to PostgreSQL; leave the key out for the gateway's own")
		}
		checkCount(path+".max_in_flight", role.MaxInFlight, 0, mostAtOnce, r)
		checkCount(path+".requests_per_second", role.PerSecond, 0, mostAtOnce, r)
		c.checkGrants(role, path, r)
		for j := range role.Call {
			c.checkCallable(&role.Call[j], fmt.Sprintf("%s.call[%d]", path, j), r)
		}
	}
}

func (c *Config) checkGrants(role *Role, path string, r *report) {
	for i := range role.Tables {
		grant, path := &role.Tables[i], fmt.Sprintf("%s.tables[%d]", path, i)
		if _, written := r.places[path+".table"]; !written {
			r.reject(path+".table", "is missing")
			continue
		}
		j := slices.IndexFunc(c.Tables, func(t Table) bool { return Name{t.Schema, t.Name} == grant.Table })
		if j < 0 {
			r.reject(path+".table", "%s.%s is none of tables", grant.Table.Schema, grant.Table.Name)
			continue
		}
		if slices.ContainsFunc(role.Tables[:i], func(g Grant) bool { return g.Table == grant.Table }) {
			r.reject(path+".table", "%s.%s is in this role already", grant.Table.Schema, grant.Table.Name)
		}
		grant.check(c.Tables[j], path, r)
	}
}

func (g *Grant) check(table Table, path string, r *report) {
	if _, written := r.places[path+".operations"]; !written {
		g.Operations = slices.Clone(table.Operations)
	} else if len(g.Operations) == 0 {
		r.reject(path+".operations", "allows nothing; leave the key out to allow all of the table's")
	}
	for i, op := range g.Operations {
		if !table.Allows(op) {
			r.reject(fmt.Sprintf("%s.operations[%d]", path, i), "is %q; the table allows %s", op, strings.Join(table.Operations, ", "))
		}
	}
	for key, columns := range map[string][]string{"read": g.Read, "write": g.Write} {
		if _, written := r.places[path+"."+key]; written && len(columns) == 0 {
			r.reject(path+"."+key, "is empty; leave the operation out of operations instead")
		}
		for i, column := range columns {
			if fault := nameFault(column); fault != "" {
				r.reject(fmt.Sprintf("%s.%s[%d]", path, key, i), "the column's name %s", fault)
			}
		}
	}
}

// checkCallable also finds out whether a name without schema is a statement's.
func (c *Config) checkCallable(name *Name, path string, r *report) {
	if r.bad[path] {
		return
	}
	statement := slices.ContainsFunc(c.Statements, func(s Statement) bool { return s.Name == name.Name })
	if name.Schema == defaultSchema && statement {
		name.Schema = ""
		return
	}
	if !slices.ContainsFunc(c.Functions, func(f Function) bool { return Name{f.Schema, f.Name} == *name }) {
		r.reject(path, "%s is none of statements and functions", name.Name)
	}
}

func (c *Config) checkPrincipals(r *report) {
	once := func(seen map[string]string, value, path string) {
		if value == "" {
			return
		}
		if first, twice := seen[value]; twice {
			r.reject(path, "is that of %s already", first)
			return
		}
		seen[value] = path
	}
	names, ids, subjects, certificates := map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}
	for i, p := range c.Principals {
		path := fmt.Sprintf("principals[%d]", i)
		if !principalName.MatchString(p.Name) {
			r.reject(path+".name", "is %q; must be 1 to 128 letters (a to z), digits and _ . @ / -", p.Name)
		}
		once(names, p.Name, path+".name")
		once(subjects, p.JWTSubject, path+".jwt_subject")
		once(certificates, p.Certificate, path+".certificate")
		for j, role := range p.Roles {
			if !slices.ContainsFunc(c.Roles, func(known Role) bool { return known.Name == role }) {
				r.reject(fmt.Sprintf("%s.roles[%d]", path, j), "%q is none of roles", role)
			}
		}
		c.checkTogether(p, path, r)
		for j, key := range p.APIKeys {
			at := fmt.Sprintf("%s.api_keys[%d]", path, j)
			key.check(at, r)
			once(ids, key.ID, at+".id")
		}
		p.checkUse(c, path, r)
	}
}

// checkTogether reports roles that would run as different database roles.
func (c *Config) checkTogether(p Principal, path string, r *report) {
	var first *Role
	for i, name := range p.Roles {
		j := slices.IndexFunc(c.Roles, func(role Role) bool { return role.Name == name })
		if j < 0 || len(c.Roles[j].Tables)+len(c.Roles[j].Call) == 0 {
			continue
		}
		role := &c.Roles[j]
		if first = cmp.Or(first, role); role.DatabaseRole != first.DatabaseRole {
			r.reject(fmt.Sprintf("%s.roles[%d]", path, i), "%s and %s have different database_role, and a transaction runs as one", name, first.Name)
		}
	}
}

// checkUse reports credentials that nobody would look at.
func (p Principal) checkUse(c *Config, path string, r *report) {
	if p.JWTSubject != "" && !c.Identity.JWT.Taken() {
		r.reject(path+".jwt_subject", "means nothing without identity.jwt")
	}
	if p.Certificate != "" && c.Identity.ClientCertificate == "" {
		r.reject(path+".certificate", "means nothing without identity.client_certificate")
	}
}

func (k APIKey) check(path string, r *report) {
	if !keyID.MatchString(k.ID) {
		r.reject(path+".id", "must be 12 hex digits, as `gateway auth key new` prints them")
	}
	if !keyHash.MatchString(k.SHA256) {
		r.reject(path+".sha256", "must be 64 hex digits, as `gateway auth key new` prints them; never the key itself")
	}
	if _, err := time.Parse(time.RFC3339, k.Expires); k.Expires != "" && err != nil {
		r.reject(path+".expires", "must be a time as in 2027-01-31T00:00:00Z")
	}
}

func (j JWT) check(r *report) {
	const path = "identity.jwt"
	for key, value := range map[string]string{"issuer": j.Issuer, "audience": j.Audience} {
		if value == "" {
			r.reject(path+"."+key, "is missing; a token for somebody else would be taken")
		}
	}
	if len(j.Algorithms) == 0 {
		r.reject(path+".algorithms", "is missing; name those that tokens are signed with")
	}
	span{path + ".leeway", j.Leeway}.within(r, 0, longestLeeway)
	sources := map[string]string{"jwks_url": j.JWKSURL, "jwks_file": j.JWKSFile, "public_key_file": j.PublicKeyFile, "secret_file": j.SecretFile}
	given := 0
	for _, value := range sources {
		if value != "" {
			given++
		}
	}
	if given != 1 {
		r.reject(path, "needs exactly one of jwks_url, jwks_file, public_key_file and secret_file")
	}
	allowed := strings.Fields(keyAlgorithms)
	if j.SecretFile != "" {
		allowed = strings.Fields(hmacAlgorithms)
	}
	for i, algorithm := range j.Algorithms {
		if !slices.Contains(allowed, algorithm) {
			r.reject(fmt.Sprintf("%s.algorithms[%d]", path, i), "is %q; with such a key allowed are %s", algorithm, strings.Join(allowed, ", "))
		}
	}
	j.checkURL(path+".jwks_url", r)
}

func (j JWT) checkURL(path string, r *report) {
	if j.JWKSCAFile != "" && j.JWKSURL == "" {
		r.reject("identity.jwt.jwks_ca_file", "means nothing without jwks_url")
	}
	if j.JWKSURL == "" {
		return
	}
	u, err := url.Parse(j.JWKSURL)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(hostPort(u))) {
		r.reject(path, "must be an https:// URL, or http:// on loopback")
	}
}

func hostPort(u *url.URL) string {
	if u.Port() == "" {
		return u.Host + ":80"
	}
	return u.Host
}
