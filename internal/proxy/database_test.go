package proxy_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
)

// raisingSQL makes a table whose trigger raises what the row tells it to.
const raisingSQL = `
CREATE TABLE shop.told (id text PRIMARY KEY, note text, n integer);
CREATE SEQUENCE shop.tries;
CREATE FUNCTION shop.tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.note = 'twice' AND nextval('shop.tries') < 3 THEN
        RAISE EXCEPTION 'not yet' USING ERRCODE = 'serialization_failure';
    ELSIF NEW.note = 'never' THEN
        PERFORM nextval('shop.tries');
        RAISE EXCEPTION 'not ever' USING ERRCODE = 'deadlock_detected';
    ELSIF NEW.note = 'sleep' THEN
        PERFORM pg_sleep(60);
    ELSIF length(NEW.note) = 5 AND NEW.note <> 'twice' THEN
        RAISE EXCEPTION 'as told' USING ERRCODE = NEW.note, DETAIL = 'secret detail', HINT = 'a hint';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER tells BEFORE INSERT OR UPDATE ON shop.told FOR EACH ROW EXECUTE FUNCTION shop.tell();

CREATE FUNCTION shop.late() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.n = 13 THEN RAISE EXCEPTION 'only at the end' USING DETAIL = 'secret detail'; END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER late AFTER INSERT OR UPDATE ON shop.told DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION shop.late();
INSERT INTO shop.told VALUES ('K', 'calm', 0);
`

const raisingTables = `  - name: shop.told
    lock: "kind:{id}"
`

