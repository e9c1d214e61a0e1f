package config

import "time"

// Backend is the lock service that holds the leases. The zero value is invalid.
type Backend string

// The values of Backend.
const (
	BackendRedis    Backend = "redis"          // one server
	BackendSentinel Backend = "redis_sentinel" // the master that a Sentinel names
	BackendCluster  Backend = "redis_cluster"
	BackendRedlock  Backend = "redlock"  // a majority of servers that know nothing of each other
	BackendPostgres Backend = "postgres" // the protected database; no Redis at all
	BackendEtcd     Backend = "etcd"
)

// OnRedis reports whether the backend is made of Redis servers.
func (b Backend) OnRedis() bool {
	switch b {
	case BackendRedis, BackendSentinel, BackendCluster, BackendRedlock:
		return true
	}
	return false
}

// Redis is the lock service that holds the leases, under every backend that is
// Redis.
type Redis struct {
	// URL is a redis://, rediss:// or unix:// URL, under BackendRedis. No default;
	// written directly or read from URLFile.
	URL Secret `yaml:"url,omitempty"`
	// URLFile is the file URL was read from. Empty if it was written directly.
	URLFile string `yaml:"url_file,omitempty"`
	// Sentinel says who knows the master, under BackendSentinel.
	Sentinel Sentinel `yaml:"sentinel,omitempty"`
	// Cluster says where to ask first, under BackendCluster.
	Cluster Cluster `yaml:"cluster,omitempty"`
	// Redlock names the servers, under BackendRedlock.
	Redlock Redlock `yaml:"redlock,omitempty"`
	// Username logs in at every server whose URL has no password. Default none.
	Username string `yaml:"username,omitempty"`
	// Password logs in at every server whose URL has none. Default none; written
	// directly or read from PasswordFile.
	Password Password `yaml:"password,omitempty"`
	// PasswordFile is the file Password was read from. Empty if it was written
	// directly.
	PasswordFile string `yaml:"password_file,omitempty"`
	// TLS encrypts the connections under BackendSentinel (to the Sentinels too)
	// and BackendCluster. Default false; URLs say it themselves, by rediss://.
	TLS bool `yaml:"tls,omitempty"`
	// CAFile holds the certificates of the authorities that servers are checked
	// against, in PEM. Default: those of the system.
	CAFile string `yaml:"ca_file,omitempty"`
	// CertFile and KeyFile are the gateway's own certificate and its key, in PEM.
	// Default none; both or neither.
	CertFile string `yaml:"cert_file,omitempty"`
	KeyFile  string `yaml:"key_file,omitempty"`
	// KeyPrefix precedes the lock key in the Redis key. Default
	// "fencegate:lease:"; 0 to 128 bytes, empty meaning no prefix.
	KeyPrefix string `yaml:"key_prefix"`
	// Timeout ends a call to a Redis. Default 1s; 1ms to 24h.
	Timeout time.Duration `yaml:"timeout"`
}

// Sentinel says who knows the master of a Redis with replicas.
type Sentinel struct {
	// Master is the name that the Sentinels know it by. No default.
	Master string `yaml:"master,omitempty"`
	// Addresses are the Sentinels, as host:port. No default; 1 or more.
	Addresses []string `yaml:"addresses,omitempty"`
	// Username and Password log in at the Sentinels themselves. Default none; the
	// password is written directly or read from PasswordFile.
	Username     string   `yaml:"username,omitempty"`
	Password     Password `yaml:"password,omitempty"`
	PasswordFile string   `yaml:"password_file,omitempty"`
}

// Cluster says where to ask a Redis Cluster first.
type Cluster struct {
	// Addresses are some of its servers, as host:port; they name the others. No
	// default; 1 or more.
	Addresses []string `yaml:"addresses,omitempty"`
}

// Redlock names servers that know nothing of each other.
type Redlock struct {
	// URLs are as Redis.URL. No default; 3 to 15, written directly or read from
	// URLFiles.
	URLs []Secret `yaml:"urls,omitempty"`
	// URLFiles are the files URLs were read from, in order. Empty if they were
	// written directly.
	URLFiles []string `yaml:"url_files,omitempty"`
}

// Etcd is the lock service under BackendEtcd.
type Etcd struct {
	// Endpoints are the members, as http:// or https:// URLs. No default; 1 or
	// more, all of one scheme.
	Endpoints []string `yaml:"endpoints,omitempty"`
	// Username and Password log in. Default none; the password is written directly
	// or read from PasswordFile.
	Username     string   `yaml:"username,omitempty"`
	Password     Password `yaml:"password,omitempty"`
	PasswordFile string   `yaml:"password_file,omitempty"`
	// CAFile holds the certificates of the authorities that servers are checked
	// against, in PEM. Default: those of the system.
	CAFile string `yaml:"ca_file,omitempty"`
	// CertFile and KeyFile are the gateway's own certificate and its key, in PEM.
	// Default none; both or neither.
	CertFile string `yaml:"cert_file,omitempty"`
	KeyFile  string `yaml:"key_file,omitempty"`
	// KeyPrefix precedes the lock key in etcd's key. Default "fencegate/lease/"; 0
	// to 128 bytes, empty meaning no prefix.
	KeyPrefix string `yaml:"key_prefix"`
	// Timeout ends a call to the lock service, which is up to three to etcd.
	// Default 1s; 1ms to 24h.
	Timeout time.Duration `yaml:"timeout"`
}
