package doctor

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/fencegate/fencegate/internal/config"
)

// shortIdempotency is for how long clients may well repeat a request.
const shortIdempotency = time.Hour

// longLifetime is for how long a worker that renews and does nothing else may keep
// others out before somebody should be asked.
const longLifetime = 12 * time.Hour

// examineConfig looks at what is written down.
func (v *visit) examineConfig() {
	c := v.Config
	if c.Auth == config.AuthNone {
		v.find("auth_none", "auth", "auth is none, and the gateway listens on "+c.Listen,
			"Put what authenticates in front of it, and let nobody else reach the address.")
	}
	if c.Admin != config.AdminOff && isOpen(c.Admin) {
		v.find("admin_exposed", "admin_listen", "admin_listen is "+c.Admin,
			"admin_listen: 127.0.0.1:9090, or an address that only the operators' network reaches")
	}
	v.examineLeases(c.Leases)
	v.examineModes()
	if keep := c.Limits.KeepIdempotencyKeys; keep < shortIdempotency {
		v.find("idempotency_keys_short", "limits.keep_idempotency_keys", "answers are kept for "+keep.String(),
			"limits.keep_idempotency_keys: 24h, or longer than any client goes on repeating a request")
	}
}

func (v *visit) examineLeases(l config.Leases) {
	if l.ServiceDown == config.ServiceDownFenceOnly {
		v.find("fence_only", "leases.lock_service_down", "lock_service_down is fence_only",
			"leases.lock_service_down: refuse, if a write should stop with the lock service")
	}
	if l.Check == config.CheckLenient {
		v.find("lease_check_lenient", "leases.lease_check", "lease_check is lenient",
			"leases.lease_check: strict, if a worker should stop writing when its lease has run out")
	}
	if l.MaxLifetime > longLifetime {
		v.find("max_lifetime_long", "leases.max_lifetime", "a lease can be renewed for "+l.MaxLifetime.String(),
			"leases.max_lifetime: 1h, or a little more than the longest piece of work")
	}
	if l.Backend == config.BackendPostgres {
		return
	}
	if wait := v.lockTimeout(); 2*wait > l.DefaultTTL {
		v.find("ttl_short", "leases.default_ttl", fmt.Sprintf("default_ttl is %s, and a call to the lock service may take %s", l.DefaultTTL, wait),
			"leases.default_ttl: several times the lock service's timeout")
	}
}

func (v *visit) lockTimeout() time.Duration {
	if v.Config.Leases.Backend == config.BackendEtcd {
		return v.Config.Etcd.Timeout
	}
	return v.Config.Redis.Timeout
}

// access is how one server of the lock service is reached.
type access struct {
	host     string
	tls      bool
	password bool
}

func (v *visit) accesses() (all []access) {
	c := v.Config
	login := c.Redis.Password != ""
	switch c.Leases.Backend {
	case config.BackendRedis:
		all = append(all, urlAccess(c.Redis.URL.Reveal(), login))
	case config.BackendRedlock:
		for _, u := range c.Redis.Redlock.URLs {
			all = append(all, urlAccess(u.Reveal(), login))
		}
	case config.BackendSentinel:
		for _, a := range c.Redis.Sentinel.Addresses {
			all = append(all, access{hostOf(a), c.Redis.TLS, login})
		}
	case config.BackendCluster:
		for _, a := range c.Redis.Cluster.Addresses {
			all = append(all, access{hostOf(a), c.Redis.TLS, login})
		}
	case config.BackendEtcd:
		for _, e := range c.Etcd.Endpoints {
			all = append(all, urlAccess(e, c.Etcd.Password != "" || c.Etcd.CertFile != ""))
		}
	}
	return all
}

func urlAccess(address string, login bool) access {
	u, err := url.Parse(address)
	if err != nil {
		return access{} // config has taken it, so it is no network address
	}
	_, password := u.User.Password()
	return access{u.Hostname(), u.Scheme == "rediss" || u.Scheme == "https", login || password}
}

// isLoopback takes a Unix socket, which has no host, for one.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || strings.HasPrefix(host, "/") || host == "localhost" || ip != nil && ip.IsLoopback()
}

// isOpen reports whether who listens on address can be reached from elsewhere.
func isOpen(address string) bool {
	host := hostOf(address)
	return host == "" || !isLoopback(host)
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}
