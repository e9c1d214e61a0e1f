package config

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

const (
	envPrefix = "FENCEGATE_"
	// envTests begins the variables that only tests read.
	envTests = "FENCEGATE_TEST_"
)

// serviceLink matches what Kubernetes adds to the environment of a pod for a
// service named fencegate.
var serviceLink = regexp.MustCompile(`_SERVICE_(HOST|PORT)|_PORT(_|$)`)

// overlay is a key that the environment or a flag may set. There is no flag for
// a URL: passwords never travel in argv, where every user of the host sees them.
type overlay struct {
	path, env, flag, usage string
	set                    func(*Config, string)
	// instead is the key that this one replaces.
	instead string
}

func overlays() []overlay {
	return []overlay{
		{path: "listen", env: "FENCEGATE_LISTEN", flag: "listen",
			usage: "serve workers on this `host:port` (overrides listen)",
			set:   func(c *Config, s string) { c.Listen = s }},
		{path: "admin_listen", env: "FENCEGATE_ADMIN_LISTEN", flag: "admin-listen",
			usage: "serve operators on this `host:port`, or off (overrides admin_listen)",
			set:   func(c *Config, s string) { c.Admin = s }},
		{path: "auth", env: "FENCEGATE_AUTH",
			set: func(c *Config, s string) { c.Auth = s }},
		{path: "database.url", env: "FENCEGATE_DATABASE_URL", instead: "database.url_file",
			set: func(c *Config, s string) { c.Database.URL, c.Database.URLFile = Secret(s), "" }},
		{path: "database.url_file", env: "FENCEGATE_DATABASE_URL_FILE", instead: "database.url",
			set: func(c *Config, s string) { c.Database.URL, c.Database.URLFile = "", s }},
		{path: "redis.url", env: "FENCEGATE_REDIS_URL", instead: "redis.url_file",
			set: func(c *Config, s string) { c.Redis.URL, c.Redis.URLFile = Secret(s), "" }},
		{path: "redis.url_file", env: "FENCEGATE_REDIS_URL_FILE", instead: "redis.url",
			set: func(c *Config, s string) { c.Redis.URL, c.Redis.URLFile = "", s }},
		{path: "redis.password", env: "FENCEGATE_REDIS_PASSWORD", instead: "redis.password_file",
			set: func(c *Config, s string) { c.Redis.Password, c.Redis.PasswordFile = Password(s), "" }},
		{path: "redis.password_file", env: "FENCEGATE_REDIS_PASSWORD_FILE", instead: "redis.password",
			set: func(c *Config, s string) { c.Redis.Password, c.Redis.PasswordFile = "", s }},
		{path: "redis.sentinel.password", env: "FENCEGATE_REDIS_SENTINEL_PASSWORD", instead: "redis.sentinel.password_file",
			set: func(c *Config, s string) { c.Redis.Sentinel.Password, c.Redis.Sentinel.PasswordFile = Password(s), "" }},
		{path: "redis.sentinel.password_file", env: "FENCEGATE_REDIS_SENTINEL_PASSWORD_FILE", instead: "redis.sentinel.password",
			set: func(c *Config, s string) { c.Redis.Sentinel.Password, c.Redis.Sentinel.PasswordFile = "", s }},
		{path: "etcd.password", env: "FENCEGATE_ETCD_PASSWORD", instead: "etcd.password_file",
			set: func(c *Config, s string) { c.Etcd.Password, c.Etcd.PasswordFile = Password(s), "" }},
		{path: "etcd.password_file", env: "FENCEGATE_ETCD_PASSWORD_FILE", instead: "etcd.password",
			set: func(c *Config, s string) { c.Etcd.Password, c.Etcd.PasswordFile = "", s }},
		{path: "traces.endpoint", env: "FENCEGATE_TRACES_ENDPOINT",
			set: func(c *Config, s string) { c.Traces.Endpoint = s }},
		{path: "traces.headers", env: "FENCEGATE_TRACES_HEADERS", instead: "traces.headers_file",
			set: func(c *Config, s string) { c.Traces.Headers, c.Traces.HeadersFile = Password(s), "" }},
		{path: "traces.headers_file", env: "FENCEGATE_TRACES_HEADERS_FILE", instead: "traces.headers",
			set: func(c *Config, s string) { c.Traces.Headers, c.Traces.HeadersFile = "", s }},
		{path: "log.level", env: "FENCEGATE_LOG_LEVEL", flag: "log-level",
			usage: "log from this `level` on: debug, info, warn or error (overrides log.level)",
			set:   func(c *Config, s string) { c.Log.Level = s }},
	}
}

// Flags defines the flags that Load takes values from.
func Flags(fs *pflag.FlagSet) {
	for _, o := range overlays() {
		if o.flag != "" {
			fs.String(o.flag, "", o.usage)
		}
	}
}

func (c *Config) overlayFlags(fs *pflag.FlagSet, r *report) {
	if fs == nil {
		return
	}
	for _, o := range overlays() {
		if o.flag == "" || !fs.Changed(o.flag) {
			continue
		}
		o.set(c, fs.Lookup(o.flag).Value.String())
		r.override(o.path, "--"+o.flag)
	}
}

func (c *Config) overlayEnv(environ []string, r *report) {
	vars := ownVars(environ)
	known := map[string]bool{}
	for _, o := range overlays() {
		known[o.env] = true
		value, set := vars[o.env]
		switch {
		case !set:
			continue
		case value == "":
			// Falling back to the file could mean writing to another database.
			r.add(place{source: o.env}, o.path, "is set but empty; unset it or give it a value")
			continue
		}
		o.set(c, value)
		r.override(o.path, o.env)
		if o.instead == "" {
			continue
		}
		if at, written := r.places[o.instead]; written && at.source != r.file {
			r.reject(o.path, "stands beside %s; keep one of them", at.source)
			continue
		}
		delete(r.places, o.instead)
	}
	rejectUnknown(vars, known, r)
}

// MigrateURLEnv names the variable that `gateway migrate` takes a direct
// connection from, where the gateway itself goes through a pooler.
const MigrateURLEnv = envPrefix + "MIGRATE_URL"

// ownVars picks the gateway's variables. Of two with one name the last counts,
// as it does for os/exec.
func ownVars(environ []string) map[string]string {
	vars := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, envPrefix) && !strings.HasPrefix(name, envTests) && name != MigrateURLEnv {
			vars[name] = value
		}
	}
	return vars
}

// rejectUnknown reports variables nobody reads, which are most likely misspelt.
func rejectUnknown(vars map[string]string, known map[string]bool, r *report) {
	var names []string
	for name := range vars {
		if !known[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		text := "unknown variable; known are " + strings.Join(envNames(), ", ")
		if serviceLink.MatchString(name) {
			text = "unknown variable; it looks like a Kubernetes service link: set enableServiceLinks: false in the pod"
		}
		r.add(place{source: name}, "", text)
	}
}

func envNames() []string {
	var names []string
	for _, o := range overlays() {
		names = append(names, o.env)
	}
	return names
}
