// Package chaos_test breaks what stands around a gateway: its servers, the
// wires to them, the gateway itself, at the worst moments, and holds what is
// left against the invariants.
package chaos_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "4") // most of the time they wait for a timeout or an expiry
	code := m.Run()
	testenv.Stop()
	os.Exit(code)
}

// journal leaves a second row for each change of an inventory row, so that a
// half write shows. The description "slow" makes a change take its time.
const journal = `
CREATE TABLE shop.journal (id bigint GENERATED ALWAYS AS IDENTITY, sku text NOT NULL, available integer NOT NULL);
CREATE FUNCTION shop.write_journal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.description = 'slow' THEN
        PERFORM pg_sleep(60);
    END IF;
    INSERT INTO shop.journal (sku, available) VALUES (NEW.sku, NEW.available);
    RETURN NEW;
END $$;
CREATE TRIGGER write_journal AFTER UPDATE ON shop.inventory
    FOR EACH ROW EXECUTE FUNCTION shop.write_journal();
`

// limits are short enough for a test to run into.
const limits = `
database: {url: '%s', pool_size: %d, read_pool_size: %d, lock_timeout: 400ms, statement_timeout: 800ms, reload_on_notify: false}
limits: {request_timeout: 1s}
`

// plant is a gateway with what a test looks at and breaks.
type plant struct {
	*testenv.Gateway
	db         *testenv.Database
	sql        *pgxpool.Pool // a way to the database that nothing breaks
	pg, redis  *testenv.Wire // nil: the gateway goes straight there
	redisURL   string        // of the server itself
	leasesName string        // prefix of its leases
}

// options is what build needs beyond the gateway's own.
type options struct {
	testenv.GatewayOptions
	setup string // SQL, after the shop and the journal
}

// build starts a gateway, over wires to both its servers, on the shop with the
// journal.
func build(t *testing.T, o options) *plant {
	t.Helper()
	shared, prefix := testenv.Redis(t)
	p := &plant{db: o.Database, redisURL: o.RedisURL, leasesName: prefix}
	if p.db == nil {
		p.db = testenv.Postgres(t)
	}
	if p.redisURL == "" {
		p.redisURL = shared
	}
	p.db.Exec(t, devstack.Shop+journal+o.setup)
	p.sql = p.db.Pool(t)
	p.start(t, o.GatewayOptions)
	return p
}

// sibling starts another gateway on the same servers, over wires of its own.
func (p *plant) sibling(t *testing.T) *plant {
	t.Helper()
	s := &plant{db: p.db, redisURL: p.redisURL, leasesName: p.leasesName, sql: p.sql}
	s.start(t, testenv.GatewayOptions{Tables: p.Options.Tables})
	return s
}

func (p *plant) start(t *testing.T, o testenv.GatewayOptions) {
	t.Helper()
	p.pg, p.redis = testenv.NewWire(t, cmp.Or(o.DatabaseURL, p.db.URL)), testenv.NewWire(t, p.redisURL)
	o.Database, o.DatabaseURL, o.RedisURL, o.KeyPrefix = p.db, p.pg.URL(), p.redis.URL(), p.leasesName
	o.Config = strings.Replace(o.Config, "%s", o.DatabaseURL, 1)
	p.Gateway = testenv.StartGateway(t, o)
}

// twin starts another gateway on the same servers, by way of databaseURL. What
// it sends to Redis meets no wire.
func (p *plant) twin(t *testing.T, databaseURL string) *testenv.Gateway {
	t.Helper()
	return testenv.StartGateway(t, testenv.GatewayOptions{
		Database: p.db, DatabaseURL: databaseURL, RedisURL: p.redisURL, KeyPrefix: p.leasesName,
	})
}

func tight(poolSize int) string {
	return strings.ReplaceAll(limits, "%d", fmt.Sprint(poolSize))
}
