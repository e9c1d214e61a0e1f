package config

import (
	"strings"
	"testing"
	"time"
)

const (
	someKey  = "{id: 0123456789ab, sha256: " + someHash + "}"
	someHash = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
)

// required is minimal with auth: required, up to what is said of principals.
var required = strings.Replace(minimal, "auth: none", "auth: required", 1) + `statements:
  - {name: take, sql: "SELECT :sku", params: {sku: text}, lock: "inventory:{sku}"}
functions:
  - {name: take_stock, lock: "x"}
`

func TestPrincipalsAreReadWhole(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, required+`tls: {cert_file: c.pem, key_file: k.pem, client_ca_file: ca.pem}
identity:
  jwt: {issuer: i, audience: a, algorithms: [RS256, ES256], jwks_url: "https://id/keys", roles_claim: a.b}
  client_certificate: dns_name
roles:
  - name: stock
    tables:
      - {table: inventory, operations: [update], read: [sku], write: ["odd, name"]}
    call: [take, take_stock]
    locks: ["inventory:*", "tenant:{claim.tenant}:*"]
    database_role: Odd "app
    max_in_flight: 3
    requests_per_second: 7
  - {name: boss, admin: true, tables: [{table: inventory}], database_role: Odd "app}
  - {name: auditor, admin: true}
principals:
  - name: w@example.com
    roles: [stock, boss, auditor]
    claims: {tenant: acme, "odd one": "x: y"}
    jwt_subject: auth0|1
    certificate: w.internal
    api_keys: [{id: 0123456789ab, sha256: `+someHash+`, expires: 2027-01-31T00:00:00Z}]
`)
	if c.Identity.JWT.Leeway != 30*time.Second || !c.Identity.JWT.Taken() {
		t.Errorf("tokens are %+v", c.Identity.JWT)
	}
	stock := c.Roles[0]
	if stock.Call[0] != (Name{"", "take"}) || stock.Call[1] != (Name{"public", "take_stock"}) {
		t.Errorf("calls are %+v", stock.Call)
	}
	if len(c.Roles[1].Tables[0].Operations) != 4 || c.Roles[1].Tables[0].Read != nil {
		t.Errorf("what is left out is %+v", c.Roles[1].Tables[0])
	}
	key := c.Principals[0].APIKeys[0]
	if key.Ends().Year() != 2027 || key.Sum()[0] != 0xaa {
		t.Errorf("the key is %+v", key)
	}
	again := mustLoad(t, c.Masked())
	if again.Masked() != c.Masked() {
		t.Errorf("written out and read again it is\n%s\nnot\n%s", again.Masked(), c.Masked())
	}
	if again.Roles[0].Locks[1].String() != "tenant:{claim.tenant}:*" || again.Principals[0].Claims[1].Value != "x: y" {
		t.Errorf("read again: %+v", again.Principals[0])
	}
}

