package statement_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/statement"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestStatementsRestOnTheTypesOfTheirColumns(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t).Pool(t)
	exec(t, pool, `CREATE TYPE mood AS ENUM ('sad'); CREATE TYPE pair AS (a integer, b text);
		CREATE DOMAIN positive AS integer CHECK (VALUE > 0); CREATE DOMAIN list AS integer[];
		CREATE SCHEMA "Odd x"; CREATE TYPE "Odd x"."a ""b" AS ENUM ('c')`)
	for i, typ := range []string{
		"smallint", "integer", "bigint", "numeric(12,2)", "real", "double precision", "money", "boolean",
		"text", "varchar(3)", "char(3)", `"char"`, "name", "bit(3)", "bit varying(3)", "bytea", "uuid",
		"date", "time(3)", "timetz", "timestamp(3)", "timestamptz", "interval day to second",
		"json", "jsonb", "xml", "inet", "cidr", "macaddr", "point", "tsvector", "tsquery", "oid", "regclass", "pg_lsn",
		"int4range", "tstzrange", "integer[]", "text[][]", "int2vector", "oidvector",
		"mood", "mood[]", "pair", "pair[]", "positive", "positive[]", "list", `"Odd x"."a ""b"`,
	} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			name := "typed_" + string(rune('a'+i%26)) + string(rune('a'+i/26))
			exec(t, pool, `CREATE TABLE `+name+` (id text, c `+typ+`)`)
			table := load(t, pool, name, "typed:{id}")
			row := []statement.Row{{Names: []string{"c"}, JSON: []byte(`{"c":null}`)}}
			filters := []statement.Filter{eq("id", "A"), {Column: "c", Op: statement.Is, Values: []string{"null"}}}
			var all []statement.Statement
			for _, m := range []statement.Mutation{
				{Op: catalog.Insert, Rows: row},
				{Op: catalog.Update, Rows: row, Filters: filters[:1]},
				{Op: catalog.Update, Rows: []statement.Row{{Names: []string{"id"}, JSON: []byte(`{"id":"A"}`)}}, Filters: filters},
				{Op: catalog.Delete, Filters: filters},
				{Op: catalog.Delete, Filters: []statement.Filter{filters[0], group(statement.Or, filters[1], group(statement.And, filters[1]))}},
			} {
				m.Table, m.MaxAffected = table, -1
				built, err := statement.Build(m, under("typed:A"))
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, built...)
			}
			prepare(t, pool, all...)

			exec(t, pool, `ALTER TABLE `+name+` DROP c; ALTER TABLE `+name+` ADD c circle`)
			conn, err := pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Release()
			for _, s := range all {
				var refused *pgconn.PgError
				_, err := conn.Conn().PgConn().Prepare(t.Context(), "", s.SQL, nil)
				if !errors.As(err, &refused) || refused.Code != "42883" && refused.Code != "42804" {
					t.Errorf("of another type the column is taken for %s: %v\n%s", typ, err, s.SQL)
				}
			}
		})
	}
}
