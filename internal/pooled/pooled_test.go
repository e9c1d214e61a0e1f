package pooled_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/pooled"
	"github.com/fencegate/fencegate/internal/testenv"
)

func open(t *testing.T) (*pooled.Pool, *pgxpool.Pool) {
	t.Helper()
	db := testenv.EmptyPostgres(t)
	db.Exec(t, `CREATE TABLE late (n integer, CONSTRAINT late_unique UNIQUE (n) DEFERRABLE INITIALLY DEFERRED)`)
	config, err := pgxpool.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 1
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	conns, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conns.Close)
	return &pooled.Pool{Conns: conns, Settings: pooled.Settings{LockTimeout: 1500 * time.Millisecond, StatementTimeout: 2500 * time.Millisecond}}, conns
}

func TestPool(t *testing.T) {
	t.Parallel()

	t.Run("SettingsHoldForOneTransaction", func(t *testing.T) {
		t.Parallel()
		pool, conns := open(t)
		const query = `SELECT concat_ws(' ', current_setting('lock_timeout'), current_setting('statement_timeout'), current_setting('extra_float_digits'), $1::text)`
		var within, after string
		if err := pool.QueryRow(t.Context(), query, pgx.QueryExecModeCacheStatement, "!").Scan(&within); err != nil || within != "1500ms 2500ms 3 !" {
			t.Errorf("%q, %v", within, err)
		}
		if err := conns.QueryRow(t.Context(), query, "!").Scan(&after); err != nil || after != "0 0 1 !" {
			t.Errorf("afterwards %q, %v", after, err)
		}
		var prepared int
		if err := conns.QueryRow(t.Context(), `SELECT count(*) FROM pg_prepared_statements`).Scan(&prepared); err != nil || prepared != 0 {
			t.Errorf("%d statements stay prepared, %v", prepared, err)
		}
	})

	t.Run("RowsComeAsFromAnyPool", func(t *testing.T) {
		t.Parallel()
		pool, _ := open(t)
		rows, _ := pool.Query(t.Context(), `SELECT * FROM generate_series(1, $1)`, 3)
		if got, err := pgx.CollectRows(rows, pgx.RowTo[int]); err != nil || len(got) != 3 || rows.CommandTag().RowsAffected() != 3 {
			t.Errorf("%v, %v", got, err)
		}
		var n int
		if err := pool.QueryRow(t.Context(), `SELECT 1 WHERE false`).Scan(&n); !errors.Is(err, pgx.ErrNoRows) {
			t.Errorf("no row: %v", err)
		}
		if err := pool.QueryRow(t.Context(), `SELECT 'x'`).Scan(&n); err == nil {
			t.Error("text fits a number")
		}
	})

	t.Run("EveryErrorIsToldAndNoConnectionIsLost", func(t *testing.T) {
		t.Parallel()
		pool, conns := open(t)
		var n int
		for sql, state := range map[string]string{
			`SELECT nope`:  "42703",
			`SELECT 1 / 0`: "22012",
			`INSERT INTO late VALUES (1), (1) RETURNING n`: "23505", // at COMMIT
		} {
			var told *pgconn.PgError
			if err := pool.QueryRow(t.Context(), sql).Scan(&n); !errors.As(err, &told) || told.Code != state {
				t.Errorf("%s: %v", sql, err)
			}
			rows, err := pool.Query(t.Context(), sql)
			rows.Close()
			if err := errors.Join(err, rows.Err()); !errors.As(err, &told) || told.Code != state {
				t.Errorf("%s: %v", sql, err)
			}
			rows, _ = pool.Query(t.Context(), sql)
			if _, err := pgx.CollectRows(rows, pgx.RowTo[int]); !errors.As(err, &told) || told.Code != state {
				t.Errorf("%s, collected: %v", sql, err)
			}
		}
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM late`).Scan(&n); err != nil || n != 0 {
			t.Errorf("%d rows, %v", n, err)
		}
		conns.Close()
		if err := pool.QueryRow(t.Context(), `SELECT 1`).Scan(&n); err == nil {
			t.Error("a pool that is closed answers")
		}
		if rows, err := pool.Query(t.Context(), `SELECT 1`); err == nil || rows.Next() || rows.Err() == nil {
			t.Error("a pool that is closed has rows")
		}
	})
}
