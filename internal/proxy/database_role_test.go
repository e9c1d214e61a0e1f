package proxy_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/identity"
	"github.com/fencegate/fencegate/internal/testenv"
)

// Rows of tenants, and what tells as whom something ran: a default, a trigger at
// COMMIT, a function and a statement.
const tenantsSQL = `
CREATE TABLE shop.parcels (
    id text PRIMARY KEY, tenant text NOT NULL, n integer NOT NULL DEFAULT 0, token bigint,
    by_role text NOT NULL DEFAULT current_user);
INSERT INTO shop.parcels (id, tenant) VALUES ('a', 'acme'), ('b', 'bolt');
ALTER TABLE shop.parcels ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON shop.parcels TO THE_ROLE USING (tenant = current_setting('fencegate.claims')::json ->> 'tenant');
CREATE TABLE shop.journal (entry text, by_role text, principal text);
CREATE FUNCTION shop.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO shop.journal VALUES (NEW.id, current_user, current_setting('fencegate.principal', true));
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER noted AFTER INSERT OR UPDATE ON shop.parcels
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION shop.note();
CREATE FUNCTION shop.whoami(id text) RETURNS TABLE (name text) LANGUAGE sql AS $$ SELECT current_user::text $$;
GRANT USAGE ON SCHEMA shop, fencegate TO THE_ROLE;
GRANT SELECT, INSERT, UPDATE, DELETE ON shop.parcels TO THE_ROLE;
GRANT INSERT ON shop.journal TO THE_ROLE;
`

const tenantsTables = `tables:
  - {name: shop.parcels, lock: "parcel:{id}", fence_column: token MODE}
  - {name: shop.inventory, lock: "inventory:{sku}"}
statements:
  - {name: read_role, params: {id: text}, lock: "parcel:{id}", sql: "SELECT current_user::text AS name, :id::text AS id"}
functions:
  - {name: shop.whoami, lock: "parcel:{id}"}
`

// tenants is a gateway for principals of two tenants, who act as one database role,
// and for one who acts as the gateway's own.
type tenants struct {
	*testenv.Gateway
	role string
	pool *pgxpool.Pool
	keys map[string]string
}

func startTenants(t *testing.T, mode string) tenants {
	t.Helper()
	p := tenants{role: "app_" + strings.ToLower(rand.Text()), keys: map[string]string{}}
	t.Cleanup(func() { testenv.OnServer(t, "DROP ROLE IF EXISTS "+p.role) }) // after its database is gone
	db := testenv.Shop(t)
	p.pool = db.Pool(t)
	db.Exec(t, "CREATE ROLE "+p.role)
	db.Exec(t, strings.ReplaceAll(tenantsSQL, "THE_ROLE", p.role))
	const grants = "tables: [{table: shop.parcels}], call: [read_role, shop.whoami], locks: ['parcel:*']"
	auth := "auth: required\nroles:\n  - {name: app, " + grants + ", database_role: " + p.role + "}\n  - {name: house, " + grants + "}\nprincipals:\n"
	for name, role := range map[string]string{"acme": "app", "bolt": "app", "house": "house"} {
		text, key := identity.NewKey(time.Time{})
		p.keys[name] = text
		auth += fmt.Sprintf("  - {name: %[1]s, roles: [%[2]s], claims: {tenant: %[1]s}, api_keys: [{id: '%[3]s', sha256: '%[4]x'}]}\n", name, role, key.ID, key.SHA256)
	}
	// One connection for all, so that whatever is left on it would be seen.
	p.Gateway = testenv.StartGateway(t, testenv.GatewayOptions{Database: db, Auth: auth, Tables: strings.ReplaceAll(tenantsTables, "MODE", mode),
		Config: "limits: {max_connections: 1}\n"})
	return p
}

func (p tenants) as(name string) *testenv.Gateway { return p.As(p.keys[name]) }

func (p tenants) rows(t *testing.T) string {
	t.Helper()
	return scalar[string](t, p.pool, `SELECT string_agg(concat_ws(' ', id, tenant, n, by_role = current_user), '; ' ORDER BY id) FROM shop.parcels`)
}

