package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Load reads the file at path, lays environ (in the form of os.Environ) and the
// flags of Flags over it and validates the result; nil flags are none. What is
// wrong with the configuration comes back as Mistakes, all of it at once.
//
// Besides the file it reads the url_file files. Parsing a database URL also
// reads what PostgreSQL clients always do: the PG* variables and the passfile,
// service file and certificates that the URL names.
func Load(path string, environ []string, flags *pflag.FlagSet) (*Config, error) {
	if path == "" {
		return nil, errors.New("read configuration: no file given")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(path, data, environ, flags)
}

// Parse is Load for a file that is at hand already; source names it in mistakes.
func Parse(source string, data []byte, environ []string, flags *pflag.FlagSet) (*Config, error) {
	return parse(newReport(source), data, environ, flags, nil)
}

// parse reads what a gateway that started with started, nil for a new one, is to
// run with.
func parse(r *report, data []byte, environ []string, flags *pflag.FlagSet, started *Config) (*Config, error) {
	c := defaults()
	if !decode(data, c, r) {
		return nil, r.err()
	}
	c.overlayEnv(environ, r)
	c.overlayFlags(flags, r)
	c.readURLs(r)
	c.fillSchemas(r)
	c.fillReload(r)
	c.fillNamespaces(r)
	c.fillTLS()
	c.validate(r)
	if started != nil && len(r.list) == 0 {
		c.checkFixed(started, r)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// readURLs reads the files that hold URLs and passwords.
func (c *Config) readURLs(r *report) {
	readSecret("database.url", &c.Database.URL, c.Database.URLFile, r)
	readSecret("redis.url", &c.Redis.URL, c.Redis.URLFile, r)
	readSecret("redis.password", &c.Redis.Password, c.Redis.PasswordFile, r)
	readSecret("redis.sentinel.password", &c.Redis.Sentinel.Password, c.Redis.Sentinel.PasswordFile, r)
	readSecret("etcd.password", &c.Etcd.Password, c.Etcd.PasswordFile, r)
	readSecret("traces.headers", &c.Traces.Headers, c.Traces.HeadersFile, r)
	c.readRedlock(r)
}

func (c *Config) readRedlock(r *report) {
	const files, direct = "redis.redlock.url_files", "redis.redlock.urls"
	redlock := &c.Redis.Redlock
	_, written := r.places[direct]
	if written && len(redlock.URLFiles) > 0 {
		r.reject(files, "stand beside urls; keep one of them")
		return
	}
	for i, file := range redlock.URLFiles {
		text, _ := readSecretFile(fmt.Sprintf("%s[%d]", files, i), file, r)
		redlock.URLs = append(redlock.URLs, Secret(text))
	}
}

// readSecret reads what the key at path holds from the file that path_file names.
func readSecret[T ~string](path string, into *T, file string, r *report) {
	_, direct := r.places[path]
	_, indirect := r.places[path+"_file"]
	switch {
	case !indirect || r.bad[path+"_file"]:
		return
	case direct:
		r.reject(path+"_file", "stands beside %s; keep one of them", path[strings.LastIndex(path, ".")+1:])
		return
	}
	if text, ok := readSecretFile(path+"_file", file, r); ok {
		*into = T(text)
	}
}

func readSecretFile(path, file string, r *report) (string, bool) {
	if isURL(file) { // opening it would put its password into the error
		r.reject(path, "must be the name of a file, and holds a URL")
		return "", false
	}
	data, err := os.ReadFile(file)
	if err != nil {
		r.reject(path, "%v", err)
		return "", false
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" {
		r.reject(path, "the file %s is empty", file)
		return "", false
	}
	return text, true
}

func isURL(s string) bool {
	_, err := maskPairs(s)
	return err == nil || strings.Contains(s, "://")
}

// fillReload sets the default of Database.ReloadOnNotify where it can't be true.
func (c *Config) fillReload(r *report) {
	if _, written := r.places["database.reload_on_notify"]; !written && c.Database.Pooler == PoolerTransaction {
		c.Database.ReloadOnNotify = false
	}
}

// fillSchemas sets the default of Schemas.
func (c *Config) fillSchemas(r *report) {
	if _, written := r.places["schemas"]; written {
		return
	}
	add := func(schema string) {
		if !slices.Contains(c.Schemas, schema) {
			c.Schemas = append(c.Schemas, schema)
		}
	}
	for _, t := range c.Tables {
		add(t.Schema)
	}
	for _, f := range c.Functions {
		add(f.Schema)
	}
}
