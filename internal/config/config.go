// Package config turns the YAML file, the environment and the flags of the
// gateway into one validated Config, or into the list of everything wrong with
// them.
//
// Flags outrank the environment, which outranks the file, which outranks the
// defaults. A key, a variable or a value that isn't known is a mistake, never
// ignored: a gateway that starts runs what was written.
package config

import "time"

// The values of Config.Auth.
const (
	AuthRequired = "required" // whoever is no principal is turned away
	AuthNone     = "none"     // callers aren't authenticated, so the gateway listens on loopback and nowhere else
)

// AdminOff is the value of Config.Admin that opens no admin listener.
const AdminOff = "off"

// Config is the whole configuration. One returned by Load is complete and
// valid; the zero value is neither.
type Config struct {
	// Listen is the host:port that serves workers. Default "127.0.0.1:8080".
	// Under AuthNone the host is a loopback IP literal or localhost. Port 0
	// takes a free port.
	Listen string `yaml:"listen"`
	// Admin is the host:port that serves operators, or AdminOff. Default
	// "127.0.0.1:9090".
	Admin string `yaml:"admin_listen"`
	// TLS encrypts Listen. The zero value doesn't.
	TLS TLS `yaml:"tls,omitempty"`
	// AdminTLS encrypts Admin. The zero value doesn't.
	AdminTLS TLS `yaml:"admin_tls,omitempty"`
	// TrustedProxies are the addresses, or networks such as 10.0.0.0/8, of what stands
	// in front of the gateway and tells in X-Forwarded-For whom it heard from. Default
	// none: the header counts for nothing.
	TrustedProxies []string `yaml:"trusted_proxies,omitempty,flow"`
	// Auth says how callers are authenticated. No default, so that nobody runs
	// an open gateway unknowingly.
	Auth string `yaml:"auth"`
	// Identity says which credentials are taken, under AuthRequired.
	Identity Identity `yaml:"identity,omitempty"`
	// Database is the PostgreSQL server that holds the tables.
	Database Database `yaml:"database"`
	// Redis is the lock service of every backend that is Redis.
	Redis Redis `yaml:"redis,omitempty"`
	// Etcd is the lock service under BackendEtcd.
	Etcd Etcd `yaml:"etcd,omitempty"`
	// Leases bounds leases and says how strictly they are checked.
	Leases Leases `yaml:"leases"`
	// Limits bounds what requests may ask for.
	Limits Limits `yaml:"limits"`
	// Audit says what is kept of refusals.
	Audit Audit `yaml:"audit"`
	// Log says what is logged and how.
	Log Log `yaml:"log"`
	// Traces says where traces of requests are sent. Default nowhere.
	Traces Traces `yaml:"traces,omitempty"`
	// Schemas are the schemas a request may name; the first is the one used
	// when it names none. Default: the schemas of Tables, then of Functions,
	// each once, in order. 1 or more names of 1 to 63 bytes.
	Schemas []string `yaml:"schemas"`
	// Tables are the tables served. No default; 1 or more.
	Tables []Table `yaml:"tables"`
	// Statements are the registered statements. Default none.
	Statements []Statement `yaml:"statements,omitempty"`
	// Functions are the functions of the database that may be called. Default
	// none.
	Functions []Function `yaml:"functions,omitempty"`
	// Roles are what principals may do, under AuthRequired. Default none.
	Roles []Role `yaml:"roles,omitempty"`
	// Principals are those who are known by name, under AuthRequired. Default none.
	Principals []Principal `yaml:"principals,omitempty"`
}