func TestStatementsRunAsTheDatabaseRole(t *testing.T) {
	t.Parallel()
	p := startTenants(t, "")
	acme, bolt, house := p.as("acme"), p.as("bolt"), p.as("house")
	a, b := acme.Acquire(t, "parcel:a", 300_000), acme.Acquire(t, "parcel:b", 300_000)
	new, other := acme.Acquire(t, "parcel:new", 300_000), acme.Acquire(t, "parcel:other", 300_000)

	for _, c := range []struct {
		name   string
		q      testenv.Request
		status int
		body   string // that the answer holds
	}{
		{"its own rows are read", testenv.Request{Path: "/rest/parcels?select=id,tenant"}, 200, `[{"id":"a","tenant":"acme"}]`},
		{"with their ETag", testenv.Request{Path: "/rest/parcels?id=eq.a", Header: http.Header{"Accept": {"application/vnd.pgrst.object+json"}}}, 200, `"id":"a"`},
		{"its own row is written", testenv.Request{Method: "PATCH", Path: "/rest/parcels?id=eq.a", Header: with(a, "Prefer", "return=representation"), Body: `{"n":1}`}, 200, `"n":1`},
		{"another's is not there", testenv.Request{Method: "PATCH", Path: "/rest/parcels?id=eq.b", Header: with(b, "Prefer", "return=representation"), Body: `{"n":1}`}, 200, `[]`},
		{"nor can it be deleted", testenv.Request{Method: "DELETE", Path: "/rest/parcels?id=eq.b", Header: with(b, "Prefer", "return=representation")}, 200, `[]`},
		{"nor given away", testenv.Request{Method: "PATCH", Path: "/rest/parcels?id=eq.a", Header: with(a), Body: `{"tenant":"bolt"}`}, 403, "insufficient_privilege"},
		{"nor made", testenv.Request{Method: "POST", Path: "/rest/parcels", Header: with(other), Body: `{"id":"other","tenant":"bolt"}`}, 403, "insufficient_privilege"},
		{"nor taken over", testenv.Request{Method: "POST", Path: "/rest/parcels", Header: with(b, "Prefer", "resolution=merge-duplicates"), Body: `{"id":"b","tenant":"acme"}`}, 403, "insufficient_privilege"},
		{"a row of its own is made", testenv.Request{Method: "POST", Path: "/rest/parcels", Header: with(new, "Prefer", "return=representation"), Body: `{"id":"new","tenant":"acme"}`}, 201, `"by_role":"` + p.role},
		{"in a transaction", testenv.Request{Method: "POST", Path: "/v1/transactions",
			Body: `{"locks":[` + a.Claim() + `,` + new.Claim() + `],"operations":[{"op":"update","table":"parcels","where":{"id":"eq.a"},"increment":{"n":1}},{"op":"update","table":"parcels","where":{"id":"eq.new"},"set":{"n":7}}]}`}, 200, `"affected":1`},
		{"or not at all", testenv.Request{Method: "POST", Path: "/v1/transactions",
			Body: `{"locks":[` + a.Claim() + `,` + other.Claim() + `],"operations":[{"op":"update","table":"parcels","where":{"id":"eq.a"},"increment":{"n":1}},{"op":"insert","table":"parcels","rows":[{"id":"other","tenant":"bolt"}]}]}`}, 403, `"pointer":"/operations/1`},
		{"in a trial", testenv.Request{Method: "PATCH", Path: "/rest/parcels?id=eq.a", Header: with(a, "Prefer", "tx=rollback", "Prefer", "return=representation"), Body: `{"n":99}`}, 200, `"n":99`},
		{"by a function", testenv.Request{Method: "POST", Path: "/rest/rpc/whoami", Header: with(a), Body: `{"id":"a"}`}, 200, `"name":"` + p.role},
		{"by a statement", testenv.Request{Method: "POST", Path: "/rest/rpc/read_role", Header: with(a), Body: `{"id":"a"}`}, 200, `"name":"` + p.role},
	} {
		if answer := acme.Do(t, c.q); answer.Status != c.status || !strings.Contains(answer.Body, c.body) {
			t.Errorf("%s: %d %s", c.name, answer.Status, answer.Body)
		}
	}
	if got, want := p.rows(t), "a acme 2 t; b bolt 0 t; new acme 7 f"; got != want {
		t.Errorf("the rows are %s, not %s", got, want)
	}
	journal := scalar[string](t, p.pool, `SELECT string_agg(DISTINCT concat_ws(' ', by_role, principal), '; ') FROM shop.journal`)
	if journal != p.role+" acme" {
		t.Errorf("what COMMIT ran, ran as %q", journal)
	}
	if answer := bolt.Do(t, testenv.Request{Path: "/rest/parcels?select=id"}); answer.Body != `[{"id":"b"}]` {
		t.Errorf("another tenant reads %s", answer.Body)
	}

	t.Run("AndOthersAsTheGatewaysOwn", func(t *testing.T) {
		if answer := house.Do(t, testenv.Request{Path: "/rest/parcels?select=id&order=id"}); answer.Body != `[{"id":"a"},{"id":"b"},{"id":"new"}]` {
			t.Errorf("without a database role: %s", answer.Body)
		}
		mine := house.Acquire(t, "parcel:mine", 300_000)
		answer := house.Do(t, testenv.Request{Method: "POST", Path: "/rest/rpc/whoami", Header: with(mine), Body: `{"id":"mine"}`})
		if answer.Status != 200 || strings.Contains(answer.Body, p.role) {
			t.Errorf("a call without a database role: %d %s", answer.Status, answer.Body)
		}
	})
	t.Run("AnAnswerIsKept", func(t *testing.T) {
		q := testenv.Request{Method: "PATCH", Path: "/rest/parcels?id=eq.a", Header: with(a, "Idempotency-Key", "once", "Prefer", "return=representation"), Body: `{"n":50}`}
		first, again := acme.Do(t, q), acme.Do(t, q)
		if first.Status != 200 || again.Body != first.Body || again.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%d %s\nagain: %d %s %v", first.Status, first.Body, again.Status, again.Body, again.Header)
		}
	})
	t.Run("ALateWriterIsRefused", func(t *testing.T) {
		acme.Release(t, a)
		acme.Acquire(t, "parcel:a", 300_000)
		answer := acme.Do(t, testenv.Request{Method: "PATCH", Path: "/rest/parcels?id=eq.a", Header: with(a), Body: `{"n":51}`})
		mustRefuse(t, answer, want{status: 412, slug: "stale_token"})
	})
	t.Run("NothingIsDoneAsAnybodyElse", func(t *testing.T) {
		before := p.rows(t)
		testenv.OnServer(t, "ALTER ROLE "+p.role+" RENAME TO "+p.role+"_x")
		answer := acme.Do(t, testenv.Request{Method: "PATCH", Path: "/rest/parcels?id=eq.new", Header: with(new), Body: `{"n":52}`})
		problem := mustRefuse(t, answer, want{status: 500, slug: "internal"})
		read := acme.Do(t, testenv.Request{Path: "/rest/parcels"})
		if problem.Outcome != "not_applied" || read.Status != 500 || strings.Contains(answer.Body+read.Body, p.role) {
			t.Errorf("%s\n%d %s", answer.Body, read.Status, read.Body)
		}
		if !strings.Contains(p.Log(), `becoming the database role \"`+p.role+`\"`) {
			t.Errorf("the log does not say why:\n%s", p.Log())
		}
		testenv.OnServer(t, "ALTER ROLE "+p.role+"_x RENAME TO "+p.role)
		if now := p.rows(t); now != before {
			t.Errorf("the rows are %s, not %s", now, before)
		}
		answer = acme.Do(t, testenv.Request{Method: "PATCH", Path: "/rest/parcels?id=eq.new", Header: with(new), Body: `{"n":53}`})
		if answer.Status != 204 {
			t.Errorf("with the role there again: %d %s", answer.Status, answer.Body)
		}
	})
}

