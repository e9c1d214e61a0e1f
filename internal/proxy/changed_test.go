package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// A table changes under a running gateway that has written to it: the first
// request afterwards is answered by what the table is by then.
func TestTheFirstRequestAfterAChangeIsAnsweredRight(t *testing.T) {
	t.Parallel()
	const patch, post, put, del, get = http.MethodPatch, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodGet
	cases := []struct {
		name    string
		columns string // beside id and n
		before  string // the object that is written before the change
		change  string // SQL; X is the table's name
		method  string
		query   string // after ?id=eq.K
		body    string
		status  int
		answer  string // rows, or the slug of a problem
	}{
		{"IntegerBecomesBigint", "c integer", `{"c":1}`, `ALTER TABLE shop.X ALTER c TYPE bigint`,
			patch, "", `{"c":3000000000}`, 200, `[{"c":3000000000}]`},
		{"IntegerBecomesBigintInAFilter", "c integer", `{"c":1}`, `ALTER TABLE shop.X ALTER c TYPE bigint; UPDATE shop.X SET c = 3000000000`,
			del, "&c=eq.3000000000", "", 200, `[{"c":3000000000}]`},
		{"IntegerBecomesBigintInAGroup", "c integer", `{"c":1}`, `ALTER TABLE shop.X ALTER c TYPE bigint; UPDATE shop.X SET c = 3000000000`,
			del, "&or=(c.eq.3000000000,n.eq.77)", "", 200, `[{"c":3000000000}]`},
		{"TextBecomesInteger", "c text", `{"c":"1"}`, `ALTER TABLE shop.X ALTER c TYPE integer USING c::integer`,
			patch, "", `{"c":7}`, 200, `[{"c":7}]`},
		{"TextBecomesIntegerInAFilter", "c text", `{"c":"1"}`, `ALTER TABLE shop.X ALTER c TYPE integer USING c::integer`,
			patch, "&c=eq.1", `{"n":5}`, 200, `[{"c":1}]`},
		{"TextBecomesIntegerAndTheValueIsNone", "c text", `{"c":"1"}`, `ALTER TABLE shop.X ALTER c TYPE integer USING c::integer`,
			patch, "", `{"c":"one"}`, 422, "invalid_value"},
		{"IntegerBecomesText", "c integer", `{"c":1}`, `ALTER TABLE shop.X ALTER c TYPE text`,
			patch, "", `{"c":"007"}`, 200, `[{"c":"007"}]`},
		{"IntegerBecomesTextInAFilter", "c integer", `{"c":1}`, `ALTER TABLE shop.X ALTER c TYPE text`,
			patch, "&c=eq.1", `{"c":"a"}`, 200, `[{"c":"a"}]`},
		{"IntegerBecomesTextInAnInsert", "c integer", `{"c":1}`, `ALTER TABLE shop.X ALTER c TYPE text; DELETE FROM shop.X`,
			post, "", `{"id":"K","c":"007"}`, 201, `[{"c":"007"}]`},
		{"IntegerBecomesTextInAnUpsert", "c integer", `{"c":1}`, `ALTER TABLE shop.X ALTER c TYPE text`,
			put, "", `{"id":"K","c":"007"}`, 200, `[{"c":"007"}]`},
		{"VarcharBecomesText", "c varchar(3)", `{"c":"abc"}`, `ALTER TABLE shop.X ALTER c TYPE text`,
			patch, "", `{"c":"longer"}`, 200, `[{"c":"longer"}]`},
		{"DateBecomesTimestamp", "c date", `{"c":"2026-01-01"}`, `ALTER TABLE shop.X ALTER c TYPE timestamp`,
			patch, "", `{"c":"2026-01-02T10:11:12"}`, 200, `[{"c":"2026-01-02T10:11:12"}]`},
		{"DateBecomesTimestampInAFilter", "c date", `{"c":"2026-01-01"}`, `ALTER TABLE shop.X ALTER c TYPE timestamp`,
			del, "&c=eq.2026-01-01T10:11:12", "", 200, `[]`},
		{"FloatBecomesDouble", "c real", `{"c":1}`, `ALTER TABLE shop.X ALTER c TYPE double precision`,
			patch, "", `{"c":0.1}`, 200, `[{"c":0.1}]`},
		{"AnArrayBecomesAnother", "c integer[]", `{"c":[1]}`, `ALTER TABLE shop.X ALTER c TYPE text[]`,
			patch, "", `{"c":["007"]}`, 200, `[{"c":["007"]}]`},
		{"ByteaBecomesText", "c bytea", `{"c":"base64:AQI="}`, `ALTER TABLE shop.X ALTER c TYPE text USING 'x'`,
			patch, "", `{"c":"base64:AQI="}`, 200, `[{"c":"base64:AQI="}]`},
		{"JSONBecomesText", "c json", `{"c":{}}`, `ALTER TABLE shop.X ALTER c TYPE text`,
			patch, "&c->>a=is.null", `{"n":1}`, 422, "not_json"},
		{"TextBecomesJSON", "c text", `{"c":"{}"}`, `ALTER TABLE shop.X ALTER c TYPE jsonb USING c::jsonb`,
			patch, "&c->>a=is.null", `{"n":1}`, 200, `[{"c":{}}]`},
		{"ADomainBecomesItsType", "c shop.positive", `{"c":1}`, `ALTER TABLE shop.X ALTER c TYPE integer`,
			patch, "", `{"c":-1}`, 200, `[{"c":-1}]`},
		{"TheLockColumnBecomesVarchar", "c integer", `{"c":1}`, `ALTER TABLE shop.X ALTER id TYPE varchar(9)`,
			patch, "", `{"c":2}`, 200, `[{"c":2}]`},
		{"AnEnumGetsAValue", "c shop.mood", `{"c":"sad"}`, `ALTER TYPE shop.mood ADD VALUE 'glad'`,
			patch, "&c=eq.sad", `{"c":"glad"}`, 200, `[{"c":"glad"}]`},
		{"AnEnumIsMadeAnew", "c shop.tone", `{"c":"sad"}`, `ALTER TYPE shop.tone RENAME TO old_tone; CREATE TYPE shop.tone AS ENUM ('sad', 'glad');
			ALTER TABLE shop.X ALTER c TYPE shop.tone USING c::text::shop.tone; DROP TYPE shop.old_tone`,
			patch, "&c=eq.sad", `{"c":"glad"}`, 200, `[{"c":"glad"}]`},
		{"TextBecomesAnEnum", "c text", `{"c":"sad"}`, `ALTER TABLE shop.X ALTER c TYPE shop.mood USING c::shop.mood`,
			patch, "&c=eq.sad", `{"c":"sad"}`, 200, `[{"c":"sad"}]`},
		{"AnEnumIsRenamed", "c shop.pitch", `{"c":"low"}`, `ALTER TYPE shop.pitch RENAME TO voice`,
			patch, "&c=eq.low", `{"c":"low"}`, 200, `[{"c":"low"}]`},
		{"AColumnIsAdded", "c integer", `{"c":1}`, `ALTER TABLE shop.X ADD d integer`,
			patch, "", `{"d":2}`, 200, `[{"c":1}]`},
		{"AColumnIsRenamed", "c integer", `{"c":1}`, `ALTER TABLE shop.X RENAME c TO d; ALTER TABLE shop.X ADD c integer DEFAULT 9`,
			patch, "&d=eq.1", `{"d":2}`, 200, `[{"c":9}]`},
		{"AnotherColumnIsDropped", "c integer, d integer", `{"c":1,"d":1}`, `ALTER TABLE shop.X DROP d`,
			patch, "", `{"c":2}`, 200, `[{"c":2}]`},
		{"TheColumnIsDropped", "c integer, d integer", `{"c":1,"d":1}`, `ALTER TABLE shop.X DROP d`,
			patch, "", `{"d":2}`, 422, "unknown_column"},
		{"TheColumnIsDroppedInAFilter", "c integer, d integer", `{"c":1,"d":1}`, `ALTER TABLE shop.X DROP d`,
			del, "&d=eq.1", "", 422, "unknown_column"},
		{"TheTableIsMadeAnew", "c integer", `{"c":1}`, `DROP TABLE shop.X; CREATE TABLE shop.X (c text, id text PRIMARY KEY, n integer); INSERT INTO shop.X VALUES ('1', 'K')`,
			patch, "&c=eq.1", `{"c":"007"}`, 200, `[{"c":"007"}]`},
		{"TheTableBecomesAView", "c integer", `{"c":1}`, `ALTER TABLE shop.X RENAME TO base; CREATE VIEW shop.X AS SELECT c::bigint, id, n FROM shop.base`,
			get, "&c=eq.3000000000", "", 200, `[]`},
		{"TheTableIsGone", "c integer", `{"c":1}`, `DROP TABLE shop.X`,
			patch, "", `{"c":2}`, 404, "unknown_table"},
		{"ThePrimaryKeyIsAnother", "c integer", `{"c":1}`, `ALTER TABLE shop.X DROP CONSTRAINT X_pkey, ADD PRIMARY KEY (id, c)`,
			put, "&c=eq.1", `{"id":"K","c":1,"n":3}`, 200, `[{"c":1}]`},
		{"ThePrimaryKeyIsAnotherThanMeant", "c integer", `{"c":1}`, `ALTER TABLE shop.X DROP CONSTRAINT X_pkey, ADD PRIMARY KEY (id, c)`,
			put, "", `{"id":"K","n":3}`, 405, "primary_key_required"},
		{"AReadOfANewColumn", "c integer", `{"c":1}`, `ALTER TABLE shop.X DROP c; ALTER TABLE shop.X ADD c jsonb DEFAULT '{"a":1}'`,
			get, "&c->>a=eq.1", "", 200, `[{"c":{"a": 1}}]`},
	}
	db := testenv.Postgres(t)
	db.Exec(t, `CREATE SCHEMA shop; CREATE TYPE shop.mood AS ENUM ('sad'); CREATE TYPE shop.tone AS ENUM ('sad');
		CREATE TYPE shop.pitch AS ENUM ('low'); CREATE DOMAIN shop.positive AS integer CHECK (VALUE > 0)`)
	tables := "tables:\n"
	for i, c := range cases {
		db.Exec(t, fmt.Sprintf(`CREATE TABLE shop.x%[1]d (id text PRIMARY KEY, n integer, %[2]s)`, i, c.columns))
		tables += fmt.Sprintf("  - {name: shop.x%d, lock: 'kind:{id}'}\n", i)
	}
	g := testenv.StartGateway(t, testenv.GatewayOptions{Database: db, Tables: tables})
	l := g.Acquire(t, "kind:K", 300_000)
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			table := fmt.Sprint("x", i)
			do := func(method, query, body string) testenv.Response {
				q := testenv.Request{Method: method, Path: "/rest/" + table + "?select=c", Header: with(l, "Prefer", "return=representation"), Body: body}
				if method != post {
					q.Path += "&id=eq.K" + query
				}
				return g.Do(t, q)
			}
			write := func() {
				db.Exec(t, strings.ReplaceAll(`DELETE FROM shop.X; INSERT INTO shop.X (id) VALUES ('K')`, "X", table))
				if answer := do(patch, "", c.before); answer.Status != http.StatusOK {
					t.Fatalf("before the change: %d %s", answer.Status, answer.Body)
				}
			}
			write()
			do(c.method, c.query, c.body) // whatever it is worth, it leaves a prepared statement
			write()
			db.Exec(t, strings.ReplaceAll(c.change, "X", table))

			answer := do(c.method, c.query, c.body)
			if c.status >= 400 {
				mustRefuse(t, answer, want{status: c.status, slug: c.answer})
			} else if answer.Status != c.status || answer.Body != c.answer {
				t.Errorf("%d %s, not %d %s", answer.Status, answer.Body, c.status, c.answer)
			}
		})
	}
}
