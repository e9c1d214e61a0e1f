package identity

import (
	"crypto/tls"
	"crypto/x509"

	"github.com/fencegate/fencegate/internal/auth"
)

// Certificate is the part of a client certificate that names a principal. The zero
// value is none.
type Certificate string

// The values of Certificate.
const (
	CommonName Certificate = "common_name"
	DNSName    Certificate = "dns_name" // any of them
	URI        Certificate = "uri"      // any of them, such as a SPIFFE id
)

// certified trusts what the listener has verified.
func (i *Identity) certified(state *tls.ConnectionState) (auth.Principal, error) {
	if state == nil || len(state.VerifiedChains) == 0 || i.name == "" {
		return auth.Principal{}, &Rejection{noCredentials, "there are none"}
	}
	for _, name := range i.name.of(state.VerifiedChains[0][0]) {
		if p, known := i.certificates[name]; known && name != "" {
			return p, nil
		}
	}
	return auth.Principal{}, &Rejection{badCredentials, "the client certificate is nobody's"}
}

func (c Certificate) of(certificate *x509.Certificate) []string {
	switch c {
	case CommonName:
		return []string{certificate.Subject.CommonName}
	case DNSName:
		return certificate.DNSNames
	case URI:
		names := make([]string, len(certificate.URIs))
		for i, uri := range certificate.URIs {
			names[i] = uri.String()
		}
		return names
	}
	return nil
}
