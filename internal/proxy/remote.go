package proxy

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// remoteAddress is where the request comes from, for records and logs.
func remoteAddress(r *http.Request) string { return visitOf(r).remote }

// remoteOf is the address of the connection, or what the proxies that are trusted say
// of it: each adds whom it heard from to the end of X-Forwarded-For, so that the last
// one that is no trusted proxy is the first that somebody trusted has seen.
func (s *Server) remoteOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr // a unix socket has no port
	}
	if !s.trusts(host) {
		return host
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		address, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break
		}
		if host = address.Unmap().String(); !s.trusts(host) {
			break
		}
	}
	return host
}

func (s *Server) trusts(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && slices.ContainsFunc(s.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(address.Unmap()) })
}
