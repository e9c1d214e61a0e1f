package proxy_test

import (
	"net/http"
	"testing"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
)

const hiddenSQL = `
CREATE TABLE shop.aside (id text, n integer, note text);

-- Rows with n = 13 go elsewhere; those without an id get the one in note.
CREATE FUNCTION shop.hide() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.id IS NULL THEN NEW.id := NEW.note; END IF;
    NEW.id := replace(NEW.id, 'k', 'K');
    IF NEW.n = 13 THEN
        INSERT INTO shop.aside VALUES (NEW.id, NEW.n, NEW.note);
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;
CREATE TABLE shop.hiding (id text PRIMARY KEY DEFAULT 'K', n integer, note text UNIQUE);
INSERT INTO shop.hiding VALUES ('K', 0, 'mine'), ('other', 0, 'theirs');
CREATE TRIGGER hide BEFORE INSERT OR UPDATE ON shop.hiding FOR EACH ROW EXECUTE FUNCTION shop.hide();

CREATE FUNCTION shop.hide_view() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO shop.aside VALUES (NEW.id, NEW.n, NEW.note);
    IF NEW.n = 13 THEN RETURN NULL; END IF;
    RETURN NEW;
END $$;
CREATE VIEW shop.viewed AS SELECT id, n, note FROM shop.hiding;
CREATE TRIGGER hide INSTEAD OF INSERT OR UPDATE ON shop.viewed FOR EACH ROW EXECUTE FUNCTION shop.hide_view();

CREATE TABLE shop.numbered (a integer, b integer, n integer);
INSERT INTO shop.numbered VALUES (1, 2, 0);
CREATE FUNCTION shop.hide_number() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO shop.aside VALUES (NEW.a || '/' || NEW.b, NEW.n);
    RETURN NULL;
END $$;
CREATE TRIGGER hide BEFORE INSERT OR UPDATE ON shop.numbered FOR EACH ROW EXECUTE FUNCTION shop.hide_number();

CREATE TABLE shop.whole (a integer, b integer, n integer);
CREATE TRIGGER hide BEFORE INSERT ON shop.whole FOR EACH ROW EXECUTE FUNCTION shop.hide_number();

-- Partitions as they were made before PostgreSQL had them.
CREATE TABLE shop.events (id text NOT NULL, day date NOT NULL, n integer);
CREATE TABLE shop.events_2025 (CHECK (day < '2026-01-01')) INHERITS (shop.events);
CREATE TABLE shop.events_2026 (CHECK (day >= '2026-01-01')) INHERITS (shop.events);
CREATE FUNCTION shop.route() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.day < '2026-01-01' THEN INSERT INTO shop.events_2025 VALUES (NEW.*);
    ELSE INSERT INTO shop.events_2026 VALUES (NEW.*); END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER route BEFORE INSERT ON shop.events FOR EACH ROW EXECUTE FUNCTION shop.route();
CREATE FUNCTION shop.reroute() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.day >= '2026-01-01' THEN RETURN NEW; END IF;
    DELETE FROM shop.events_2026 WHERE id = OLD.id AND day = OLD.day;
    INSERT INTO shop.events_2025 VALUES (NEW.*);
    RETURN NULL;
END $$;
CREATE TRIGGER reroute BEFORE UPDATE ON shop.events_2026 FOR EACH ROW EXECUTE FUNCTION shop.reroute();
`

const hiddenTables = `  - {name: shop.hiding, lock: "hiding:{id}"}
  - {name: shop.viewed, lock: "hiding:{id}"}
  - {name: shop.numbered, lock: "number:{a}/{b}"}
  - {name: shop.whole, lock: "whole"}
  - {name: shop.events, lock: "event:{id}"}
`

