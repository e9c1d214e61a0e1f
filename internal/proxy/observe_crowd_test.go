package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// Late writers, writers without a lock and holders that take turns, all on the same
// two rows in opposite orders: each write that is acknowledged is there once, and has
// its record if it would have been refused.
func TestACrowdInObserveModeIsCountedOnce(t *testing.T) {
	t.Parallel()
	g, pool := startObserving(t, "")
	late, _ := superseded(t, g, "item:A")
	lock := `{"key":"item:Z","holder":"h","token":"7"}`
	var applied, noted atomic.Int64
	var crowd sync.WaitGroup
	for worker := range 6 {
		crowd.Go(func() {
			for round := range 15 {
				locks := []string{"", late.Claim(), lock}[round%3]
				first, second := "A", "B"
				if worker == 0 { // one is enough for deadlocks
					first, second = second, first
				}
				const add = `{"op":"update","table":"loose","where":{"sku":"eq.%s","line":"eq.0"},"increment":{"n":1},"expect_rows":1}`
				q := testenv.Request{Method: http.MethodPost, Path: "/v1/transactions", Header: http.Header{},
					Body: fmt.Sprintf(`{"locks":[%s],"operations":[`+add+`,`+add+`]}`, locks, first, second)}
				answer, err := g.Try(t, t.Context(), q)
				switch {
				case err != nil:
					t.Error(err)
				case answer.Status == http.StatusOK:
					applied.Add(1)
					if answer.Header.Get("Fencing-Observed") != "" {
						noted.Add(1)
					}
				case !strings.Contains(answer.Body, `"retryable":true`) || !strings.Contains(answer.Body, `"outcome":"not_applied"`): // it waited for too long
					t.Errorf("%d %s", answer.Status, answer.Body)
				}
			}
		})
	}
	crowd.Go(func() {
		for range 10 {
			l := g.Acquire(t, "item:B", 60_000)
			answer := g.Do(t, patching("loose?sku=eq.B&line=eq.0", `{"parent":null}`, l.Header()))
			if code := answer.Header.Get("Fencing-Observed"); code != "" || answer.Status != http.StatusNoContent && !strings.Contains(answer.Body, `"retryable":true`) {
				t.Errorf("a holder is answered %d and observed for %q", answer.Status, code)
			}
			g.Release(t, l)
		}
	})
	crowd.Wait()
	want := applied.Load()
	sums := scalar[string](t, pool, `SELECT string_agg(n::text, ' ' ORDER BY sku) FROM shop.loose WHERE line = 0`)
	if records := scalar[int64](t, pool, `SELECT count(*) FROM fencegate.refusals WHERE disposition = 'admitted'`); want == 0 ||
		sums != fmt.Sprint(want, " ", want) || noted.Load() != want || records != want {
		t.Errorf("%d acknowledged, %d of them observed, the rows have %s, and there are %d records", want, noted.Load(), sums, records)
	}
	if again := scalar[int64](t, pool, `SELECT count(DISTINCT request_id) FROM fencegate.refusals`); again != want {
		t.Errorf("%d requests have a record, of %d", again, want)
	}
}
