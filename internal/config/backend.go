package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Bounds of the servers under BackendRedlock: of two, neither can be missing.
const (
	fewestNodes = 3
	mostNodes   = 15
)

// block is a part of the file that only some backends read: one key, or all keys
// of a section.
type block struct {
	path    string
	section bool
	of      []Backend
}

func blocks() []block {
	redis := []Backend{BackendRedis, BackendSentinel, BackendCluster, BackendRedlock}
	return []block{
		{"redis", true, redis},
		{"redis.url", false, redis[:1]},
		{"redis.url_file", false, redis[:1]},
		{"redis.sentinel", true, redis[1:2]},
		{"redis.cluster", true, redis[2:3]},
		{"redis.redlock", true, redis[3:]},
		{"redis.tls", false, redis[1:3]},
		{"etcd", true, []Backend{BackendEtcd}},
	}
}

func backendNames() []string {
	var names []string
	for _, b := range []Backend{BackendRedis, BackendSentinel, BackendCluster, BackendRedlock, BackendPostgres, BackendEtcd} {
		names = append(names, string(b))
	}
	return names
}

// checkLockService checks that what the chosen backend needs is there, and what
// only others read is not: it would be ignored.
func (c *Config) checkLockService(r *report) {
	if !slices.Contains(backendNames(), string(c.Leases.Backend)) {
		return // checkChoices says so
	}
	c.rejectForeignBlocks(r)
	switch c.Leases.Backend {
	case BackendSentinel:
		c.checkSentinel(r)
	case BackendCluster:
		checkServers("redis.cluster", "addresses", c.Redis.Cluster.Addresses, serverFault, r)
	case BackendRedlock:
		c.checkRedlock(r)
	case BackendEtcd:
		c.checkEtcd(r)
	}
	if c.Leases.Backend.OnRedis() {
		c.checkRedisAccess(r)
	}
}

func (c *Config) rejectForeignBlocks(r *report) {
	for _, b := range blocks() {
		path, written := r.wrote(b)
		if !written || slices.Contains(b.of, c.Leases.Backend) || strings.HasPrefix(b.path, "redis.") && !c.Leases.Backend.OnRedis() {
			continue
		}
		var names []string
		for _, backend := range b.of {
			names = append(names, string(backend))
		}
		r.reject(path, "belongs to leases.backend %s, and that is %s; leave it out", strings.Join(names, ", "), c.Leases.Backend)
	}
}

// wrote returns where a block was written, or the part of it that the environment
// set. A section whose keys are all commented out is not written.
func (r *report) wrote(b block) (path string, written bool) {
	if !b.section {
		_, written = r.places[b.path]
		return b.path, written
	}
	for _, child := range slices.Sorted(maps.Keys(r.places)) {
		if !strings.HasPrefix(child, b.path+".") {
			continue
		}
		if r.places[child].source == r.file {
			return b.path, true
		}
		path = child
	}
	return path, path != ""
}

func (c *Config) checkSentinel(r *report) {
	s := c.Redis.Sentinel
	if s.Master == "" {
		r.reject("redis.sentinel", "needs master, the name that the Sentinels know it by")
	}
	checkServers("redis.sentinel", "addresses", s.Addresses, serverFault, r)
	checkLogin("redis.sentinel", s.Username, s.Password, r)
}

func (c *Config) checkRedlock(r *report) {
	urls, path := c.Redis.Redlock.URLs, "redis.redlock.urls"
	if len(c.Redis.Redlock.URLFiles) > 0 {
		path = "redis.redlock.url_files"
	}
	if n := len(urls); n < fewestNodes || n > mostNodes {
		r.reject("redis.redlock", "needs %d to %d servers in urls or url_files, and has %d", fewestNodes, mostNodes, n)
		return
	}
	met := map[string]int{}
	for i, u := range urls {
		at := fmt.Sprintf("%s[%d]", path, i)
		if r.bad[at] {
			continue
		}
		if err := redisFault(u.Reveal()); err != nil {
			r.reject(at, "the URL %v", err)
			continue
		}
		options, err := redis.ParseURL(u.Reveal()) // its defaults filled in
		if err != nil {
			continue // redisFault would have said so
		}
		if first, twice := met[options.Addr]; twice {
			r.reject(at, "is the same server as number %d; it would have two votes", first)
		}
		met[options.Addr] = i
	}
}

