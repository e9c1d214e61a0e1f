package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"
)

func (c *Config) checkURLs(r *report) {
	checkURL("database", "FENCEGATE_DATABASE_URL", c.Database.URL, databaseFault, r)
	if c.Leases.Backend == BackendRedis {
		checkURL("redis", "FENCEGATE_REDIS_URL", c.Redis.URL, redisFault, r)
	}
}

// checkURL reports a URL where it came from: itself or its file.
func checkURL(section, env string, url Secret, fault func(string) error, r *report) {
	path := section + ".url"
	if _, indirect := r.places[path+"_file"]; indirect {
		path += "_file"
	}
	_, given := r.places[path]
	if r.bad[path] {
		return
	}
	if !given {
		r.reject(section, "needs url or url_file, or %s in the environment", env)
		return
	}
	if err := fault(url.Reveal()); err != nil {
		r.reject(path, "the URL %v", err)
	}
}

func databaseFault(s string) error {
	scheme, _, isURL := strings.Cut(s, "://")
	if isURL && !strings.Contains(scheme, "=") && scheme != "postgres" && scheme != "postgresql" {
		return errors.New("must begin with postgres:// or postgresql://, or be key=value pairs")
	}
	return fault(s, func(s string) error {
		_, err := pgconn.ParseConfig(s)
		// The error itself repeats the URL.
		if cause := errors.Unwrap(err); cause != nil {
			return cause
		}
		return err
	})
}

func redisFault(s string) error {
	scheme, rest, isURL := strings.Cut(s, "://")
	if !isURL || scheme != "redis" && scheme != "rediss" && scheme != "unix" {
		return errors.New("must begin with redis://, rediss:// or unix://")
	}
	// go-redis takes redis://word@host for a user without a password and then
	// doesn't log in at all.
	authority, _, _ := strings.Cut(rest, "/")
	if user, _, has := strings.Cut(authority, "@"); has && !strings.Contains(user, ":") {
		return errors.New("has a user but no password; write " + scheme + "://:PASSWORD@… for a password alone")
	}
	return fault(s, func(s string) error {
		_, err := redis.ParseURL(s)
		return err
	})
}

// fault says what parse finds wrong with s. Parsers quote what they choke on,
// so their words are only ever those about the masked form.
func fault(s string, parse func(string) error) error {
	masked, err := mask(s)
	if err != nil {
		return err
	}
	if parse(s) == nil {
		return nil
	}
	if err := parse(masked); err != nil {
		return fmt.Errorf("isn't usable: %w", err)
	}
	return errors.New("has a password with a character that must be percent-encoded")
}
