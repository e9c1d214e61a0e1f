package chaos_test

import (
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/testenv"
)

// item makes an inventory row and returns its sku and lock key.
func (p *plant) item(t testing.TB, sku string) (string, string) {
	t.Helper()
	if _, err := p.sql.Exec(t.Context(), `INSERT INTO shop.inventory (sku) VALUES ($1)`, sku); err != nil {
		t.Fatal(err)
	}
	return sku, "inventory:" + sku
}

func wantStatus(t testing.TB, answer testenv.Response, status int) {
	t.Helper()
	if answer.Status != status {
		t.Errorf("status %d, want %d: %s", answer.Status, status, answer.Body)
	}
}

// wantProblem checks status, code and what the answer says about the outcome.
func wantProblem(t testing.TB, answer testenv.Response, status int, code string) testenv.Problem {
	t.Helper()
	p := answer.Problem(t)
	if answer.Status != status || p.Slug() != code {
		t.Errorf("answer %d %s, want %d %s: %s", answer.Status, p.Slug(), status, code, answer.Body)
	}
	if want := outcomeOf(code); p.Outcome != want {
		t.Errorf("%s: outcome %q, want %q", code, p.Outcome, want)
	}
	if status == http.StatusServiceUnavailable && answer.Header.Get("Retry-After") == "" {
		t.Errorf("%s without Retry-After", code)
	}
	refused := answer.Header.Get("Fencing-Refused")
	if want := status == http.StatusPreconditionFailed; (refused == code) != want {
		t.Errorf("%s with Fencing-Refused %q", code, refused)
	}
	return p
}

func outcomeOf(code string) string {
	if code == "outcome_unknown" {
		return "unknown"
	}
	return "not_applied"
}

// wantRow checks that sku has available and, by the journal, how it got there:
// written times changes, the last of which set it.
func (p *plant) wantRow(t testing.TB, sku string, available, written int) {
	t.Helper()
	got := one[int](t, p.sql, `SELECT available FROM shop.inventory WHERE sku = $1`, sku)
	entries := one[int](t, p.sql, `SELECT count(*) FROM shop.journal WHERE sku = $1`, sku)
	if got != available || entries != written {
		t.Errorf("%s has %d after %d changes, want %d after %d", sku, got, entries, available, written)
	}
}

// wantOrderedGrants checks I1 and I2 on everything that was ever granted.
func wantOrderedGrants(t testing.TB, sql *pgxpool.Pool) {
	t.Helper()
	const fallen = `
		SELECT count(*) FROM (
			SELECT token, lag(token) OVER (PARTITION BY lock_key ORDER BY id) AS before
			  FROM fencegate.grants WHERE event = 'granted') AS g
		 WHERE token <= before`
	if n := one[int](t, sql, fallen); n != 0 {
		t.Errorf("%d grants did not raise their key's token", n)
	}
	const shared = `
		SELECT count(*) FROM (
			SELECT FROM fencegate.grants GROUP BY lock_key, token
			HAVING count(DISTINCT holder_digest) > 1 OR count(*) FILTER (WHERE event = 'granted') <> 1) AS g`
	if n := one[int](t, sql, shared); n != 0 {
		t.Errorf("%d tokens were not granted to exactly one holder", n)
	}
}

func one[T any](t testing.TB, sql *pgxpool.Pool, query string, args ...any) T {
	t.Helper()
	var value T
	if err := sql.QueryRow(t.Context(), query, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}
