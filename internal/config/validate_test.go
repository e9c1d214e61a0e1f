package config

import "testing"

// head is the part of minimal before its tables.
const head = "auth: none\ndatabase: {url: \"postgres://app@db/legacy\"}\nredis: {url: \"redis://cache:6379\"}\n"

func TestAMistakeOfMeaningIsReportedWhereItStands(t *testing.T) {
	t.Parallel()
	runMistakes(t, []mistakeCase{
		{"no auth", minimal[len("auth: none\n"):], []string{`gateway.yaml: auth: is missing; write required, or none`}},
		{"another auth", "auth: token\n" + minimal[len("auth: none\n"):],
			[]string{`gateway.yaml:1:7: auth: is "token"; allowed are required, none`}},
		{"an open address without auth", minimal + "listen: 0.0.0.0:8080\n",
			[]string{"gateway.yaml:5:9: listen: is \"0.0.0.0:8080\"; with auth none the host must be a loopback"}},
		{"a proxy that is no address", minimal + "trusted_proxies: [10.0.0.0/8, balancer]\n", []string{`gateway.yaml:5:31: trusted_proxies[1]: is "balancer"; must be an IP address`}},
		{"every address without auth", minimal + "listen: :8080\n", []string{"gateway.yaml:5:9: listen: "}},
		{"a host name without auth", minimal + "listen: localhost.example:1\n", []string{"gateway.yaml:5:9: listen: "}},
		{"an address without a port", minimal + "listen: 127.0.0.1\n", []string{"gateway.yaml:5:9: listen: is \"127.0.0.1\"; must be host:port"}},
		{"a port by name", minimal + "admin_listen: 127.0.0.1:http\n", []string{"gateway.yaml:5:15: admin_listen: "}},
		{"one address twice", minimal + "listen: 127.0.0.1:9090\n", []string{"gateway.yaml:5:9: listen: listen and admin_listen are the same"}},
		{"a pool of none", minimal[:11] + "database: {url: \"postgres://db/x\", pool_size: 0}\n" + minimal[11+44:],
			[]string{"gateway.yaml:2:47: database.pool_size: is 0; must be 1 to 1000"}},
		{"a timeout of nothing", minimal + "limits:\n  request_timeout: 0s\n",
			[]string{"gateway.yaml:6:20: limits.request_timeout: is 0s; must be 1ms to 24h"}},
		{"a timeout PostgreSQL would round to none", "database: {url: \"postgres://db/x\", lock_timeout: 500us}\n" + minimal[:11] + minimal[55:],
			[]string{"gateway.yaml:1:50: database.lock_timeout: is 500µs; must be 1ms to 24h"}},
		{"a negative count", minimal + "limits:\n  max_rows: -1\n", []string{"gateway.yaml:6:13: limits.max_rows: is -1"}},
		{"a body of nothing", minimal + "limits:\n  max_body_bytes: 0\n", []string{"gateway.yaml:6:19: limits.max_body_bytes: is 0 bytes"}},
		{"a request shorter than its statement", minimal + "limits:\n  request_timeout: 5s\n",
			[]string{"gateway.yaml:6:20: limits.request_timeout: database.statement_timeout (5s) must be less"}},
		{"a lease shorter than a round trip", minimal + "leases:\n  min_ttl: 99ms\n", []string{"gateway.yaml:6:12: leases.min_ttl: is 99ms; must be 100ms to 24h"}},
		{"a default over the most", minimal + "leases:\n  default_ttl: 6m\n",
			[]string{"gateway.yaml:6:16: leases.default_ttl: leases.default_ttl (6m) must be at most leases.max_ttl (5m)"}},
		{"a default under the least", minimal + "leases:\n  min_ttl: 11s\n", []string{"gateway.yaml:6:12: leases.min_ttl: leases.min_ttl (11s) must be at most leases.default_ttl"}},
		{"a namespace without a prefix", minimal + "leases:\n  namespaces: [{max_ttl: 1m}]\n", []string{"gateway.yaml:6:17: leases.namespaces[0].prefix: must be 1 to 512 bytes"}},
		{"a namespace twice", minimal + "leases:\n  namespaces: [{prefix: 'a:'}, {prefix: 'a:'}]\n", []string{"gateway.yaml:6:41: leases.namespaces[1].prefix: is that of leases.namespaces[0] too"}},
		{"a namespace's most under the usual", minimal + "leases:\n  namespaces: [{prefix: 'a:', max_ttl: 9s}]\n",
			[]string{"gateway.yaml:6:40: leases.namespaces[0].max_ttl: leases.namespaces[0].default_ttl (10s) must be at most leases.namespaces[0].max_ttl (9s)"}},
		{"a namespace without time", minimal + "leases:\n  namespaces: [{prefix: 'a:', min_ttl: 0s}]\n", []string{"gateway.yaml:6:40: leases.namespaces[0].min_ttl: is 0s; must be 100ms to 24h"}},
		{"a most over the lifetime", minimal + "leases:\n  max_lifetime: 4m\n", []string{"gateway.yaml:6:17: leases.max_lifetime: leases.max_ttl (5m) must be at most"}},
		{"an unknown check", minimal + "leases:\n  lease_check: lax\n",
			[]string{`gateway.yaml:6:16: leases.lease_check: is "lax"; allowed are strict, lenient`}},
		{"an unknown way to go on", minimal + "leases:\n  lock_service_down: allow\n",
			[]string{`gateway.yaml:6:22: leases.lock_service_down: is "allow"; allowed are refuse, fence_only`}},
		{"an unknown pooler", "database: {url: \"postgres://db/x\", pooler: session}\n" + minimal[:11] + minimal[55:],
			[]string{`gateway.yaml:1:44: database.pooler: is "session"; allowed are none, transaction`}},
		{"a word for yes", "database: {url: \"postgres://db/x\", reload_on_notify: yes}\n" + minimal[:11] + minimal[55:],
			[]string{"gateway.yaml:1:54: database.reload_on_notify: must be true or false"}},
		{"notifications through a pooler", "database: {url: \"postgres://db/x\", pooler: transaction, reload_on_notify: true}\n" + minimal[:11] + minimal[55:],
			[]string{"gateway.yaml:1:75: database.reload_on_notify: notifications don't arrive through a pooler in transaction mode"}},
		{"an unknown level", minimal + "log: {level: INFO}\n", []string{`gateway.yaml:5:14: log.level: is "INFO"`}},
		{"an unknown format", minimal + "log: {format: xml}\n", []string{`gateway.yaml:5:15: log.format: is "xml"`}},
	})
}

