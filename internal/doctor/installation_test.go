package doctor_test

import (
	"context"
	"crypto/rand"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/config"
	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/doctor"
	"github.com/fencegate/fencegate/internal/testenv"
)

// installation is a database whose tables belong to a role that can't log in, and a
// gateway's role that has what docs/operations.md lists.
type installation struct {
	*testenv.Database
	suffix string
}

const rightsOfTheGateway = `
	GRANT USAGE ON SCHEMA shop TO @gateway;
	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA shop TO @gateway;
	GRANT USAGE ON SCHEMA fencegate TO @gateway;
	GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA fencegate TO @gateway;
	GRANT EXECUTE ON FUNCTION fencegate.keep_refusals(interval) TO @gateway;
	GRANT DELETE ON fencegate.answers, fencegate.acquired, fencegate.leases TO @gateway;`

func install(t *testing.T) *installation {
	t.Helper()
	i := &installation{Database: &testenv.Database{}, suffix: strings.ToLower(rand.Text()[:12])}
	t.Cleanup(func() { // after its database, and with it all that the roles have, is gone
		testenv.OnServer(t, i.named(`DROP ROLE IF EXISTS @role, @group, @gateway, @owner`))
	})
	return i.in(t, testenv.Shop(t))
}

// in installs in a database with the shop.
func (i *installation) in(t *testing.T, db *testenv.Database) *installation {
	t.Helper()
	i.Database = db
	i.exec(t, `
		CREATE ROLE @owner NOLOGIN;
		CREATE ROLE @gateway LOGIN;
		CREATE ROLE @role LOGIN;
		CREATE ROLE @group NOLOGIN;
		ALTER TABLE shop.inventory OWNER TO @owner;
		ALTER TABLE shop.orders OWNER TO @owner;
		ALTER TABLE shop.order_lines OWNER TO @owner;
		GRANT USAGE ON SCHEMA shop TO PUBLIC;`+rightsOfTheGateway)
	return i
}

// exec runs sql as the superuser, with the roles of this installation for @owner,
// @gateway, @role and @group.
func (i *installation) exec(t *testing.T, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, i.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, i.named(sql)); err != nil {
		t.Fatalf("executing %q: %v", i.named(sql), err)
	}
}

func (i *installation) named(text string) string {
	for _, role := range []string{"owner", "gateway", "role", "group"} {
		text = strings.ReplaceAll(text, "@"+role, "doctor_"+role+"_"+i.suffix)
	}
	return strings.ReplaceAll(text, "@database", i.Name)
}

// as is the address for a role.
func (i *installation) as(role string) string {
	u, err := url.Parse(i.URL)
	if err != nil {
		panic(err) // testenv made it
	}
	u.User = url.User(i.named(role))
	return u.String()
}

// patient is a gateway with more of a configuration: sections redis, database and
// tables have their defaults.
func (i *installation) patient(t *testing.T, more string) doctor.Patient {
	t.Helper()
	address, _ := testenv.Redis(t)
	text := i.named(more)
	for section, normal := range map[string]string{
		"auth":     "auth: none\n",
		"database": "database: {url: '" + i.as("@gateway") + "'}\n",
		"redis":    "redis: {url: '" + address + "'}\n",
		"tables":   devstack.ShopTables,
	} {
		if !strings.Contains("\n"+more, "\n"+section+":") && !(section == "redis" && strings.Contains(more, "backend:")) {
			text += normal
		}
	}
	c, err := config.Parse("test", []byte(strings.ReplaceAll(text, "@url", i.as("@gateway"))), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := doctor.Patient{Config: c, Specs: testenv.Specs(c), Plain: connection(t, c), Serve: connection(t, c), Timeout: 20 * time.Second}
	if c.Database.Pooler == config.PoolerNone {
		maps.Copy(p.Serve.RuntimeParams, map[string]string{"lock_timeout": "2000ms", "statement_timeout": "5000ms"})
	}
	if c.Leases.Backend == config.BackendRedis {
		p.Redis = []doctor.Server{redisAt(t, c.Redis.URL.Reveal())}
	}
	return p
}

func connection(t *testing.T, c *config.Config) *pgx.ConnConfig {
	t.Helper()
	parsed, err := pgx.ParseConfig(c.Database.URL.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	parsed.DefaultQueryExecMode = pgx.QueryExecModeExec
	return parsed
}

func redisAt(t *testing.T, address string) doctor.Server {
	t.Helper()
	o, err := redis.ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(o)
	t.Cleanup(func() { client.Close() })
	return doctor.Server{Name: o.Addr, Info: func(ctx context.Context) (string, error) { return client.Info(ctx).Result() }}
}

// findings leaves out what tests beside this one do with roles of theirs.
func (i *installation) findings(r *doctor.Report) []doctor.Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f doctor.Finding) bool {
		return strings.Contains(f.About, "doctor_") && !strings.Contains(f.About, i.suffix)
	})
}

// codes are those of a severity, each once.
func codes(findings []doctor.Finding, severities ...doctor.Severity) (all []string) {
	for _, f := range findings {
		if slices.Contains(severities, f.Severity) && !slices.Contains(all, f.Code) {
			all = append(all, f.Code)
		}
	}
	return all
}

func describe(r *doctor.Report) string {
	var b strings.Builder
	r.Print(&b)
	return b.String()
}