func TestMistakesAboutPrincipals(t *testing.T) {
	t.Parallel()
	const good = "principals:\n  - {name: w, api_keys: [" + someKey + "]}\n"
	role := func(rest string) string { return "roles:\n  - {name: r, " + rest + "}\n" + good }
	jwt := func(rest string) string { return "identity: {jwt: {" + rest + "}}\n" }
	const at = "gateway.yaml:"
	for _, c := range []struct {
		name, text string
		mistake    string // what follows line and column
	}{
		{"nobody could come", "", "auth: is required, and nobody could come"},
		{"a principal without credentials", "principals: [{name: w}]\n", "auth: is required, and nobody could come"},
		{"no issuer", jwt(`audience: a, algorithms: [RS256], jwks_file: f`), "identity.jwt.issuer: is missing"},
		{"no audience", jwt(`issuer: a, algorithms: [RS256], jwks_file: f`), "identity.jwt.audience: is missing"},
		{"two sources", jwt(`issuer: i, audience: a, algorithms: [RS256], jwks_file: f, public_key_file: g`), "identity.jwt: needs exactly one"},
		{"no source", jwt(`issuer: i, audience: a, algorithms: [RS256]`), "identity.jwt: needs exactly one"},
		{"HMAC with a public key", jwt(`issuer: i, audience: a, algorithms: [HS256], jwks_file: f`), `identity.jwt.algorithms[0]: is "HS256"`},
		{"none", jwt(`issuer: i, audience: a, algorithms: [none], jwks_file: f`), `identity.jwt.algorithms[0]: is "none"`},
		{"RSA with a secret", jwt(`issuer: i, audience: a, algorithms: [RS256], secret_file: f`), `identity.jwt.algorithms[0]: is "RS256"`},
		{"keys by http", jwt(`issuer: i, audience: a, algorithms: [RS256], jwks_url: "http://id/keys"`), "identity.jwt.jwks_url: must be an https:// URL"},
		{"a long leeway", jwt(`issuer: i, audience: a, algorithms: [RS256], jwks_file: f, leeway: 1h`), "identity.jwt.leeway: is 1h"},
		{"another part of a certificate", "identity: {client_certificate: serial}\ntls: {cert_file: a, key_file: b, client_ca_file: c}\n" + good, `identity.client_certificate: is "serial"`},
		{"certificates that nobody asks for", "identity: {client_certificate: uri}\n" + good, "identity.client_certificate: needs tls.client_ca_file"},
		{"a table that is not served", role("tables: [{table: other}]"), "roles[0].tables[0].table: public.other is none of tables"},
		{"no table", role("tables: [{read: [a]}]"), "roles[0].tables[0].table: is missing"},
		{"a table twice", role("tables: [{table: inventory}, {table: inventory}]"), "roles[0].tables[1].table: public.inventory is in this role already"},
		{"an operation that is none", role("tables: [{table: inventory, operations: [truncate]}]"), `roles[0].tables[0].operations[0]: is "truncate"`},
		{"no operation", role("tables: [{table: inventory, operations: []}]"), "roles[0].tables[0].operations: allows nothing"},
		{"no column", role("tables: [{table: inventory, read: []}]"), "roles[0].tables[0].read: is empty"},
		{"a routine that is not there", role("call: [other]"), "roles[0].call[0]: other is none of"},
		{"a pattern that would leak", role(`locks: ["t:{claim.t}*"]`), "roles[0].locks[0]: "},
		{"a role's odd name", "roles: [{name: 'a b'}]\n" + good, `roles[0].name: is "a b"`},
		{"a role twice", "roles: [{name: a}, {name: a}]\n" + good, "roles[1].name: a is roles[0] already"},
		{"a pace below zero", role("requests_per_second: -1"), "roles[0].requests_per_second: is -1"},
		{"a role that is not there", "principals: [{name: w, roles: [x], api_keys: [" + someKey + "]}]\n", `principals[0].roles[0]: "x" is none of roles`},
		{"a name that a token could have", "principals: [{name: 'jwt:x', api_keys: [" + someKey + "]}]\n", `principals[0].name: is "jwt:x"`},
		{"a database role that PostgreSQL would cut", role("database_role: " + strings.Repeat("x", 64)), "roles[0].database_role: the role's name is longer than 63 bytes"},
		{"none for a database role", role("database_role: none"), "roles[0].database_role: none is no role's name"},
		{"two database roles at once", "roles: [{name: a, call: [take], database_role: x}, {name: b, admin: true}, {name: c, call: [take]}]\n" +
			"principals: [{name: w, roles: [b, c, a], api_keys: [" + someKey + "]}]\n", "principals[0].roles[2]: a and c have different database_role"},
		{"a principal twice", "principals: [{name: w, api_keys: [" + someKey + "]}, {name: w}]\n", "principals[1].name: is that of principals[0].name already"},
		{"a key twice", "principals: [{name: w, api_keys: [" + someKey + ", " + someKey + "]}]\n", "principals[0].api_keys[1].id: is that of principals[0].api_keys[0].id already"},
		{"a key in place of its hash", "principals: [{name: w, api_keys: [{id: 0123456789ab, sha256: fgk_0123456789ab_x}]}]\n", "principals[0].api_keys[0].sha256: must be 64 hex digits"},
		{"no time", "principals: [{name: w, api_keys: [{id: 0123456789ab, sha256: " + someHash + ", expires: 2027-01-31}]}]\n", "principals[0].api_keys[0].expires: must be a time"},
		{"a subject without tokens", "principals: [{name: w, jwt_subject: s, api_keys: [" + someKey + "]}]\n", "principals[0].jwt_subject: means nothing"},
		{"a certificate without TLS", "principals: [{name: w, certificate: s, api_keys: [" + someKey + "]}]\n", "principals[0].certificate: means nothing"},
		{"claims in a list", "principals: [{name: w, claims: [a], api_keys: [" + someKey + "]}]\n", "principals[0].claims: must be a mapping"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := mistakesOf(t, required+c.text)
			if len(got) != 1 || !strings.HasPrefix(got[0], at) || !strings.Contains(got[0], ": "+c.mistake) {
				t.Errorf("mistakes are\n%s\nwant …: %s…", strings.Join(got, "\n"), c.mistake)
			}
			if strings.Contains(strings.Join(got, "\n"), "fgk_") {
				t.Error("a key is shown")
			}
		})
	}
	for _, section := range []string{"roles: [{name: r}]\n", good, jwt("issuer: i")} {
		if got := mistakesOf(t, minimal+section); len(got) != 1 || !strings.Contains(got[0], "means nothing under auth: none") {
			t.Errorf("under auth: none %q is %v", section, got)
		}
	}
}
