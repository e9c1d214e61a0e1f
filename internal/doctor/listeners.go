package doctor

import (
	"time"

	"github.com/fencegate/fencegate/internal/config"
)

// certificateNotice is how long before its end a certificate is spoken of.
const certificateNotice = 14 * 24 * time.Hour

func (v *visit) examineListeners() {
	c := v.Config
	for _, l := range []struct {
		key, address, section string
		tls                   config.TLS
	}{{"listen", c.Listen, "tls", c.TLS}, {"admin_listen", c.Admin, "admin_tls", c.AdminTLS}} {
		if l.address != config.AdminOff && !l.tls.On() && isOpen(l.address) {
			v.find("listener_plaintext", l.key, l.key+" is "+l.address+", without TLS",
				l.section+": {cert_file: …, key_file: …}")
		}
	}
	for _, certificate := range v.Certificates {
		left := time.Until(certificate.Ends)
		switch {
		case certificate.Fault != nil:
			v.find("certificate_unusable", certificate.Section, certificate.Fault.Error(), "Put the files right, then look with gateway check.")
		case left < certificateNotice:
			v.find("certificate_ends", certificate.Section, "it ends on "+certificate.Ends.UTC().Format(time.RFC3339), "Renew the certificate.")
		}
	}
}
