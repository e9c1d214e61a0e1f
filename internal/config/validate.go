package config

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// validate reports everything wrong with a decoded configuration.
func (c *Config) validate(r *report) {
	c.checkAddresses(r)
	c.checkProxies(r)
	c.checkTLS(r)
	c.checkURLs(r)
	c.checkLockService(r)
	c.checkTraces(r)
	c.checkRanges(r)
	c.checkOrder(r)
	c.checkChoices(r)
	c.checkTables(r)
	c.checkRoutines(r)
	c.checkSchemas(r)
	c.checkAuth(r)
}

func (c *Config) checkAddresses(r *report) {
	if fault := addressFault(c.Listen); fault != "" {
		r.reject("listen", "%s", fault)
	} else if c.Auth == AuthNone && !isLoopback(c.Listen) {
		r.reject("listen", "is %q; with auth none the host must be a loopback address or localhost", c.Listen)
	}
	if c.Admin == AdminOff {
		return
	}
	if fault := addressFault(c.Admin); fault != "" {
		r.reject("admin_listen", "%s, or %s", fault, AdminOff)
		return
	}
	if c.Admin == c.Listen && !strings.HasSuffix(c.Listen, ":0") {
		r.rejectOrder([]string{"admin_listen", "listen"}, "listen and admin_listen are the same address")
	}
}

func (c *Config) checkProxies(r *report) {
	for i, text := range c.TrustedProxies {
		if _, ok := proxyOf(text); !ok {
			r.reject(fmt.Sprintf("trusted_proxies[%d]", i), "is %q; must be an IP address or a network such as 10.0.0.0/8", text)
		}
	}
}

// Proxies returns TrustedProxies as networks.
func (c *Config) Proxies() []netip.Prefix {
	all := make([]netip.Prefix, len(c.TrustedProxies))
	for i, text := range c.TrustedProxies {
		all[i], _ = proxyOf(text) // the configuration was checked
	}
	return all
}

func proxyOf(text string) (netip.Prefix, bool) {
	if address, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()), true
	}
	network, err := netip.ParsePrefix(text)
	return network, err == nil && !network.Addr().Is4In6()
}

// addressFault says what keeps s from being an address to listen on.
func addressFault(s string) string {
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return "is " + strconv.Quote(s) + "; must be host:port with a port of 0 to 65535"
	}
	return ""
}

func isLoopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func (c *Config) checkChoices(r *report) {
	if c.Database.ReloadOnNotify && c.Database.Pooler == PoolerTransaction {
		r.rejectOrder([]string{"database.reload_on_notify", "database.pooler"},
			"notifications don't arrive through a pooler in transaction mode; leave reload_on_notify out")
	}
	for _, choice := range []struct {
		path, value string
		allowed     []string
	}{
		{"leases.backend", string(c.Leases.Backend), backendNames()},
		{"leases.lease_check", string(c.Leases.Check), []string{string(CheckStrict), string(CheckLenient)}},
		{"leases.lock_service_down", string(c.Leases.ServiceDown),
			[]string{string(ServiceDownRefuse), string(ServiceDownFenceOnly)}},
		{"database.pooler", string(c.Database.Pooler), []string{string(PoolerNone), string(PoolerTransaction)}},
		{"log.level", c.Log.Level, []string{"debug", "info", "warn", "error"}},
		{"log.format", c.Log.Format, []string{"json", "text"}},
	} {
		if !slices.Contains(choice.allowed, choice.value) {
			r.reject(choice.path, "is %q; allowed are %s", choice.value, strings.Join(choice.allowed, ", "))
		}
	}
}
