package sql_test

import (
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/testenv"
)

// schema is a database whose schema a test moves from version to version.
type schema struct {
	*testing.T
	db   *testenv.Database
	pool *pgxpool.Pool
}

func newSchema(t *testing.T) *schema {
	db := testenv.Postgres(t)
	return &schema{T: t, db: db, pool: db.Pool(t)}
}

func (s *schema) move(file string) {
	s.Helper()
	text, err := os.ReadFile("migrations/" + file)
	if err != nil {
		s.Fatal(err)
	}
	s.db.Exec(s.T, string(text))
}

func (s *schema) look(query string) (text string) {
	s.Helper()
	if err := s.pool.QueryRow(s.Context(), query).Scan(&text); err != nil {
		s.Fatal(err)
	}
	return text
}

func TestAnswersAreKeptWhileTheSchemaMoves(t *testing.T) {
	t.Parallel()
	s := newSchema(t)
	s.db.Exec(t, `
		SELECT fencegate.claim_answer('anyone', 'one', 'f', '[]', '1 hour');
		SELECT fencegate.keep_answer('anyone', 'one', 0, 2, '{"a":1},{"a":2}');
		SELECT fencegate.keep_answer('anyone', 'one', 0, 1, '');
		SELECT fencegate.keep_answer('anyone', 'one', 1, 0, NULL);
		SELECT fencegate.keep_answer('anyone', 'one', 0, 1, '{"a":4}');
		SELECT fencegate.refuse_answer('anyone', 'late', 'f', 'stale_token', '[]', '1 hour')`)

	s.move("0008_tombstones.down.sql")
	s.move("0005_large_answers.down.sql")
	const whole = `one applied {4,0} {"a":1},{"a":2},{"a":4}|; late refused {} `
	if got := s.look(`
		SELECT string_agg(concat_ws(' ', idempotency_key, state, affected, array_to_string(rows, '|')), '; ' ORDER BY state)
		  FROM fencegate.answers`); got != whole {
		t.Errorf("one version back the answers are\n%s, not\n%s", got, whole)
	}

	s.move("0005_large_answers.up.sql")
	const parts = `one 0: 4 {"a":1},{"a":2},{"a":4}; one 1: 0 `
	if got := s.look(`SELECT string_agg(format('%s %s: %s %s', idempotency_key, operation, affected, rows), '; ' ORDER BY part) FROM fencegate.answer_parts`); got != parts {
		t.Errorf("and forth again they are\n%s, not\n%s", got, parts)
	}

	s.db.Exec(t, `DELETE FROM fencegate.answers`)
	if got := s.look(`SELECT count(*)::text FROM fencegate.answer_parts`); got != "0" {
		t.Errorf("%s parts are left of answers that were forgotten", got)
	}
}

func TestTombstonesAreKeptWhileTheSchemaMoves(t *testing.T) {
	t.Parallel()
	s := newSchema(t)
	s.db.Exec(t, `
		SELECT fencegate.claim_answer('anyone', 'done', 'f', '[]', '1 hour');
		SELECT fencegate.refuse_answer('anyone', 'ended', 'f', 'lease_expired',
			'[{"code": "lease_expired", "claims": [{"key": "a", "token": "4", "holder": "h"}], "whole": false}]', '1 hour');
		SELECT fencegate.refuse_answer('anyone', 'huge', 'f', 'lock_scope',
			'[{"code": "lock_scope", "claims": [{"key": "a", "token": "4", "holder": "h"}, {"key": "b", "token": "9223372036854775807", "holder": "h"}], "whole": true}]', '1 hour');
		SELECT fencegate.refuse_answer('anyone', 'forged', 'f', 'token_not_granted', '[]', '1 hour')`)

	s.move("0008_tombstones.down.sql")
	const ranks = `done applied 0; ended refused 4; forged refused 0; huge refused 9223372036854775807`
	if got := s.look(`SELECT string_agg(concat_ws(' ', idempotency_key, state, token), '; ' ORDER BY idempotency_key) FROM fencegate.answers`); got != ranks {
		t.Errorf("one version back they are\n%s, not\n%s", got, ranks)
	}
	s.db.Exec(t, `SELECT fencegate.refuse_answer('anyone', 'forged', 'f', 9223372036854775807, 'token_not_granted', '1 hour')`)

	s.move("0008_tombstones.up.sql")
	const stops = `done applied []; ended refused [{"code": "lease_expired", "rank": 4}]; forged refused []; huge refused [{"code": "lock_scope", "rank": 9223372036854775807}]`
	if got := s.look(`SELECT string_agg(concat_ws(' ', idempotency_key, state, stops), '; ' ORDER BY idempotency_key) FROM fencegate.answers`); got != stops {
		t.Errorf("and forth again they are\n%s, not\n%s", got, stops)
	}
	for token, want := range map[string]string{"4": "lease_expired", "5": "none"} {
		query := `SELECT coalesce((SELECT code FROM fencegate.stopped(
			(SELECT stops FROM fencegate.answers WHERE idempotency_key = 'ended'), '[{"key": "a", "token": "` + token + `", "holder": "h"}]')), 'none')`
		if got := s.look(query); got != want {
			t.Errorf("token %s is stopped by %s, not %s", token, got, want)
		}
	}

	s.move("0008_tombstones.down.sql")
	if got := s.look(`SELECT string_agg(concat_ws(' ', idempotency_key, state, token), '; ' ORDER BY idempotency_key) FROM fencegate.answers`); got != ranks {
		t.Errorf("and back again they are\n%s, not\n%s", got, ranks)
	}
}

func TestAnAnswerIsKeptByWhoClaimedItsKey(t *testing.T) {
	t.Parallel()
	s := newSchema(t)
	claim := `SELECT fencegate.claim_answer('anyone', 'one', 'f', '[]', '1 hour');`
	keep := `SELECT fencegate.keep_answer('anyone', 'one', 0, 1, '{"a":1}');`
	s.db.Exec(t, claim+keep)
	for name, sql := range map[string]string{"another transaction": keep, "another key": strings.Replace(claim, "one", "two", 1) + keep} {
		if _, err := s.pool.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err == nil || !strings.Contains(err.Error(), "has not claimed") {
			t.Errorf("%s keeps an answer: %v", name, err)
		}
	}
	if got := s.look(`SELECT string_agg(rows, '; ') FROM fencegate.answer_parts`); got != `{"a":1}` {
		t.Errorf("kept is %s", got)
	}
}
