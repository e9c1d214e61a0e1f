package config

import (
	"fmt"
	"time"
)

// longestKey bounds a lock key, in bytes.
const longestKey = 512

// fillNamespaces gives every namespace what it leaves out.
func (c *Config) fillNamespaces(r *report) {
	for i := range c.Leases.Namespaces {
		n := &c.Leases.Namespaces[i]
		for key, pair := range map[string]struct {
			of    *time.Duration
			usual time.Duration
		}{
			"min_ttl":      {&n.MinTTL, c.Leases.MinTTL},
			"default_ttl":  {&n.DefaultTTL, c.Leases.DefaultTTL},
			"max_ttl":      {&n.MaxTTL, c.Leases.MaxTTL},
			"max_lifetime": {&n.MaxLifetime, c.Leases.MaxLifetime},
		} {
			if _, written := r.places[namespacePath(i)+"."+key]; !written {
				*pair.of = pair.usual
			}
		}
	}
}

func (c *Config) checkNamespaces(r *report) {
	first := map[string]int{}
	for i, n := range c.Leases.Namespaces {
		path := namespacePath(i)
		checkTerms(path, n.MinTTL, n.DefaultTTL, n.MaxTTL, n.MaxLifetime, r)
		if n.Prefix == "" || len(n.Prefix) > longestKey {
			r.reject(path+".prefix", "must be 1 to %d bytes that lock keys begin with", longestKey)
		} else if other, twice := first[n.Prefix]; twice {
			r.reject(path+".prefix", "is that of %s too", namespacePath(other))
		} else {
			first[n.Prefix] = i
		}
	}
}

func namespacePath(i int) string { return fmt.Sprintf("leases.namespaces[%d]", i) }

// checkTerms checks the bounds of leases that stand under path.
func checkTerms(path string, least, usual, most, lifetime time.Duration, r *report) {
	terms := []span{{path + ".min_ttl", least}, {path + ".default_ttl", usual}, {path + ".max_ttl", most}, {path + ".max_lifetime", lifetime}}
	terms[0].check(r, shortestTTL)
	for i, b := range terms[1:] {
		b.check(r, shortest)
		if a := terms[i]; a.value > b.value {
			r.rejectOrder([]string{a.path, b.path}, "%s", a.against("at most", b))
		}
	}
}
