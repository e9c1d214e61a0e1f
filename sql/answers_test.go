package sql_test

import (
	"os"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestAnswersAreKeptWhileTheSchemaMoves(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	pool := db.Pool(t)
	move := func(file string) {
		t.Helper()
		text, err := os.ReadFile("migrations/" + file)
		if err != nil {
			t.Fatal(err)
		}
		db.Exec(t, string(text))
	}
	look := func(query string) (text string) {
		t.Helper()
		if err := pool.QueryRow(t.Context(), query).Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	db.Exec(t, `
		SELECT fencegate.claim_answer('anyone', 'one', 'f', 7, '1 hour');
		SELECT fencegate.keep_answer('anyone', 'one', 0, 2, '{"a":1},{"a":2}');
		SELECT fencegate.keep_answer('anyone', 'one', 0, 1, '');
		SELECT fencegate.keep_answer('anyone', 'one', 1, 0, NULL);
		SELECT fencegate.keep_answer('anyone', 'one', 0, 1, '{"a":4}');
		SELECT fencegate.refuse_answer('anyone', 'late', 'f', 7, 'stale_token', '1 hour')`)

	move("0005_large_answers.down.sql")
	const whole = `one applied {4,0} {"a":1},{"a":2},{"a":4}|; late refused {} `
	if got := look(`
		SELECT string_agg(concat_ws(' ', idempotency_key, state, affected, array_to_string(rows, '|')), '; ' ORDER BY state)
		  FROM fencegate.answers`); got != whole {
		t.Errorf("one version back the answers are\n%s, not\n%s", got, whole)
	}

	move("0005_large_answers.up.sql")
	const parts = `one 0: 4 {"a":1},{"a":2},{"a":4}; one 1: 0 `
	if got := look(`SELECT string_agg(format('%s %s: %s %s', idempotency_key, operation, affected, rows), '; ' ORDER BY part) FROM fencegate.answer_parts`); got != parts {
		t.Errorf("and forth again they are\n%s, not\n%s", got, parts)
	}

	db.Exec(t, `DELETE FROM fencegate.answers`)
	if got := look(`SELECT count(*)::text FROM fencegate.answer_parts`); got != "0" {
		t.Errorf("%s parts are left of answers that were forgotten", got)
	}
}