// Database is the PostgreSQL server that holds the tables.
type Database struct {
	// URL is a postgres:// or postgresql:// URL or a key=value string. No
	// default; written directly or read from URLFile.
	URL Secret `yaml:"url,omitempty"`
	// URLFile is the file URL was read from. Empty if it was written directly.
	URLFile string `yaml:"url_file,omitempty"`
	// PoolSize is the most connections held for writes. Default 16; 1 to 1000.
	PoolSize int `yaml:"pool_size"`
	// ReadPoolSize is the most connections held for reads, apart from those for
	// writes so that readers can't starve writers. Default 8; 1 to 1000.
	ReadPoolSize int `yaml:"read_pool_size"`
	// StatementTimeout ends a statement that runs longer. Default 5s; 1ms to
	// 24h, less than Limits.RequestTimeout.
	StatementTimeout time.Duration `yaml:"statement_timeout"`
	// LockTimeout ends a statement that waits longer for a database lock.
	// Default 2s; 1ms to 24h, less than StatementTimeout.
	LockTimeout time.Duration `yaml:"lock_timeout"`
	// ConnectTimeout ends an attempt to connect. Default 5s; 1ms to 24h.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`
	// Pooler says what the connections lead to. Default PoolerNone.
	Pooler Pooler `yaml:"pooler"`
	// ReloadOnNotify reads the tables anew at NOTIFY fencegate, 'reload'. Default
	// true; under PoolerTransaction it is false, since LISTEN needs a session.
	ReloadOnNotify bool `yaml:"reload_on_notify"`
}

// Pooler says whether connections keep their session. The zero value is invalid.
type Pooler string

// The values of Pooler.
const (
	PoolerNone        Pooler = "none"        // they do: the server itself, or a pooler in session mode
	PoolerTransaction Pooler = "transaction" // each transaction can meet another session
)

// Leases bounds leases and says how strictly they are checked.
type Leases struct {
	// Backend is the lock service that holds the leases. Default BackendRedis.
	Backend Backend `yaml:"backend"`
	// DefaultTTL is the life of a lease whose request names none. Default 10s;
	// MinTTL to MaxTTL.
	DefaultTTL time.Duration `yaml:"default_ttl"`
	// MinTTL is the shortest life a request may name. Default 500ms; 100ms to
	// DefaultTTL.
	MinTTL time.Duration `yaml:"min_ttl"`
	// MaxTTL is the longest life a request may name. Default 5m; DefaultTTL to
	// MaxLifetime.
	MaxTTL time.Duration `yaml:"max_ttl"`
	// MaxLifetime is how long renewals may keep one lease alive, all told.
	// Default 1h; MaxTTL to 24h.
	MaxLifetime time.Duration `yaml:"max_lifetime"`
	// Check is whether a write needs its lease to be alive. Default CheckStrict.
	Check LeaseCheck `yaml:"lease_check"`
	// ServiceDown is what a write meets while the lock service is unreachable.
	// Default ServiceDownRefuse.
	ServiceDown ServiceDown `yaml:"lock_service_down"`
	// Namespaces are families of lock keys with bounds of their own. Default none;
	// each prefix once.
	Namespaces []Namespace `yaml:"namespaces,omitempty"`
}

// Namespace bounds the leases of a family of lock keys. Of several that a key
// belongs to, the one with the longest prefix counts. What it leaves out is as in
// Leases.
type Namespace struct {
	// Prefix is what its lock keys begin with. No default; 1 to 512 bytes.
	Prefix string `yaml:"prefix"`
	// DefaultTTL, MinTTL, MaxTTL and MaxLifetime are as in Leases.
	DefaultTTL  time.Duration `yaml:"default_ttl"`
	MinTTL      time.Duration `yaml:"min_ttl"`
	MaxTTL      time.Duration `yaml:"max_ttl"`
	MaxLifetime time.Duration `yaml:"max_lifetime"`
}

// LeaseCheck is whether a write needs its lease to be alive. The zero value is
// invalid.
type LeaseCheck string

// The values of LeaseCheck.
const (
	CheckStrict  LeaseCheck = "strict"  // the lease is alive and the writer holds it
	CheckLenient LeaseCheck = "lenient" // the fencing token decides alone once the lease has run out
)

// ServiceDown is what a write meets while the lock service is unreachable. The
// zero value is invalid.
type ServiceDown string

// The values of ServiceDown.
const (
	ServiceDownRefuse    ServiceDown = "refuse"     // the write is refused
	ServiceDownFenceOnly ServiceDown = "fence_only" // the fencing token decides alone
)

