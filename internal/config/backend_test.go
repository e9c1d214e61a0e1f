package config

import (
	"strings"
	"testing"
)

// base is the part of minimal that every backend needs; what follows begins on
// line 4.
const base = "auth: none\ndatabase: {url: \"postgres://app@db/legacy\"}\ntables: [{name: inventory, lock: \"inventory:{sku}\"}]\n"

const (
	sentinelBlock = "redis: {sentinel: {master: m, addresses: [\"a:1\", \"b:2\"]}}\n"
	clusterBlock  = "redis: {cluster: {addresses: [\"a:1\"]}}\n"
	redlockBlock  = "redis: {redlock: {urls: [\"redis://a\", \"redis://b\", \"rediss://c\"]}}\n"
	etcdBlock     = "etcd: {endpoints: [\"http://a:2379\"]}\n"
)

func on(backend Backend, blocks string) string {
	return base + blocks + "leases: {backend: " + string(backend) + "}\n"
}

func TestEachBackendNeedsItsOwnBlockAndNoOther(t *testing.T) {
	t.Parallel()
	own := map[Backend]string{
		BackendRedis: "redis: {url: \"redis://a\"}\n", BackendSentinel: sentinelBlock, BackendCluster: clusterBlock,
		BackendRedlock: redlockBlock, BackendPostgres: "", BackendEtcd: etcdBlock,
	}
	for backend, block := range own {
		if c := mustLoad(t, on(backend, block)); c.Leases.Backend != backend {
			t.Errorf("the backend is %s, want %s", c.Leases.Backend, backend)
		}
		if backend != BackendPostgres && len(mistakesOf(t, on(backend, ""))) == 0 {
			t.Errorf("%s works without its block", backend)
		}
		for other, foreign := range own {
			text := on(backend, block+foreign)
			if backend.OnRedis() && other.OnRedis() {
				text = on(backend, strings.TrimSuffix(block, "}\n")+", "+strings.TrimPrefix(foreign, "redis: {"))
			}
			if other == backend || foreign == "" {
				continue
			}
			got := mistakesOf(t, text)
			want := "belongs to leases.backend " + string(other)
			if !other.OnRedis() || !backend.OnRedis() {
				want = "belongs to leases.backend "
			}
			if len(got) != 1 || !strings.Contains(got[0], want) || !strings.HasSuffix(got[0], "and that is "+string(backend)+"; leave it out") {
				t.Errorf("%s beside what %s needs: %q", other, backend, got)
			}
		}
	}
}

func TestAMistakeAboutTheLockServiceIsReportedWhereItStands(t *testing.T) {
	t.Parallel()
	runMistakes(t, []mistakeCase{
		{"an unknown backend", on("memory", ""), []string{`gateway.yaml:4:19: leases.backend: is "memory"; allowed are redis, redis_sentinel, redis_cluster, redlock, postgres, etcd`}},
		{"redis for the database alone", on("postgres", "redis: {url: \"redis://a\"}\n"),
			[]string{"gateway.yaml:4:1: redis: belongs to leases.backend redis, redis_sentinel, redis_cluster, redlock, and that is postgres"}},
		{"a section with nothing in it", on("postgres", "redis:\n  # url: redis://a\netcd: {}\n"), nil},
		{"a Sentinel without its master", on("redis_sentinel", "redis: {sentinel: {addresses: [\"a:1\"]}}\n"),
			[]string{"gateway.yaml:4:9: redis.sentinel: needs master"}},
		{"no Sentinels", on("redis_sentinel", "redis: {sentinel: {master: m}}\n"), []string{"gateway.yaml:4:9: redis.sentinel: needs addresses"}},
		{"a URL for an address", on("redis_cluster", "redis: {cluster: {addresses: [\"redis://:hunter2@a:1\"]}}\n"),
			[]string{"gateway.yaml:4:31: redis.cluster.addresses[0]: must be host:port"}},
		{"a server twice", on("redis_cluster", "redis: {cluster: {addresses: [\"a:1\", \"a:1\"]}}\n"),
			[]string{"gateway.yaml:4:38: redis.cluster.addresses[1]: is the same as number 0"}},
		{"two votes of three", on("redlock", "redis: {redlock: {urls: [\"redis://a\", \"redis://b\", \"redis://:x@a:6379/2\"]}}\n"),
			[]string{"gateway.yaml:4:52: redis.redlock.urls[2]: is the same server as number 0; it would have two votes"}},
		{"two servers", on("redlock", "redis: {redlock: {urls: [\"redis://a\", \"redis://b\"]}}\n"),
			[]string{"gateway.yaml:4:9: redis.redlock: needs 3 to 15 servers in urls or url_files, and has 2"}},
		{"a server that is none", on("redlock", "redis: {redlock: {urls: [\"http://:hunter2@a\", \"redis://b\", \"redis://c\"]}}\n"),
			[]string{"gateway.yaml:4:26: redis.redlock.urls[0]: the URL must begin with redis://"}},
		{"TLS beside a URL", on("redis", "redis: {url: \"redis://a\", tls: true}\n"),
			[]string{"gateway.yaml:4:32: redis.tls: belongs to leases.backend redis_sentinel, redis_cluster"}},
		{"an authority without TLS", on("redis", "redis: {url: \"redis://a\", ca_file: x}\n"),
			[]string{"gateway.yaml:4:36: redis.ca_file: is for servers whose connections have TLS"}},
		{"a certificate without its key", on("redis", "redis: {url: \"rediss://a\", cert_file: x}\n"),
			[]string{"gateway.yaml:4:39: redis.cert_file: cert_file and key_file go together"}},
		{"a user without a password", on("redis_sentinel", "redis: {username: u, sentinel: {master: m, addresses: [\"a:1\"], username: v}}\n"),
			[]string{"gateway.yaml:4:19: redis.username: stands without password", "gateway.yaml:4:74: redis.sentinel.username: stands without password"}},
		{"two passwords", on("redis", "redis: {url: \"redis://:a@b\", password: c}\n"),
			[]string{"gateway.yaml:4:40: redis.password: stands beside a URL that has a password"}},
		{"a password and its file", on("etcd", "etcd: {endpoints: [\"http://a:1\"], password: p, password_file: f}\n"),
			[]string{"gateway.yaml:4:63: etcd.password_file: stands beside password; keep one of them"}},
		{"an endpoint without its port", on("etcd", "etcd: {endpoints: [\"http://a\"]}\n"), []string{"gateway.yaml:4:20: etcd.endpoints[0]: must be http://host:port"}},
		{"an endpoint with a password", on("etcd", "etcd: {endpoints: [\"http://u:hunter2@a:1\"]}\n"), []string{"gateway.yaml:4:20: etcd.endpoints[0]: must be http://host:port"}},
		{"endpoints of two kinds", on("etcd", "etcd: {endpoints: [\"http://a:1\", \"https://b:1\"]}\n"), []string{"gateway.yaml:4:8: etcd.endpoints: are https:// in part"}},
		{"a certificate for http", on("etcd", "etcd: {endpoints: [\"http://a:1\"], ca_file: x}\n"), []string{"gateway.yaml:4:44: etcd.ca_file: is for servers whose endpoints are https://"}},
		{"a call without time", on("etcd", "etcd: {endpoints: [\"http://a:1\"], timeout: 0s}\n"), []string{"gateway.yaml:4:44: etcd.timeout: is 0s"}},
	})
}

