package config

import (
	"slices"
	"strings"
)

// TLS says how a listener is encrypted. The zero value: not at all.
type TLS struct {
	// CertFile and KeyFile are the listener's certificate, with those between it and
	// its authority, and its key, in PEM. No default; both.
	CertFile string `yaml:"cert_file,omitempty"`
	KeyFile  string `yaml:"key_file,omitempty"`
	// ClientCAFile holds the authorities that clients' certificates are checked
	// against, in PEM. Default none: clients are not asked for one.
	ClientCAFile string `yaml:"client_ca_file,omitempty"`
	// ClientAuth says who needs one. Default ClientAuthRequire with ClientCAFile.
	ClientAuth ClientAuth `yaml:"client_auth,omitempty"`
}

// On reports whether the listener is encrypted.
func (t TLS) On() bool { return t != TLS{} }

// ClientAuth says which clients need a certificate. The zero value: none does.
type ClientAuth string

// The values of ClientAuth.
const (
	ClientAuthRequire ClientAuth = "require"         // everybody
	ClientAuthIfGiven ClientAuth = "verify_if_given" // nobody; one that is given must be right
)

// fillTLS sets the default of TLS.ClientAuth.
func (c *Config) fillTLS() {
	for _, t := range []*TLS{&c.TLS, &c.AdminTLS} {
		if t.ClientCAFile != "" && t.ClientAuth == "" {
			t.ClientAuth = ClientAuthRequire
		}
	}
}

func (c *Config) checkTLS(r *report) {
	c.TLS.check("tls", r)
	c.AdminTLS.check("admin_tls", r)
	if slices.Contains(certificateParts(), c.Identity.ClientCertificate) && c.TLS.ClientCAFile == "" {
		r.reject("identity.client_certificate", "needs tls.client_ca_file, whose authorities vouch for certificates")
	}
	if c.AdminTLS.On() && c.Admin == AdminOff {
		r.reject("admin_tls", "encrypts what admin_listen does not open; leave it out")
	}
}

func (t TLS) check(section string, r *report) {
	if !t.On() {
		return
	}
	if t.CertFile == "" || t.KeyFile == "" {
		r.reject(section, "needs cert_file and key_file")
	}
	allowed := []string{string(ClientAuthRequire), string(ClientAuthIfGiven)}
	switch {
	case t.ClientAuth != "" && t.ClientCAFile == "":
		r.reject(section+".client_auth", "stands without client_ca_file")
	case t.ClientAuth != "" && !slices.Contains(allowed, string(t.ClientAuth)):
		r.reject(section+".client_auth", "is %q; allowed are %s", string(t.ClientAuth), strings.Join(allowed, ", "))
	}
}
