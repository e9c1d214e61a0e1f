package statement_test

import (
	"slices"
	"testing"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/statement"
	"github.com/fencegate/fencegate/internal/testenv"
)

// The whole text of one statement of each kind, so that a change of any of them
// is seen and thought about.
func TestTextOfStatements(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t).Pool(t)
	exec(t, pool, `CREATE TABLE stock (sku varchar(40), day date, n numeric(12,2), "the note" text)`)
	table := load(t, pool, "stock", `it's:{sku}:{day}`)
	whole := load(t, pool, "stock", `stock`)
	pins := []statement.Filter{eq("sku", "A"), eq("day", "2026-01-01")}
	notIn := statement.Filter{Column: "n", Op: statement.In, Not: true, Values: []string{"1", `2"\`}}
	row := statement.Row{Names: []string{"the note", "n"}, JSON: []byte(`{"the note":"x","n":1}`)}
	full := statement.Row{Names: []string{"sku", "day", "n"}, JSON: []byte(`{"sku":"A","day":null,"n":1}`)}
	empty := statement.Row{JSON: []byte(`{}`)}

	for name, c := range map[string]struct {
		mutation statement.Mutation
		want     []statement.Statement
	}{
		"Insert": {
			statement.Mutation{Op: catalog.Insert, Table: table, Rows: []statement.Row{row, row, empty}, MaxAffected: -1},
			[]statement.Statement{
				{SQL: insertText, Args: []any{`[{"the note":"x","n":1},{"the note":"x","n":1}]`, int64(2), "k"}},
				{SQL: defaultsText, Args: []any{int64(1), "k"}},
			},
		},
		"Update": {
			statement.Mutation{Op: catalog.Update, Table: table, Rows: []statement.Row{row}, Filters: pins, MaxAffected: 3,
				Return: statement.Columns{Names: []string{"n", "sku"}}, MaxBytes: 99, Keep: statement.Keep{Principal: "p", Key: "i"}},
			[]statement.Statement{{SQL: updateText,
				Args: []any{"A", "2026-01-01", "A", "2026-01-01", "k", `{"the note":"x","n":1}`, "k", "k", int64(3), int64(99), "p", "i", 0}}},
		},
		"Delete": {
			statement.Mutation{Op: catalog.Delete, Table: table, Filters: append(pins, notIn), MaxAffected: -1,
				Return: statement.Columns{All: true}, MaxBytes: 99},
			[]statement.Statement{{SQL: deleteText,
				Args: []any{"A", "2026-01-01", "A", "2026-01-01", `{"1","2\"\\"}`, "k", "k", "k", int64(99)}}},
		},
		"Upsert": {
			statement.Mutation{Op: catalog.Insert, Table: table, Rows: []statement.Row{full}, MaxAffected: -1,
				Upsert: &statement.Upsert{Target: []string{"sku", "day"}, Merge: true}},
			[]statement.Statement{{SQL: upsertText, Args: []any{`[{"sku":"A","day":null,"n":1}]`, "k", "k", int64(1), "k"}}},
		},
		"UpdateOfALockColumn": {
			statement.Mutation{Op: catalog.Update, Table: table, Rows: []statement.Row{{Names: []string{"day", "n"}, JSON: []byte(`{"day":null,"n":1}`)}}, Filters: pins, MaxAffected: -1},
			[]statement.Statement{{SQL: movingText, Args: []any{"A", "2026-01-01", "A", "2026-01-01", "k", `{"day":null,"n":1}`, `{"day":null,"n":1}`, "A", "k", "k", "k"}}},
		},
		"UpdateUnderTwoLocks": {
			statement.Mutation{Op: catalog.Update, Table: table, Rows: []statement.Row{empty}, Filters: pins, MinAffected: 1, MaxAffected: 1,
				Increment: &statement.Row{Names: []string{"n"}, JSON: []byte(`{"n":-1}`)}, IfMatch: []string{"e"},
				Return: statement.Columns{Names: []string{"n"}}, ETag: true, MaxBytes: 99},
			[]statement.Statement{{SQL: twoLocksText, Args: []any{"A", "2026-01-01", "A", "2026-01-01", `{"e"}`, `{"k","l"}`, `{"n":-1}`, `{"k","l"}`, `{"k","l"}`, int64(1), int64(1), int64(99)}}},
		},
		"DeleteUnderALockForTheWholeTable": {
			statement.Mutation{Op: catalog.Delete, Table: whole, All: true, MaxAffected: -1},
			[]statement.Statement{{SQL: wholeText, Args: []any{"k", "k", "k"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claims := under("k")
			if name == "UpdateUnderTwoLocks" {
				claims = under("k", "l")
			}
			got, err := statement.Build(c.mutation, claims)
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, c.want)
			prepare(t, pool, got...)
		})
	}

	t.Run("Outputs", func(t *testing.T) {
		t.Parallel()
		exec(t, pool, `CREATE TABLE doc (id text, j json)`)
		docs := load(t, pool, "doc", "doc:{id}")
		last := statement.Path{{Key: "a"}, {Key: "0", Index: true, Text: true}}
		got, err := statement.Build(statement.Mutation{Op: catalog.Delete, Table: docs, Filters: []statement.Filter{eq("id", "A"), {Column: "j", Path: last[:1], Op: statement.Eq, Values: []string{"1"}}},
			MaxAffected: -1, Return: statement.Columns{Outputs: []statement.Output{{Column: "j", Path: last, Cast: "int"}, {Column: "id", Alias: `k"`}}}}, under("k"))
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, []statement.Statement{{SQL: outputsText, Args: []any{"A", "A", "a", "1", "k", "k", "k", `{"a":`, "a", "0", `,"k\"":`, int64(0)}}})
		prepare(t, pool, got...)
	})

	t.Run("Groups", func(t *testing.T) {
		t.Parallel()
		none := group(statement.Or, eq("sku", "A"), group(statement.And, eq("sku", "B"), notIn))
		none.Not = true
		got, err := statement.BuildQuery(statement.Query{Table: table, Columns: statement.Columns{All: true}, Filters: []statement.Filter{
			none,
			{Column: "the note", Op: statement.Like, Quantifier: statement.Any, Values: []string{"{a*}"}},
			{Column: "the note", Op: "fts", Config: "english", Values: []string{"cup"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		same(t, []statement.Statement{got}, []statement.Statement{{SQL: groupsText,
			Args: []any{"A", "B", `{"1","2\"\\"}`, "{a%}", "english", "cup", int64(0), int64(0), int64(0)}}})
		prepare(t, pool, got)
	})

	t.Run("Query", func(t *testing.T) {
		t.Parallel()
		got, err := statement.BuildQuery(statement.Query{
			Table:   table,
			Columns: statement.Columns{Names: []string{"the note"}},
			Filters: []statement.Filter{eq("sku", "A"), {Column: "n", Op: statement.Is, Values: []string{"not_null"}}},
			Order:   []statement.OrderTerm{{Column: "n", Desc: true, Nulls: "last"}, {Column: "sku"}},
			Limit:   10, Offset: 5, Total: true, MaxBytes: 99,
		})
		if err != nil {
			t.Fatal(err)
		}
		same(t, []statement.Statement{got}, []statement.Statement{{SQL: queryText, Args: []any{"A", int64(99), int64(10), int64(5)}}})
		prepare(t, pool, got)
	})
}

func same(t *testing.T, got, want []statement.Statement) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d statements, not %d", len(got), len(want))
	}
	for i := range got {
		if got[i].SQL != want[i].SQL {
			t.Errorf("statement %d is\n%s\nnot\n%s", i, got[i].SQL, want[i].SQL)
		}
		if !slices.Equal(got[i].Args, want[i].Args) {
			t.Errorf("the arguments of statement %d are\n%q\nnot\n%q", i, got[i].Args, want[i].Args)
		}
	}
}

const insertText = `WITH w AS (
  INSERT INTO "public"."stock" AS t ("n", "the note")
  SELECT b."n", b."the note" FROM json_to_recordset($1::pg_catalog.json) AS b("n" numeric, "the note" text)
  RETURNING t."sku", t."day")
SELECT a.affected, a.json,
       CASE WHEN fencegate.check_rows(true, a.uncovered
       + CASE WHEN a.affected < $2::pg_catalog.int8 THEN 1 ELSE 0 END, a.affected, NULL, NULL)
            THEN NULL::pg_catalog.int8 END,
       a.etag
  FROM (SELECT count(*) AS affected,
               NULL::pg_catalog.text AS json,
               count(*) FILTER (WHERE (('it''s:' || w."sku"::pg_catalog.text || ':' || (pg_catalog.to_jsonb(w."day") #>> '{}') || '') COLLATE pg_catalog."C" = $3::pg_catalog.text) IS NOT TRUE) AS uncovered,
               NULL::pg_catalog.text AS etag
          FROM w) AS a
 WHERE CASE WHEN true THEN true ELSE ARRAY[(NULL::"public"."stock")."day"] OPERATOR(pg_catalog.&&) NULL::date[]
   AND ARRAY[(NULL::"public"."stock")."n"] OPERATOR(pg_catalog.&&) NULL::numeric[]
   AND ARRAY[(NULL::"public"."stock")."sku"] OPERATOR(pg_catalog.&&) NULL::character varying[]
   AND ARRAY[(NULL::"public"."stock")."the note"] OPERATOR(pg_catalog.&&) NULL::text[] END`

const defaultsText = `WITH w AS (
  INSERT INTO "public"."stock" AS t DEFAULT VALUES
  RETURNING t."sku", t."day")
SELECT a.affected, a.json,
       CASE WHEN fencegate.check_rows(true, a.uncovered
       + CASE WHEN a.affected < $1::pg_catalog.int8 THEN 1 ELSE 0 END, a.affected, NULL, NULL)
            THEN NULL::pg_catalog.int8 END,
       a.etag
  FROM (SELECT count(*) AS affected,
               NULL::pg_catalog.text AS json,
               count(*) FILTER (WHERE (('it''s:' || w."sku"::pg_catalog.text || ':' || (pg_catalog.to_jsonb(w."day") #>> '{}') || '') COLLATE pg_catalog."C" = $2::pg_catalog.text) IS NOT TRUE) AS uncovered,
               NULL::pg_catalog.text AS etag
          FROM w) AS a
 WHERE CASE WHEN true THEN true ELSE ARRAY[(NULL::"public"."stock")."day"] OPERATOR(pg_catalog.&&) NULL::date[]
   AND ARRAY[(NULL::"public"."stock")."sku"] OPERATOR(pg_catalog.&&) NULL::character varying[] END`

const updateText = `WITH w AS (
  UPDATE "public"."stock" AS t
     SET "n" = b."n", "the note" = b."the note"
    FROM json_to_record($6::pg_catalog.json) AS b("n" numeric, "the note" text)
   WHERE t."sku" = $3
     AND t."day" = $4
     AND ('it''s:' || t."sku"::pg_catalog.text || ':' || (pg_catalog.to_jsonb(t."day") #>> '{}') || '') COLLATE pg_catalog."C" = $5::pg_catalog.text
  RETURNING t."n", t."sku", t."day")
SELECT a.affected, a.json,
       CASE WHEN fencegate.check_rows(('it''s:' || CAST($1 AS character varying)::pg_catalog.text || ':' || (pg_catalog.to_jsonb(CAST($2 AS date)) #>> '{}') || '') COLLATE pg_catalog."C" = $7::pg_catalog.text, a.uncovered, a.affected, NULL, $9::pg_catalog.int8)
         AND fencegate.keep_answer($11, $12, $13, a.affected, a.json)
            THEN NULL::pg_catalog.int8 END,
       a.etag
  FROM (SELECT count(*) AS affected,
               fencegate.check_size(string_agg((SELECT row_to_json(r.*) FROM (SELECT w."n", w."sku") AS r)::pg_catalog.text, ','), $10) AS json,
               count(*) FILTER (WHERE (('it''s:' || w."sku"::pg_catalog.text || ':' || (pg_catalog.to_jsonb(w."day") #>> '{}') || '') COLLATE pg_catalog."C" = $8::pg_catalog.text) IS NOT TRUE) AS uncovered,
               NULL::pg_catalog.text AS etag
          FROM w) AS a
 WHERE CASE WHEN true THEN true ELSE ARRAY[(NULL::"public"."stock")."day"] OPERATOR(pg_catalog.&&) NULL::date[]
   AND ARRAY[(NULL::"public"."stock")."n"] OPERATOR(pg_catalog.&&) NULL::numeric[]
   AND ARRAY[(NULL::"public"."stock")."sku"] OPERATOR(pg_catalog.&&) NULL::character varying[]
   AND ARRAY[(NULL::"public"."stock")."the note"] OPERATOR(pg_catalog.&&) NULL::text[] END`

const twoLocksText = `WITH w AS (
  UPDATE "public"."stock" AS t
     SET "n" = (t."n" + i."n")
    FROM json_to_record($7::pg_catalog.json) AS i("n" numeric)
   WHERE t."sku" = $3
     AND t."day" = $4
     AND fencegate.etag(t.*) = ANY ($5)
     AND ('it''s:' || t."sku"::pg_catalog.text || ':' || (pg_catalog.to_jsonb(t."day") #>> '{}') || '') COLLATE pg_catalog."C" = ANY ($6::pg_catalog.text[])
  RETURNING t.*)
SELECT a.affected, a.json,
       CASE WHEN fencegate.check_rows(('it''s:' || CAST($1 AS character varying)::pg_catalog.text || ':' || (pg_catalog.to_jsonb(CAST($2 AS date)) #>> '{}') || '') COLLATE pg_catalog."C" = ANY ($8::pg_catalog.text[]), a.uncovered, a.affected, $10::pg_catalog.int8, $11::pg_catalog.int8)
            THEN NULL::pg_catalog.int8 END,
       a.etag
  FROM (SELECT count(*) AS affected,
               fencegate.check_size(string_agg((SELECT row_to_json(r.*) FROM (SELECT w."n") AS r)::pg_catalog.text, ','), $12) AS json,
               count(*) FILTER (WHERE (('it''s:' || w."sku"::pg_catalog.text || ':' || (pg_catalog.to_jsonb(w."day") #>> '{}') || '') COLLATE pg_catalog."C" = ANY ($9::pg_catalog.text[])) IS NOT TRUE) AS uncovered,
               max(fencegate.etag(w.*)) AS etag
          FROM w) AS a
 WHERE CASE WHEN true THEN true ELSE ARRAY[(NULL::"public"."stock")."day"] OPERATOR(pg_catalog.&&) NULL::date[]
   AND ARRAY[(NULL::"public"."stock")."n"] OPERATOR(pg_catalog.&&) NULL::numeric[]
   AND ARRAY[(NULL::"public"."stock")."sku"] OPERATOR(pg_catalog.&&) NULL::character varying[] END`

const deleteText = `WITH w AS (
  DELETE FROM "public"."stock" AS t
   WHERE t."sku" = $3
     AND t."day" = $4
     AND NOT (t."n" = ANY ($5))
     AND ('it''s:' || t."sku"::pg_catalog.text || ':' || (pg_catalog.to_jsonb(t."day") #>> '{}') || '') COLLATE pg_catalog."C" = $6::pg_catalog.text
  RETURNING t.*)
SELECT a.affected, a.json,
       CASE WHEN fencegate.check_rows(('it''s:' || CAST($1 AS character varying)::pg_catalog.text || ':' || (pg_catalog.to_jsonb(CAST($2 AS date)) #>> '{}') || '') COLLATE pg_catalog."C" = $7::pg_catalog.text, a.uncovered, a.affected, NULL, NULL)
            THEN NULL::pg_catalog.int8 END,
       a.etag
  FROM (SELECT count(*) AS affected,
               fencegate.check_size(string_agg(row_to_json(w.*)::pg_catalog.text, ','), $9) AS json,
               count(*) FILTER (WHERE (('it''s:' || w."sku"::pg_catalog.text || ':' || (pg_catalog.to_jsonb(w."day") #>> '{}') || '') COLLATE pg_catalog."C" = $8::pg_catalog.text) IS NOT TRUE) AS uncovered,
               NULL::pg_catalog.text AS etag
          FROM w) AS a
 WHERE CASE WHEN true THEN true ELSE ARRAY[(NULL::"public"."stock")."day"] OPERATOR(pg_catalog.&&) NULL::date[]
   AND ARRAY[(NULL::"public"."stock")."n"] OPERATOR(pg_catalog.&&) NULL::numeric[]
   AND ARRAY[(NULL::"public"."stock")."sku"] OPERATOR(pg_catalog.&&) NULL::character varying[] END`

const wholeText = `WITH w AS (
  DELETE FROM "public"."stock" AS t
   WHERE ('stock') COLLATE pg_catalog."C" = $1::pg_catalog.text
  RETURNING 1)
SELECT a.affected, a.json,
       CASE WHEN fencegate.check_rows(('stock') COLLATE pg_catalog."C" = $2::pg_catalog.text, a.uncovered, a.affected, NULL, NULL)
            THEN NULL::pg_catalog.int8 END,
       a.etag
  FROM (SELECT count(*) AS affected,
               NULL::pg_catalog.text AS json,
               count(*) FILTER (WHERE (('stock') COLLATE pg_catalog."C" = $3::pg_catalog.text) IS NOT TRUE) AS uncovered,
               NULL::pg_catalog.text AS etag
          FROM w) AS a`

const movingText = `WITH w AS (
  UPDATE "public"."stock" AS t
     SET "day" = b."day", "n" = b."n"
    FROM json_to_record($6::pg_catalog.json) AS b("day" date, "n" numeric)
   WHERE t."sku" = $3
     AND t."day" = $4
     AND ('it''s:' || t."sku"::pg_catalog.text || ':' || (pg_catalog.to_jsonb(t."day") #>> '{}') || '') COLLATE pg_catalog."C" = $5::pg_catalog.text
  RETURNING t."sku", t."day")
SELECT a.affected, a.json,
       CASE WHEN fencegate.check_rows(('it''s:' || CAST($1 AS character varying)::pg_catalog.text || ':' || (pg_catalog.to_jsonb(CAST($2 AS date)) #>> '{}') || '') COLLATE pg_catalog."C" = $10::pg_catalog.text, a.uncovered
       + CASE WHEN a.affected = 0 AND (
         SELECT ('it''s:' || CAST($8 AS character varying)::pg_catalog.text || ':' || (pg_catalog.to_jsonb(b."day") #>> '{}') || '') COLLATE pg_catalog."C" = $9::pg_catalog.text
           FROM json_to_record($7::pg_catalog.json) AS b("day" date)) IS NOT TRUE THEN 1 ELSE 0 END, a.affected, NULL, NULL)
            THEN NULL::pg_catalog.int8 END,
       a.etag
  FROM (SELECT count(*) AS affected,
               NULL::pg_catalog.text AS json,
               count(*) FILTER (WHERE (('it''s:' || w."sku"::pg_catalog.text || ':' || (pg_catalog.to_jsonb(w."day") #>> '{}') || '') COLLATE pg_catalog."C" = $11::pg_catalog.text) IS NOT TRUE) AS uncovered,
               NULL::pg_catalog.text AS etag
          FROM w) AS a
 WHERE CASE WHEN true THEN true ELSE ARRAY[(NULL::"public"."stock")."day"] OPERATOR(pg_catalog.&&) NULL::date[]
   AND ARRAY[(NULL::"public"."stock")."n"] OPERATOR(pg_catalog.&&) NULL::numeric[]
   AND ARRAY[(NULL::"public"."stock")."sku"] OPERATOR(pg_catalog.&&) NULL::character varying[] END`

const upsertText = `WITH w AS (
  INSERT INTO "public"."stock" AS t ("day", "n", "sku")
  SELECT b."day", b."n", b."sku" FROM json_to_recordset($1::pg_catalog.json) AS b("day" date, "n" numeric, "sku" character varying)
  ON CONFLICT ("sku", "day") DO UPDATE SET "day" = EXCLUDED."day", "n" = EXCLUDED."n", "sku" = EXCLUDED."sku"
   WHERE fencegate.check_covered(('it''s:' || t."sku"::pg_catalog.text || ':' || (pg_catalog.to_jsonb(t."day") #>> '{}') || '') COLLATE pg_catalog."C" = $2::pg_catalog.text)
  RETURNING t."sku", t."day")
SELECT a.affected, a.json,
       CASE WHEN fencegate.check_rows(true, a.uncovered
       + CASE WHEN a.affected < $4::pg_catalog.int8 AND EXISTS (
         SELECT
           FROM json_to_recordset($1::pg_catalog.json) AS b("sku" character varying, "day" date)
          WHERE (('it''s:' || b."sku"::pg_catalog.text || ':' || (pg_catalog.to_jsonb(b."day") #>> '{}') || '') COLLATE pg_catalog."C" = $3::pg_catalog.text) IS NOT TRUE) THEN 1 ELSE 0 END, a.affected, NULL, NULL)
            THEN NULL::pg_catalog.int8 END,
       a.etag
  FROM (SELECT count(*) AS affected,
               NULL::pg_catalog.text AS json,
               count(*) FILTER (WHERE (('it''s:' || w."sku"::pg_catalog.text || ':' || (pg_catalog.to_jsonb(w."day") #>> '{}') || '') COLLATE pg_catalog."C" = $5::pg_catalog.text) IS NOT TRUE) AS uncovered,
               NULL::pg_catalog.text AS etag
          FROM w) AS a
 WHERE CASE WHEN true THEN true ELSE ARRAY[(NULL::"public"."stock")."day"] OPERATOR(pg_catalog.&&) NULL::date[]
   AND ARRAY[(NULL::"public"."stock")."n"] OPERATOR(pg_catalog.&&) NULL::numeric[]
   AND ARRAY[(NULL::"public"."stock")."sku"] OPERATOR(pg_catalog.&&) NULL::character varying[] END`

const queryText = `SELECT count(*), fencegate.check_size(string_agg(row_to_json(w.*)::pg_catalog.text, ','), $2), (SELECT count(*) FROM "public"."stock" AS t
   WHERE t."sku" = $1
     AND t."n" IS NOT NULL), NULL::pg_catalog.text
  FROM (
  SELECT t."the note"
    FROM "public"."stock" AS t
   WHERE t."sku" = $1
     AND t."n" IS NOT NULL
   ORDER BY t."n" DESC NULLS LAST, t."sku"
   LIMIT $3 OFFSET $4) AS w`

const groupsText = `SELECT count(*), fencegate.check_size(string_agg(row_to_json(w.*)::pg_catalog.text, ','), $7), NULL::pg_catalog.int8, NULL::pg_catalog.text
  FROM (
  SELECT t.*
    FROM "public"."stock" AS t
   WHERE NOT ((t."sku" = $1 OR (t."sku" = $2 AND NOT (t."n" = ANY ($3)))))
     AND t."the note" ~~ ANY ($4)
     AND pg_catalog.to_tsvector($5::pg_catalog.regconfig, t."the note") @@ pg_catalog.to_tsquery($5::pg_catalog.regconfig, $6::pg_catalog.text)
   LIMIT $8 OFFSET $9) AS w`

const outputsText = `WITH w AS (
  DELETE FROM "public"."doc" AS t
   WHERE t."id" = $2
     AND (t."j" -> $3::pg_catalog.text)::pg_catalog.jsonb = $4
     AND ('doc:' || t."id"::pg_catalog.text || '') COLLATE pg_catalog."C" = $5::pg_catalog.text
  RETURNING t."j", t."id")
SELECT a.affected, a.json,
       CASE WHEN fencegate.check_rows(('doc:' || CAST($1 AS text)::pg_catalog.text || '') COLLATE pg_catalog."C" = $6::pg_catalog.text, a.uncovered, a.affected, NULL, NULL)
            THEN NULL::pg_catalog.int8 END,
       a.etag
  FROM (SELECT count(*) AS affected,
               fencegate.check_size(string_agg(($8::pg_catalog.text || coalesce(pg_catalog.to_json(CAST(((w."j" -> $9::pg_catalog.text) ->> $10::pg_catalog.int4) AS pg_catalog.int4))::pg_catalog.text, 'null') || $11::pg_catalog.text || coalesce(pg_catalog.to_json(w."id")::pg_catalog.text, 'null') || '}')::pg_catalog.text, ','), $12) AS json,
               count(*) FILTER (WHERE (('doc:' || w."id"::pg_catalog.text || '') COLLATE pg_catalog."C" = $7::pg_catalog.text) IS NOT TRUE) AS uncovered,
               NULL::pg_catalog.text AS etag
          FROM w) AS a
 WHERE CASE WHEN true THEN true ELSE ARRAY[(NULL::"public"."doc")."id"] OPERATOR(pg_catalog.&&) NULL::text[]
   AND ARRAY[(NULL::"public"."doc")."j"] OPERATOR(pg_catalog.&&) NULL::json[] END`