func (c *Config) checkEtcd(r *report) {
	e := c.Etcd
	checkServers("etcd", "endpoints", e.Endpoints, endpointFault, r)
	checkLogin("etcd", e.Username, e.Password, r)
	secure := 0
	for _, endpoint := range e.Endpoints {
		if strings.HasPrefix(endpoint, "https://") {
			secure++
		}
	}
	if secure > 0 && secure < len(e.Endpoints) {
		r.reject("etcd.endpoints", "are https:// in part; all or none must be")
	}
	checkFiles("etcd", [3]string{e.CAFile, e.CertFile, e.KeyFile}, secure > 0, "endpoints are https://", r)
}

// checkServers checks a list of servers, which is needed.
func checkServers(section, key string, servers []string, fault func(string) string, r *report) {
	path := section + "." + key
	if len(servers) == 0 && !r.bad[path] {
		r.reject(section, "needs %s, one or more servers", key)
	}
	for i, server := range servers {
		at := fmt.Sprintf("%s[%d]", path, i)
		if why := fault(server); why != "" {
			r.reject(at, "%s", why)
		} else if first := slices.Index(servers, server); first < i {
			r.reject(at, "is the same as number %d", first)
		}
	}
}

// serverFault never quotes: somebody may have written a URL with a password.
func serverFault(s string) string {
	host, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil || host == "" || strings.ContainsAny(host, "/@") {
		return "must be host:port, with a port of 0 to 65535"
	}
	return ""
}

// endpointFault never quotes, as serverFault.
func endpointFault(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" {
		return "must be http://host:port or https://host:port, without a user or a path"
	}
	_, port, err := net.SplitHostPort(u.Host)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		return "must be http://host:port or https://host:port"
	}
	return ""
}

func checkLogin(section, username string, password Password, r *report) {
	if username != "" && password == "" && !r.bad[section+".password_file"] {
		r.reject(section+".username", "stands without password or password_file")
	}
}

// checkRedisAccess checks how the servers are logged in at, and their TLS.
func (c *Config) checkRedisAccess(r *report) {
	checkLogin("redis", c.Redis.Username, c.Redis.Password, r)
	secure := c.Redis.TLS
	for _, u := range append([]Secret{c.Redis.URL}, c.Redis.Redlock.URLs...) {
		options, err := redis.ParseURL(u.Reveal())
		if err != nil {
			continue // said already, or no URL
		}
		secure = secure || options.TLSConfig != nil
		if options.Password != "" && c.Redis.Password != "" {
			path := "redis.password"
			if c.Redis.PasswordFile != "" {
				path = "redis.password_file"
			}
			r.reject(path, "stands beside a URL that has a password; keep one of them")
		}
	}
	checkFiles("redis", [3]string{c.Redis.CAFile, c.Redis.CertFile, c.Redis.KeyFile}, secure, "connections have TLS: tls, or a rediss:// URL", r)
}

// checkFiles checks which of ca_file, cert_file and key_file are given.
func checkFiles(section string, files [3]string, secure bool, when string, r *report) {
	for i, key := range []string{"ca_file", "cert_file", "key_file"} {
		if files[i] != "" && !secure {
			r.reject(section+"."+key, "is for servers whose %s", when)
		}
	}
	if (files[1] == "") != (files[2] == "") {
		r.rejectOrder([]string{section + ".cert_file", section + ".key_file"}, "cert_file and key_file go together")
	}
}