// Limits bounds what requests may ask for.
type Limits struct {
	// MaxBodyBytes is the largest request body. Default 1MiB; 1B to 1GiB.
	MaxBodyBytes ByteSize `yaml:"max_body_bytes"`
	// MaxAnswerBytes is the most that the rows in an answer may take. Default
	// 16MiB; 1B to 1GiB.
	MaxAnswerBytes ByteSize `yaml:"max_answer_bytes"`
	// MaxRows is the most rows a read returns or a request carries. Default
	// 1000; 1 to 1000000.
	MaxRows int `yaml:"max_rows"`
	// MaxFilters is the most filters of a request. Default 50; 1 to 10000.
	MaxFilters int `yaml:"max_filters"`
	// MaxInFlight is the most requests served at a time. Default 512; 1 to
	// 1000000.
	MaxInFlight int `yaml:"max_in_flight"`
	// MaxInFlightPerPrincipal is the most of them that one principal has, under
	// AuthRequired. Default 0: half of MaxInFlight; 0 to 1000000.
	MaxInFlightPerPrincipal int `yaml:"max_in_flight_per_principal"`
	// MaxConnections is the most open client connections. Default 4096; 1 to
	// 1000000.
	MaxConnections int `yaml:"max_connections"`
	// RequestTimeout ends a request that takes longer. Default 15s; 1ms to 24h,
	// more than Database.StatementTimeout.
	RequestTimeout time.Duration `yaml:"request_timeout"`
	// DrainDelay is how long requests are still accepted after a signal to stop,
	// while /readyz says that there should be none. Default 0s; 0s to 1h.
	DrainDelay time.Duration `yaml:"drain_delay"`
	// ShutdownGrace is how long requests in flight may finish once no more are
	// accepted. Default 20s; 1ms to 24h.
	ShutdownGrace time.Duration `yaml:"shutdown_grace"`
	// KeepIdempotencyKeys is how long the answer to a request with an
	// Idempotency-Key is kept. Default 24h; 1ms to 24h.
	KeepIdempotencyKeys time.Duration `yaml:"keep_idempotency_keys"`
}

// Audit says what is kept of refusals.
type Audit struct {
	// KeepRefusals is how long a refusal is on record at least; whole weeks are
	// dropped. Default 2160h, 90 days; 24h to 87600h.
	KeepRefusals time.Duration `yaml:"keep_refusals"`
}

// Log says what is logged and how.
type Log struct {
	// Level is the least level logged: debug, info, warn or error. Default
	// "info".
	Level string `yaml:"level"`
	// Format is json or text. Default "json".
	Format string `yaml:"format"`
}

// defaults is what a configuration holds before anything is read.
func defaults() *Config {
	return &Config{
		Listen: "127.0.0.1:8080",
		Admin:  "127.0.0.1:9090",
		Database: Database{
			PoolSize:         16,
			ReadPoolSize:     8,
			StatementTimeout: 5 * time.Second,
			LockTimeout:      2 * time.Second,
			ConnectTimeout:   5 * time.Second,
			Pooler:           PoolerNone,
			ReloadOnNotify:   true,
		},
		Identity: Identity{JWT: JWT{Leeway: 30 * time.Second}},
		Redis:    Redis{KeyPrefix: "fencegate:lease:", Timeout: time.Second},
		Etcd:     Etcd{KeyPrefix: "fencegate/lease/", Timeout: time.Second},
		Leases: Leases{
			Backend:     BackendRedis,
			DefaultTTL:  10 * time.Second,
			MinTTL:      500 * time.Millisecond,
			MaxTTL:      5 * time.Minute,
			MaxLifetime: time.Hour,
			Check:       CheckStrict,
			ServiceDown: ServiceDownRefuse,
		},
		Limits: Limits{
			MaxAnswerBytes: 16 * MiB,
			MaxBodyBytes:   MiB,
			MaxRows:        1000,
			MaxFilters:     50,
			MaxInFlight:    512,
			MaxConnections: 4096,
			RequestTimeout: 15 * time.Second,
			ShutdownGrace:  20 * time.Second,

			KeepIdempotencyKeys: 24 * time.Hour,
		},
		Audit: Audit{KeepRefusals: 90 * 24 * time.Hour},
		Log:   Log{Level: "info", Format: "json"},

		Traces: Traces{SampleRatio: 1, Timeout: 10 * time.Second},
	}
}