func TestDatabaseErrors(t *testing.T) {
	t.Parallel()
	g := startAbove(t, kindsSQL+raisingSQL, devstack.ShopTables+kindsTables+raisingTables, "")
	kind := g.Acquire(t, "kind:K", 60000)
	sku := g.Acquire(t, "inventory:SKU-1", 60000)
	order := g.Acquire(t, "order:none", 60000)
	placed := g.Acquire(t, "order:2026-0001", 60000)
	w := watch(t, g)

	for name, c := range map[string]struct {
		lease      testenv.Lease
		method     string
		path       string
		body       string
		want       want
		constraint string
	}{
		"ADuplicateKey": {kind, http.MethodPost, "kinds", `{"id":"K"}`,
			want{status: 409, slug: "unique_violation", code: "23505"}, "kinds_pkey"},
		"AReferenceToNothing": {placed, http.MethodPost, "order_lines", `{"order_no":"2026-0001","line":1,"sku":"NONE","quantity":1}`,
			want{status: 409, slug: "foreign_key_violation", code: "23503"}, "order_lines_sku_fkey"},
		"AReferenceToNothingAtCommit": {order, http.MethodPost, "order_lines", `{"order_no":"none","line":1,"sku":"SKU-1","quantity":1}`,
			want{status: 409, slug: "foreign_key_violation", code: "23503"}, "order_lines_order_no_fkey"},
		"AMissingValue": {sku, http.MethodPatch, "inventory?sku=eq.SKU-1", `{"description":null}`,
			want{status: 422, slug: "not_null_violation", code: "23502", column: "description"}, ""},
		"AMissingMember": {order, http.MethodPost, "orders", `{"order_no":"none"}`,
			want{status: 422, slug: "not_null_violation", code: "23502", column: "customer"}, ""},
		"ACheck": {sku, http.MethodPatch, "inventory?sku=eq.SKU-1", `{"available":-1}`,
			want{status: 422, slug: "check_violation", code: "23514"}, "inventory_not_negative"},
		"AGeneratedColumn": {placed, http.MethodPatch, "orders?order_no=eq.2026-0001", `{"id":5}`,
			want{status: 422, slug: "generated_column", code: "428C9"}, ""},
		"AGeneratedColumnInserted": {order, http.MethodPost, "orders", `{"order_no":"none","id":5,"customer":"6f1c2a9e-0d53-4b0e-9a39-0d6f5a1c7e11"}`,
			want{status: 422, slug: "generated_column", code: "428C9"}, ""},
		"ANumberOutOfRange": {sku, http.MethodPatch, "inventory?sku=eq.SKU-1", `{"unit_price":99999999999.99}`,
			want{status: 422, slug: "invalid_value", code: "22003"}, ""},
		"ARaisedErrorAtCommit": {kind, http.MethodPatch, "told?id=eq.K", `{"n":13}`,
			want{status: 422, slug: "raised_by_database", code: "P0001"}, ""},
	} {
		t.Run(name+"IsRefused", func(t *testing.T) {
			q := testenv.Request{Method: c.method, Path: "/rest/" + c.path, Header: c.lease.Header(), Body: c.body}
			p := w.refused(t, g, q, c.want)
			if p.Constraint != c.constraint || p.AuditID != "" {
				t.Errorf("%+v", p)
			}
		})
	}

	for state, want := range map[string]want{
		"P0001": {status: 422, slug: "raised_by_database"},
		"23505": {status: 409, slug: "unique_violation"},
		"23503": {status: 409, slug: "foreign_key_violation"},
		"23001": {status: 409, slug: "foreign_key_violation"},
		"23P01": {status: 409, slug: "exclusion_violation"},
		"23502": {status: 422, slug: "not_null_violation"},
		"23514": {status: 422, slug: "check_violation"},
		"22012": {status: 422, slug: "invalid_value"},
		"44000": {status: 422, slug: "check_option_violation"},
		"55000": {status: 422, slug: "not_updatable"},
		"42501": {status: 403, slug: "insufficient_privilege"},
		"42P01": {status: 404, slug: "unknown_table"},
		"42703": {status: 422, slug: "unknown_column"},
		"55P03": {status: 503, slug: "row_locked"},
		"53100": {status: 503, slug: "overloaded"},
		"53300": {status: 503, slug: "overloaded"},
		"57P03": {status: 503, slug: "database_unavailable"},
		"25006": {status: 503, slug: "database_unavailable"},
		"57014": {status: 504, slug: "statement_timeout"},
		"40001": {status: 503, slug: "serialization_failure"},
		"40P01": {status: 503, slug: "serialization_failure"},
		"0A000": {status: 422, slug: "not_possible_here"},
		"54000": {status: 422, slug: "too_large"},
	} {
		t.Run("State"+state+"IsToldAsItIs", func(t *testing.T) {
			answer := g.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/told?id=eq.K", Header: kind.Header(), Body: `{"note":"` + state + `"}`})
			want.code = state
			p := mustRefuse(t, answer, want)
			w.unchanged(t)
			if p.Message != "as told" || p.Retryable != (want.status >= 500) || !strings.Contains(answer.Body, `"hint":"a hint"`) {
				t.Errorf("%s", answer.Body)
			}
			if strings.Contains(answer.Body, "secret") {
				t.Errorf("the detail left the gateway: %s", answer.Body)
			}
		})
	}

	for _, state := range []string{"XX000", "FG001", "FG003"} {
		t.Run("State"+state+"LeaksNothing", func(t *testing.T) {
			answer := g.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/told?id=eq.K", Header: kind.Header(), Body: `{"note":"` + state + `"}`})
			w.unchanged(t)
			p := answer.Problem(t)
			if answer.Status != 500 || p.Retryable || p.Outcome != "not_applied" || strings.Contains(answer.Body, "secret") || answer.Header.Get("Fencing-Refused") != "" {
				t.Errorf("%d %s", answer.Status, answer.Body)
			}
		})
	}

	t.Run("TheDetailIsLogged", func(t *testing.T) {
		if !strings.Contains(g.Log(), "secret detail") {
			t.Error("the operator can't see PostgreSQL's DETAIL")
		}
	})

	t.Run("AConflictThatPassesIsTriedAgain", func(t *testing.T) {
		answer := g.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/told?id=eq.K", Header: with(kind, "Prefer", "return=representation"), Body: `{"note":"twice"}`})
		if answer.Status != http.StatusOK || answer.Body != `[{"id":"K","note":"twice","n":0}]` {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
		if tries := scalar[int](t, w.pool, `SELECT last_value FROM shop.tries`); tries != 3 {
			t.Errorf("%d tries", tries)
		}
	})

	t.Run("AConflictThatStaysIsGivenUp", func(t *testing.T) {
		w := watch(t, g)
		before := scalar[int](t, w.pool, `SELECT last_value FROM shop.tries`)
		w.refused(t, g, testenv.Request{Method: http.MethodPatch, Path: "/rest/told?id=eq.K", Header: kind.Header(), Body: `{"note":"never"}`},
			want{status: 503, slug: "serialization_failure", code: "40P01"})
		if tries := scalar[int](t, w.pool, `SELECT last_value FROM shop.tries`) - before; tries < 2 || tries > 10 {
			t.Errorf("%d tries", tries)
		}
	})
}

func TestDatabaseLimits(t *testing.T) {
	t.Parallel()
	db := testenv.Shop(t)
	db.Exec(t, raisingSQL)
	g := testenv.StartGateway(t, testenv.GatewayOptions{
		Database: db,
		Tables:   devstack.ShopTables + raisingTables,
		Config:   fmt.Sprintf("database: {url: '%s', lock_timeout: 100ms, statement_timeout: 1s}\n", db.URL),
	})
	l := g.Acquire(t, "kind:K", 60000)
	w := watch(t, g)
	patch := func(body string) testenv.Request {
		return testenv.Request{Method: http.MethodPatch, Path: "/rest/told?id=eq.K", Header: l.Header(), Body: body}
	}

	t.Run("ALockedRowIsBusyNotStale", func(t *testing.T) {
		other, err := w.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer other.Rollback(t.Context())
		if _, err := other.Exec(t.Context(), `SELECT FROM shop.told WHERE id = 'K' FOR UPDATE`); err != nil {
			t.Fatal(err)
		}
		w.refused(t, g, patch(`{"n":1}`), want{status: 503, slug: "row_locked", code: "55P03"})
		if err := other.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if answer := g.Do(t, patch(`{"n":1}`)); answer.Status != http.StatusNoContent {
			t.Errorf("sent again: %d %s", answer.Status, answer.Body)
		}
	})

	t.Run("ALockedMarkIsBusyNotStale", func(t *testing.T) {
		w := watch(t, g)
		other, err := w.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer other.Rollback(t.Context())
		if _, err := other.Exec(t.Context(), `SELECT FROM fencegate.marks WHERE lock_key = 'kind:K' FOR UPDATE`); err != nil {
			t.Fatal(err)
		}
		w.refused(t, g, patch(`{"n":2}`), want{status: 503, slug: "row_locked"})
		release := testenv.Request{Method: http.MethodPost, Path: "/v1/leases/release", Body: l.Claim()}
		w.refused(t, g, release, want{status: 503, slug: "row_locked"})
	})

	t.Run("AStatementThatTakesTooLongIsEnded", func(t *testing.T) {
		w := watch(t, g)
		w.refused(t, g, patch(`{"note":"sleep"}`), want{status: 504, slug: "statement_timeout", code: "57014"})
	})
}

func TestDatabaseRole(t *testing.T) {
	t.Parallel()
	db := testenv.Shop(t)
	role := "fencegate_test_" + strings.ToLower(rand.Text()[:16])
	db.Exec(t, `CREATE ROLE `+role+` LOGIN PASSWORD 'few rights'`)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		conn, err := pgx.Connect(ctx, db.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, `DROP OWNED BY `+role+`; DROP ROLE `+role); err != nil {
			t.Error(err)
		}
	})
	db.Exec(t, strings.ReplaceAll(`
		GRANT USAGE ON SCHEMA fencegate, shop TO ROLE;
		GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA fencegate TO ROLE;
		GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA fencegate TO ROLE;
		GRANT SELECT (sku, available), UPDATE (available) ON shop.inventory TO ROLE;
		GRANT SELECT ON shop.orders TO ROLE;`, "ROLE", role))
	address, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword(role, "few rights")
	g := testenv.StartGateway(t, testenv.GatewayOptions{Database: db, DatabaseURL: address.String()})
	l, order := g.Acquire(t, "inventory:SKU-1", 60000), g.Acquire(t, "order:2026-0001", 60000)
	w := watch(t, g)
	denied := want{status: 403, slug: "insufficient_privilege", code: "42501"}

	t.Run("WhatTheRoleMayNotIsRefused", func(t *testing.T) {
		for _, q := range []testenv.Request{
			{Method: http.MethodPatch, Path: "/rest/orders?order_no=eq.2026-0001", Header: order.Header(), Body: `{"paid":true}`},
			{Method: http.MethodDelete, Path: "/rest/orders?order_no=eq.2026-0001", Header: order.Header()},
			{Method: http.MethodPost, Path: "/rest/orders", Header: order.Header(), Body: `{"order_no":"2026-0001"}`},
			{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1", Header: l.Header(), Body: `{"description":"x"}`},
			{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1", Header: with(l, "Prefer", "return=representation"), Body: `{"available":1}`},
			{Path: "/rest/inventory"},
			{Path: "/rest/order_lines"},
		} {
			w.refused(t, g, q, denied)
		}
	})

	t.Run("TheColumnsThatTheRoleMayReadAreEnough", func(t *testing.T) {
		answer := g.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?select=available&sku=eq.SKU-1",
			Header: with(l, "Prefer", "return=representation"), Body: `{"available":3}`})
		if answer.Body != `[{"available":3}]` {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
		if answer := g.Patch(t, l, "inventory?sku=eq.SKU-1", `{"available":4}`); answer.Status != http.StatusNoContent {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})
}
