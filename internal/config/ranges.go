package config

import "time"

const (
	// shortest is what PostgreSQL and Redis count in; less would round to 0,
	// which PostgreSQL takes for no timeout at all.
	shortest = time.Millisecond
	longest  = 24 * time.Hour
	// longestKept is ten years.
	longestKept = 10 * 365 * 24 * time.Hour
	// shortestTTL leaves a worker time for a round trip before its lease ends.
	shortestTTL = 100 * time.Millisecond
	mostAtOnce  = 1_000_000
	// longestPrefix bounds what each key of the lock service costs.
	longestPrefix = 128
)

// span is a duration and the key it was written under.
type span struct {
	path  string
	value time.Duration
}

func (c *Config) checkRanges(r *report) {
	c.checkCounts(r)
	for _, s := range []span{
		{"database.statement_timeout", c.Database.StatementTimeout},
		{"database.lock_timeout", c.Database.LockTimeout},
		{"database.connect_timeout", c.Database.ConnectTimeout},
		{"redis.timeout", c.Redis.Timeout},
		{"etcd.timeout", c.Etcd.Timeout},
		{"traces.timeout", c.Traces.Timeout},
		{"limits.request_timeout", c.Limits.RequestTimeout},
		{"limits.shutdown_grace", c.Limits.ShutdownGrace},
		{"limits.keep_idempotency_keys", c.Limits.KeepIdempotencyKeys},
	} {
		s.check(r, shortest)
	}
	checkTerms("leases", c.Leases.MinTTL, c.Leases.DefaultTTL, c.Leases.MaxTTL, c.Leases.MaxLifetime, r)
	c.checkNamespaces(r)
	span{"limits.drain_delay", c.Limits.DrainDelay}.within(r, 0, time.Hour)
	span{"audit.keep_refusals", c.Audit.KeepRefusals}.within(r, longest, longestKept)
	for path, prefix := range map[string]string{"redis.key_prefix": c.Redis.KeyPrefix, "etcd.key_prefix": c.Etcd.KeyPrefix} {
		if len(prefix) > longestPrefix {
			r.reject(path, "is longer than %d bytes", longestPrefix)
		}
	}
}

func (s span) check(r *report, low time.Duration) { s.within(r, low, longest) }

func (s span) within(r *report, low, high time.Duration) {
	if s.value < low || s.value > high {
		r.reject(s.path, "is %s; must be %s to %s", brief(s.value), brief(low), brief(high))
	}
}

func (c *Config) checkCounts(r *report) {
	for _, count := range []struct {
		path        string
		value, most int
	}{
		{"database.pool_size", c.Database.PoolSize, 1000},
		{"database.read_pool_size", c.Database.ReadPoolSize, 1000},
		{"limits.max_rows", c.Limits.MaxRows, mostAtOnce},
		{"limits.max_filters", c.Limits.MaxFilters, 10_000},
		{"limits.max_in_flight", c.Limits.MaxInFlight, mostAtOnce},
		{"limits.max_connections", c.Limits.MaxConnections, mostAtOnce},
	} {
		checkCount(count.path, count.value, 1, count.most, r)
	}
	checkCount("limits.max_in_flight_per_principal", c.Limits.MaxInFlightPerPrincipal, 0, mostAtOnce, r)
	for path, b := range map[string]ByteSize{
		"limits.max_body_bytes":   c.Limits.MaxBodyBytes,
		"limits.max_answer_bytes": c.Limits.MaxAnswerBytes,
	} {
		if b < Byte || b > GiB {
			r.reject(path, "is %d bytes; must be 1B to 1GiB", b)
		}
	}
}

func checkCount(path string, value, least, most int, r *report) {
	if value < least || value > most {
		r.reject(path, "is %d; must be %d to %d", value, least, most)
	}
}

// checkOrder checks that what should end first does. A database lock that
// outwaits its statement, or a statement that outlives its request, would be
// cut off by the wrong timeout and reported as the wrong trouble.
func (c *Config) checkOrder(r *report) {
	lock := span{"database.lock_timeout", c.Database.LockTimeout}
	statement := span{"database.statement_timeout", c.Database.StatementTimeout}
	request := span{"limits.request_timeout", c.Limits.RequestTimeout}
	for _, pair := range [][2]span{{lock, statement}, {statement, request}} {
		if a, b := pair[0], pair[1]; a.value >= b.value {
			r.rejectOrder([]string{a.path, b.path}, "%s", a.against("less than", b))
		}
	}
}

// against says how a and b should stand to each other.
func (s span) against(order string, b span) string {
	return s.path + " (" + brief(s.value) + ") must be " + order + " " + b.path + " (" + brief(b.value) + ")"
}