func TestAMistakeInTablesIsReportedWhereItStands(t *testing.T) {
	t.Parallel()
	long := "a234567890123456789012345678901234567890123456789012345678901234"
	runMistakes(t, []mistakeCase{
		{"no tables", head, []string{"gateway.yaml: tables: at least one table"}},
		{"an empty list", head + "tables: []\n", []string{"gateway.yaml:4:1: tables: at least one table"}},
		{"a broken template", head + "tables:\n  - name: a\n    lock: a\n  - name: b\n    lock: b:{\n",
			[]string{"gateway.yaml:8:11: tables[1].lock: malformed: "}},
		{"no template", head + "tables:\n  - name: a\n", []string{"gateway.yaml:5:5: tables[0].lock: is missing"}},
		{"no name", head + "tables:\n  - lock: a\n", []string{"gateway.yaml:5:5: tables[0].name: is missing"}},
		{"one table twice", head + "tables:\n  - name: a\n    lock: a\n  - name: public.a\n    lock: a\n",
			[]string{"gateway.yaml:7:11: tables[1].name: public.a is tables[0] already"}},
		{"a name of three parts", head + "tables:\n  - name: a.b.c\n    lock: a\n",
			[]string{`gateway.yaml:5:11: tables[0].name: "a.b.c" isn't a plain name`}},
		{"a name PostgreSQL would cut", head + "tables:\n  - name: " + long + "\n    lock: a\n",
			[]string{"gateway.yaml:5:11: tables[0].name: the table's name is longer than 63 bytes"}},
		{"an empty schema", head + "tables:\n  - name: {schema: \"\", name: a}\n    lock: a\n",
			[]string{"gateway.yaml:5:5: tables[0].name: the schema is empty"}},
		{"a mapping without a name", head + "tables:\n  - name: {schema: a}\n    lock: a\n",
			[]string{"gateway.yaml:5:5: tables[0].name.name: is missing"}},
		{"an unknown operation", head + "tables:\n  - name: a\n    lock: a\n    operations: [select, upsert]\n",
			[]string{`gateway.yaml:7:26: tables[0].operations[1]: is "upsert"; allowed are select, insert, update, delete`}},
		{"an operation twice", head + "tables:\n  - name: a\n    lock: a\n    operations:\n      - select\n      - select\n",
			[]string{"gateway.yaml:9:9: tables[0].operations[1]: select is listed twice"}},
		{"no operations", head + "tables:\n  - name: a\n    lock: a\n    operations: []\n",
			[]string{"gateway.yaml:7:5: tables[0].operations: allows nothing"}},
		{"a table that is text", head + "tables:\n  - a\n", []string{"gateway.yaml:5:5: tables[0]: must be a mapping"}},
		{"a schema that isn't listed", minimal + "schemas: [sales]\n",
			[]string{"gateway.yaml:4:17: tables[0].name: the schema public isn't listed in schemas"}},
		{"a schema twice", minimal + "schemas: [public, public]\n", []string{"gateway.yaml:5:19: schemas[1]: public is listed twice"}},
		{"no schemas", minimal + "schemas: []\n", []string{"gateway.yaml:5:1: schemas: is empty"}},
	})
}

func TestNotificationsAreOffBehindATransactionPooler(t *testing.T) {
	t.Parallel()
	for pooler, want := range map[string]bool{"none": true, "transaction": false} {
		c := mustLoad(t, "database: {url: \"postgres://db/x\", pooler: "+pooler+"}\n"+minimal[:11]+minimal[55:])
		if c.Database.ReloadOnNotify != want {
			t.Errorf("with pooler %s reload_on_notify is %t", pooler, c.Database.ReloadOnNotify)
		}
	}
}

func TestALoopbackAddressNeedsNoAuth(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:1", "127.9.9.9:0", "[::1]:8080", "localhost:8080", "LOCALHOST:8080"} {
		if c := mustLoad(t, minimal+"listen: \""+address+"\"\n"); c.Listen != address {
			t.Errorf("Listen is %s, want %s", c.Listen, address)
		}
	}
}