func TestAVariableForAnotherBackendIsNamed(t *testing.T) {
	t.Parallel()
	got := mistakesOf(t, on("postgres", ""), "FENCEGATE_REDIS_URL=redis://:hunter2@a")
	wantMistakes(t, got, []string{"FENCEGATE_REDIS_URL: redis.url: belongs to leases.backend redis, "})
}

func TestPasswordsComeFromFilesAndTheEnvironmentAndAreNeverShown(t *testing.T) {
	t.Parallel()
	file, url := writeAs(t, "password", "hunter2\n"), writeAs(t, "url", "redis://:hunter2@a\n")
	urls := "redis: {redlock: {url_files: [" + url + ", " + writeAs(t, "url", "redis://b\n") + ", " + writeAs(t, "url", "redis://c\n") + "]}}\n"
	for name, tc := range map[string]struct {
		text, env string
		read      func(*Config) string
	}{
		"a file": {on("redis_sentinel", strings.Replace(sentinelBlock, "sentinel:", "password_file: "+file+", sentinel:", 1)), "",
			func(c *Config) string { return c.Redis.Password.Reveal() }},
		"the environment": {on("redis_cluster", clusterBlock), "FENCEGATE_REDIS_PASSWORD=hunter2",
			func(c *Config) string { return c.Redis.Password.Reveal() }},
		"the environment over a file": {on("redis_cluster", strings.Replace(clusterBlock, "cluster:", "password_file: /nowhere, cluster:", 1)), "FENCEGATE_REDIS_PASSWORD=hunter2",
			func(c *Config) string { return c.Redis.Password.Reveal() }},
		"the Sentinels' own": {on("redis_sentinel", sentinelBlock), "FENCEGATE_REDIS_SENTINEL_PASSWORD_FILE=" + file,
			func(c *Config) string { return c.Redis.Sentinel.Password.Reveal() }},
		"etcd's": {on("etcd", etcdBlock), "FENCEGATE_ETCD_PASSWORD=hunter2",
			func(c *Config) string { return c.Etcd.Password.Reveal() }},
		"written out": {on("etcd", strings.Replace(etcdBlock, "endpoints:", "password: hunter2, endpoints:", 1)), "",
			func(c *Config) string { return c.Etcd.Password.Reveal() }},
		"a URL of several": {on("redlock", urls), "",
			func(c *Config) string {
				return strings.TrimSuffix(strings.TrimPrefix(c.Redis.Redlock.URLs[0].Reveal(), "redis://:"), "@a")
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var environ []string
			if tc.env != "" {
				environ = append(environ, tc.env)
			}
			c := mustLoad(t, tc.text, environ...)
			if got := tc.read(c); got != "hunter2" {
				t.Errorf("the password is %q", got)
			}
			masked := c.Masked()
			if strings.Contains(masked, "hunter2") {
				t.Errorf("the password shows:\n%s", masked)
			}
			if again := mustLoad(t, masked); again.Masked() != masked {
				t.Errorf("loaded again it is\n%s\nnot\n%s", again.Masked(), masked)
			}
		})
	}
}