func TestWhatIsObservedIsRecordedForADatabaseRole(t *testing.T) {
	t.Parallel()
	p := startTenants(t, ", mode: observe")
	acme := p.as("acme")
	l := acme.Acquire(t, "parcel:a", 300_000)
	answer := acme.Do(t, testenv.Request{Method: "PATCH", Path: "/rest/parcels?id=eq.a", Body: `{"n":1}`})
	if answer.Status != 204 || answer.Header.Get("Fencing-Observed") == "" {
		t.Errorf("without a lock: %d %v %s", answer.Status, answer.Header, answer.Body)
	}
	answer = acme.Do(t, testenv.Request{Method: "PATCH", Path: "/rest/parcels?id=eq.a", Header: with(l), Body: `{"n":2}`})
	if answer.Status != 204 || answer.Header.Get("Fencing-Observed") != "" {
		t.Errorf("under its lock: %d %v %s", answer.Status, answer.Header, answer.Body)
	}
	got := scalar[string](t, p.pool, `
		SELECT concat_ws('; ',
		       (SELECT string_agg(concat_ws(' ', code, principal, table_name), ', ') FROM fencegate.refusals),
		       (SELECT string_agg(by_role || ' ' || principal, ', ') FROM shop.journal),
		       (SELECT concat_ws(' ', n, token) FROM shop.parcels WHERE id = 'a'))`)
	if want := "fencing_required acme shop.parcels; " + p.role + " acme, " + p.role + " acme; 2 1"; got != want {
		t.Errorf("there is %s, not %s", got, want)
	}
}
