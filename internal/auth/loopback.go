package auth

import (
	"net"
	"strings"
)

// IsLoopback reports whether host, as a Host header or an address has it, with a
// port or without, is localhost or a loopback address. Where nobody is
// authenticated, a page in a browser could otherwise reach a server on loopback
// under a name of its own that resolves to it.
func IsLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