// Rows that a trigger puts elsewhere, or that an upsert leaves as they are, don't
// come back. What was proposed is checked in their stead.
func TestRowsThatDoNotComeBack(t *testing.T) {
	t.Parallel()
	g := startAbove(t, hiddenSQL, devstack.ShopTables+hiddenTables, "")
	pool := g.Database.Pool(t)
	locks := map[string]testenv.Lease{}
	for _, key := range []string{"hiding:K", "number:1/2", "whole", "event:K"} {
		locks[key] = g.Acquire(t, key, 300_000)
	}
	const (
		all = `SELECT coalesce(string_agg(t, ' '), '') FROM (
			SELECT a::text AS t FROM shop.aside AS a UNION ALL SELECT h::text FROM shop.hiding AS h
			 UNION ALL SELECT n::text FROM shop.numbered AS n UNION ALL SELECT w::text FROM shop.whole AS w
			 UNION ALL SELECT e.tableoid::regclass || e::text FROM shop.events AS e ORDER BY 1) AS t`
		full   = "return=representation,count=exact"
		merge  = "resolution=merge-duplicates," + full
		ignore = "resolution=ignore-duplicates," + full
	)
	for _, c := range []struct {
		name, key, method, path, prefer, body string
		status                                int
		answer                                string // rows, or the slug of a problem
		aside                                 string // rows that are elsewhere then
	}{
		{"AnInsert", "hiding:K", "POST", "hiding", full, `{"id":"K","n":13}`, 201, `[]`, "(K,13,)"},
		{"AnInsertOutOfScope", "hiding:K", "POST", "hiding", full, `{"id":"other","n":13}`, 403, "lock_scope", ""},
		{"AnInsertWithoutTheLockColumn", "hiding:K", "POST", "hiding", full, `{"n":13,"note":"K"}`, 403, "lock_scope", ""},
		{"AnInsertOfNull", "hiding:K", "POST", "hiding", full, `{"id":null,"n":13,"note":"K"}`, 403, "lock_scope", ""},
		{"ABulkInsert", "hiding:K", "POST", "hiding", full, `[{"id":"K","n":13},{"id":"K","n":13,"note":"x"}]`, 201, `[]`, "(K,13,) (K,13,x)"},
		{"ABulkInsertWithOneOutOfScope", "hiding:K", "POST", "hiding", full, `[{"id":"K","n":13},{"id":"other","n":13}]`, 403, "lock_scope", ""},
		{"ABulkInsertOfOtherMembers", "hiding:K", "POST", "hiding", full, `[{"id":"K","n":13},{"id":"other","n":13,"note":"x"}]`, 403, "lock_scope", ""},
		{"ABulkInsertByColumns", "hiding:K", "POST", "hiding?columns=id,n", full, `[{"id":"K","n":13},{"n":13}]`, 403, "lock_scope", ""},
		{"ABulkInsertOfDefaults", "hiding:K", "POST", "hiding", "resolution=ignore-duplicates,missing=default", `[{},{}]`, 403, "lock_scope", ""},
		{"ATrial", "hiding:K", "POST", "hiding", "tx=rollback", `{"id":"other","n":13}`, 403, "lock_scope", ""},
		{"AnInsertThatATriggerPutsRight", "hiding:K", "POST", "hiding?on_conflict=id", merge, `{"id":"k","n":1}`, 201, `[{"id":"K","n":1,"note":"mine"}]`, ""},
		{"AnInsertThatATriggerFillsIn", "hiding:K", "POST", "hiding?on_conflict=id&columns=n,note", merge, `[{"n":2,"note":"K"}]`, 201, `[{"id":"K","n":2,"note":"K"}]`, ""},
		{"AnInsertOfTheDefault", "hiding:K", "POST", "hiding?on_conflict=id", merge, `{"n":3}`, 201, `[{"id":"K","n":3,"note":"mine"}]`, ""},

		{"AnIgnoredDuplicate", "hiding:K", "POST", "hiding", ignore, `{"id":"K","n":1}`, 201, `[]`, ""},
		{"AnIgnoredDuplicateOutOfScope", "hiding:K", "POST", "hiding", ignore, `{"id":"other","n":1}`, 403, "lock_scope", ""},
		{"AnIgnoredDuplicateOfAnotherKey", "hiding:K", "POST", "hiding?on_conflict=note", ignore, `{"id":"other","n":1,"note":"mine"}`, 403, "lock_scope", ""},
		{"IgnoredDuplicatesOneOutOfScope", "hiding:K", "POST", "hiding", ignore, `[{"id":"K","n":1},{"id":"other","n":1}]`, 403, "lock_scope", ""},
		{"AnIgnoredDuplicateWithoutTheLockColumn", "hiding:K", "POST", "hiding", ignore, `{"n":1}`, 403, "lock_scope", ""},
		{"AMerge", "hiding:K", "POST", "hiding", merge, `{"id":"K","n":13}`, 201, `[]`, "(K,13,)"},
		{"AMergeOutOfScope", "hiding:K", "POST", "hiding", merge, `{"id":"new","n":13}`, 403, "lock_scope", ""},
		{"APut", "hiding:K", "PUT", "hiding?id=eq.K", "return=minimal", `{"id":"K","n":13,"note":"x"}`, 204, ``, "(K,13,x)"},
		{"APutOutOfScope", "hiding:K", "PUT", "hiding?id=eq.new", "return=minimal", `{"id":"new","n":13,"note":"x"}`, 403, "lock_scope", ""},

		{"AnUpdate", "hiding:K", "PATCH", "hiding?id=eq.K", full, `{"n":13}`, 200, `[]`, "(K,13,mine)"},
		{"AnUpdateOfItsOwnKey", "hiding:K", "PATCH", "hiding?id=eq.K", full, `{"id":"K","n":13}`, 200, `[]`, "(K,13,mine)"},
		{"AnUpdateOutOfScope", "hiding:K", "PATCH", "hiding?id=eq.K", full, `{"id":"other","n":13}`, 403, "lock_scope", ""},
		{"AnUpdateToNull", "hiding:K", "PATCH", "hiding?id=eq.K", full, `{"id":null,"n":13}`, 403, "lock_scope", ""},
		{"AnUpdateThatATriggerPutsRight", "hiding:K", "PATCH", "hiding?id=eq.K", full, `{"id":"k","n":5}`, 200, `[{"id":"K","n":5,"note":"mine"}]`, ""},
		{"AnUpdateOutOfScopeOfNoRow", "hiding:K", "PATCH", "hiding?id=eq.K&n=eq.99", full, `{"id":"other"}`, 403, "lock_scope", ""},
		{"AnUpdateOfOneOfTwoLockColumns", "number:1/2", "PATCH", "numbered?a=eq.1&b=eq.2", full, `{"b":3}`, 403, "lock_scope", ""},
		{"AnUpdateOfOneOfTwoLockColumnsToTheSame", "number:1/2", "PATCH", "numbered?a=eq.1&b=eq.2", full, `{"b":2}`, 200, `[]`, "(1/2,0,)"},

		{"AView", "hiding:K", "POST", "viewed", full, `{"id":"K","n":13}`, 201, `[]`, "(K,13,)"},
		{"AViewOutOfScope", "hiding:K", "POST", "viewed", full, `{"id":"other","n":13}`, 403, "lock_scope", ""},
		{"AnUpdateOfAView", "hiding:K", "PATCH", "viewed?id=eq.K", full, `{"n":13}`, 200, `[]`, "(K,13,mine)"},
		{"AnUpdateOfAViewOutOfScope", "hiding:K", "PATCH", "viewed?id=eq.K", full, `{"id":"other","n":13}`, 403, "lock_scope", ""},

		{"AWholeTable", "whole", "POST", "whole", full, `{"a":1}`, 201, `[]`, "(,,)"},
		{"AWholeTableUnderAnotherKey", "hiding:K", "POST", "whole", full, `{"a":1}`, 403, "lock_scope", ""},

		{"ARoutedInsert", "event:K", "POST", "events", full, `{"id":"K","day":"2026-05-05","n":1}`, 201, `[]`, "shop.events_2026(K,2026-05-05,1)"},
		{"ARoutedInsertOutOfScope", "event:K", "POST", "events", full, `{"id":"other","day":"2026-05-05","n":1}`, 403, "lock_scope", "shop.events_2026(K,2026-05-05,1)"},
		{"AnUpdateOfARoutedRow", "event:K", "PATCH", "events?id=eq.K", full, `{"n":2}`, 200, `[{"id":"K","day":"2026-05-05","n":2}]`, "shop.events_2026(K,2026-05-05,2)"},
		{"AnUpdateThatMovesARoutedRow", "event:K", "PATCH", "events?id=eq.K", full, `{"day":"2025-05-05"}`, 200, `[]`, "shop.events_2025(K,2025-05-05,2)"},
		{"ADeleteOfARoutedRow", "event:K", "DELETE", "events?id=eq.K", full, ``, 200, `[{"id":"K","day":"2025-05-05","n":2}]`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			exec(t, g, `TRUNCATE shop.aside, shop.hiding; INSERT INTO shop.hiding VALUES ('K', 0, 'mine'), ('other', 0, 'theirs')`)
			before := scalar[string](t, pool, all)
			answer := g.Do(t, testenv.Request{Method: c.method, Path: "/rest/" + c.path, Header: with(locks[c.key], "Prefer", c.prefer), Body: c.body})
			aside := scalar[string](t, pool, `SELECT coalesce(string_agg(t, ' '), '') FROM (SELECT a::text AS t FROM shop.aside AS a
				UNION ALL SELECT e.tableoid::regclass || e::text FROM shop.events AS e ORDER BY 1) AS t`)
			if aside != c.aside {
				t.Errorf("elsewhere is %q, not %q", aside, c.aside)
			}
			if c.status == http.StatusForbidden {
				mustRefuse(t, answer, want{status: c.status, slug: c.answer})
				if after := scalar[string](t, pool, all); after != before {
					t.Errorf("refused, and it went from\n%s to\n%s", before, after)
				}
			} else if answer.Status != c.status || answer.Body != c.answer {
				t.Errorf("%d %s, not %d %s", answer.Status, answer.Body, c.status, c.answer)
			}
		})
	}

	t.Run("InATransaction", func(t *testing.T) {
		w := watch(t, g)
		two := []testenv.Lease{locks["hiding:K"], locks["number:1/2"]}
		moves := `{"op":"update","table":"numbered","where":{"a":"eq.1","b":"eq.2"},"increment":{"b":1}}`
		w.refused(t, g, run(transaction(two, `{"op":"insert","table":"hiding","rows":[{"id":"K","n":13}]},`+moves)), want{status: 403, slug: "lock_scope"})
		w.refused(t, g, run(transaction(two, `{"op":"insert","table":"hiding","rows":[{"id":"K","n":13},{"id":"other","n":13}]}`)), want{status: 403, slug: "lock_scope"})
		answer := g.Do(t, run(transaction(append(two, g.Acquire(t, "number:1/3", 300_000)), moves)))
		if answer.Status != http.StatusOK {
			t.Errorf("with the lock that it moves to: %d %s", answer.Status, answer.Body)
		}
	})
}
