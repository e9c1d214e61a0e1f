package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/fencegate/fencegate/internal/config"
)

// examineLocks looks at the lock service. Nothing it finds lets a late writer in.
func (v *visit) examineLocks(ctx context.Context) {
	for _, a := range v.accesses() {
		v.examineAccess(a)
	}
	for _, s := range v.Redis {
		v.examineRedis(ctx, s)
	}
	if v.AskLocks == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, v.Timeout)
	defer cancel()
	if err := v.AskLocks(ctx); err != nil {
		v.blind("the lock service", err)
	}
}

func (v *visit) examineAccess(a access) {
	if isLoopback(a.host) {
		return
	}
	if !a.tls {
		v.find("lock_service_plaintext", a.host, "connections to it are not encrypted",
			"A rediss:// URL, redis.tls: true, or https:// endpoints; with redis.ca_file or etcd.ca_file if the authority is your own.")
	}
	if !a.password {
		v.find("lock_service_no_login", a.host, "the configuration logs in with no password and no certificate",
			"Set a password at the server (requirepass, an ACL, or etcd's auth) and redis.password_file or etcd.password_file here.")
	}
}

func (v *visit) examineRedis(ctx context.Context, s Server) {
	ctx, cancel := context.WithTimeout(ctx, v.Timeout)
	defer cancel()
	text, err := s.Info(ctx)
	if err != nil && strings.Contains(err.Error(), "NOPERM") {
		v.hidden("Redis "+s.Name, "the gateway's user may not run INFO: ACL SETUSER <user> +info")
		return
	}
	if err != nil {
		v.blind("Redis "+s.Name, err)
		return
	}
	info := parseInfo(text)
	v.examineMemory(s.Name, info)
	v.examineReplication(s.Name, info)
	v.examinePersistence(s.Name, info)
}

func (v *visit) examineMemory(name string, info map[string]string) {
	most, policy := info["maxmemory"], info["maxmemory_policy"]
	if policy == "" {
		v.hidden("Redis "+name, "its INFO does not tell maxmemory_policy")
		return
	}
	if most == "0" || most == "" || policy == "noeviction" {
		return
	}
	v.find("redis_evicts_leases", "Redis "+name, fmt.Sprintf("maxmemory is %s bytes and maxmemory-policy %s", most, policy),
		"CONFIG SET maxmemory-policy noeviction, and the same in redis.conf")
}

func (v *visit) examineReplication(name string, info map[string]string) {
	if info["role"] == "slave" {
		v.find("redis_is_replica", "Redis "+name, "it is a replica of "+info["master_host"]+":"+info["master_port"],
			"Name the master, or use leases.backend: redis_sentinel or redis_cluster, which find it.")
	}
	if replicas := info["connected_slaves"]; replicas != "" && replicas != "0" {
		v.find("redis_failover_loses_leases", "Redis "+name, "it has "+replicas+" replicas, which it does not wait for",
			"Nothing, unless losing them costs too much: etcd keeps them over a failover (docs/leases.md).")
	}
}

func (v *visit) examinePersistence(name string, info map[string]string) {
	if info["aof_enabled"] != "0" {
		return
	}
	why := "it keeps no append-only file: a restart loses all leases, or those since the last snapshot"
	if v.Config.Leases.Backend == config.BackendRedlock {
		why += "; one of Redlock's servers that comes back empty has forgotten its vote"
	}
	v.find("redis_restart_loses_leases", "Redis "+name, why, "CONFIG SET appendonly yes, and the same in redis.conf, if that costs too much")
}

// parseInfo reads lines of key:value.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[key] = value
		}
	}
	return info
}
