package config

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Reload is Load for a gateway that runs and started with started: a change of
// what only a restart can change is a mistake too.
func Reload(started *Config, path string, environ []string, flags *pflag.FlagSet) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return parse(newReport(path), data, environ, flags, started)
}

// movable are the keys, and the sections, that a running gateway takes over. A key
// that is in neither list needs a restart.
var movable = []string{
	"tls", "admin_tls", "trusted_proxies", "schemas", "tables", "statements", "functions", "leases", "limits", "audit", "log.level",
	"identity", "roles", "principals",
	"database.url_file", "redis.url_file", "redis.redlock.url_files", // the URLs themselves are compared
	"redis.username", "redis.password", "redis.password_file",
}

// fixed are the exceptions of movable.
var fixed = []string{"leases.backend"}

// checkFixed reports what differs from the configuration that the gateway started
// with and can't.
func (c *Config) checkFixed(started *Config, r *report) {
	for _, path := range c.Changes(started) {
		if !isBelow(path, movable) || isBelow(path, fixed) {
			r.reject(path, "changed: needs a restart")
		}
	}
	for path, pair := range map[string][2]TLS{"tls": {c.TLS, started.TLS}, "admin_tls": {c.AdminTLS, started.AdminTLS}} {
		if pair[0].On() != pair[1].On() {
			r.reject(path, "turned on or off: needs a restart")
		}
	}
	// The connections to Redis are as many as the requests that were possible.
	if most := started.Limits.MaxInFlight; c.Leases.Backend.OnRedis() && c.Limits.MaxInFlight > most {
		r.reject("limits.max_in_flight", "is more than the %d that this gateway started with: needs a restart", most)
	}
}

func isBelow(path string, sections []string) bool {
	return slices.ContainsFunc(sections, func(section string) bool {
		return path == section || strings.HasPrefix(path, section+".")
	})
}

// Changes returns the keys whose values differ from those of earlier, in the order
// of the fields. A URL is the same if only its password differs.
func (c *Config) Changes(earlier *Config) []string {
	return changes("", reflect.ValueOf(*c), reflect.ValueOf(*earlier))
}

func changes(path string, a, b reflect.Value) (paths []string) {
	for i, key := range keysOf(a.Type()) {
		child := strings.TrimPrefix(path+"."+key, ".")
		switch now, before := a.Field(i), b.Field(i); {
		case now.Kind() == reflect.Struct:
			paths = append(paths, changes(child, now, before)...)
		case !same(now.Interface(), before.Interface()):
			paths = append(paths, child)
		}
	}
	return paths
}

// same does not look at where a value is written.
func same(a, b any) bool {
	switch a := a.(type) {
	case Secret:
		return a.String() == b.(Secret).String()
	case []Secret:
		return slices.EqualFunc(a, b.([]Secret), func(x, y Secret) bool { return x.String() == y.String() })
	case []Table:
		return slices.EqualFunc(a, b.([]Table), func(x, y Table) bool {
			x.Place = y.Place
			return reflect.DeepEqual(x, y)
		})
	case []Statement:
		return slices.EqualFunc(a, b.([]Statement), func(x, y Statement) bool {
			x.Place, x.Line = y.Place, y.Line
			return reflect.DeepEqual(x, y)
		})
	case []Function:
		return slices.EqualFunc(a, b.([]Function), func(x, y Function) bool {
			x.Place = y.Place
			return reflect.DeepEqual(x, y)
		})
	}
	return reflect.DeepEqual(a, b)
}
