package backends_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/testenv"
)

// plant is a gateway on one kind of lock service, whose servers a test can break.
type plant struct {
	*testenv.Gateway
	sql  *pgxpool.Pool
	rows atomic.Int64
}

// build starts a gateway on the lock service that the YAML names.
func build(t *testing.T, lockService string) *plant {
	t.Helper()
	db := testenv.Shop(t)
	return buildOn(t, db, lockService)
}

func buildOn(t *testing.T, db *testenv.Database, lockService string) *plant {
	t.Helper()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Database: db, LockService: lockService})
	return &plant{Gateway: g, sql: db.Pool(t)}
}

// item makes an inventory row and returns its sku and lock key.
func (p *plant) item(t testing.TB) (sku, key string) {
	t.Helper()
	sku = fmt.Sprint("B", p.rows.Add(1))
	_, err := p.sql.Exec(t.Context(), `INSERT INTO shop.inventory (sku) VALUES ($1)`, sku)
	must(t, err)
	return sku, "inventory:" + sku
}

// set writes available to sku under l, and again while the lock service can't be
// asked.
func (p *plant) set(t testing.TB, l testenv.Lease, sku string, available int) testenv.Response {
	t.Helper()
	return until(t, func() testenv.Response {
		return p.Patch(t, l, "inventory?sku=eq."+sku, fmt.Sprintf(`{"available":%d}`, available))
	})
}

func (p *plant) wantAvailable(t testing.TB, sku string, want int) {
	t.Helper()
	var got int
	must(t, p.sql.QueryRow(t.Context(), `SELECT available FROM shop.inventory WHERE sku = $1`, sku).Scan(&got))
	if got != want {
		t.Errorf("%s has %d, want %d", sku, got, want)
	}
}

func (p *plant) renew(t testing.TB, l testenv.Lease, ttlMS int) testenv.Response {
	t.Helper()
	body, _ := json.Marshal(map[string]any{"key": l.Key, "holder": l.Holder, "token": l.Token, "ttl_ms": ttlMS})
	return until(t, func() testenv.Response {
		return p.Do(t, testenv.Request{Method: http.MethodPost, Path: "/v1/leases/renew", Body: string(body)})
	})
}

// patience is how long a lock service may take to be itself again.
const patience = 40 * time.Second

// until asks until the answer is not a 503 any more: a failover takes its time.
func until(t testing.TB, ask func() testenv.Response) testenv.Response {
	t.Helper()
	for began := time.Now(); ; {
		answer := ask()
		if answer.Status != http.StatusServiceUnavailable || time.Since(began) > patience {
			return answer
		}
	}
}

// acquire returns the lease of key once the lock service grants it: when it can
// be asked, and whoever had the key has run out.
func (p *plant) acquire(t testing.TB, key string, ttlMS int) testenv.Lease {
	t.Helper()
	var l testenv.Lease
	for began := time.Now(); ; {
		answer := p.TryAcquire(t, key, ttlMS)
		switch {
		case answer.Status == http.StatusCreated:
			answer.JSON(t, &l)
			return l
		case answer.Status != http.StatusServiceUnavailable && answer.Status != http.StatusLocked || time.Since(began) > patience:
			t.Fatalf("acquiring %s: %d %s\n%s", key, answer.Status, answer.Body, p.Log())
		}
	}
}

func token(t testing.TB, l testenv.Lease) int64 {
	t.Helper()
	n, err := strconv.ParseInt(l.Token, 10, 64)
	must(t, err)
	return n
}

func wantStatus(t testing.TB, answer testenv.Response, status int) {
	t.Helper()
	if answer.Status != status {
		t.Fatalf("status %d, want %d: %s", answer.Status, status, answer.Body)
	}
}

func wantRefused(t testing.TB, answer testenv.Response, codes ...string) {
	t.Helper()
	for _, code := range codes {
		if answer.Status == http.StatusPreconditionFailed && answer.Header.Get("Fencing-Refused") == code {
			return
		}
	}
	t.Fatalf("answer %d %s, want 412 %v", answer.Status, answer.Body, codes)
}

// wantOrderedGrants checks that tokens only ever rose, and were given to one
// holder each.
func (p *plant) wantOrderedGrants(t testing.TB) {
	t.Helper()
	const query = `
		SELECT (SELECT count(*) FROM (
		           SELECT token, lag(token) OVER (PARTITION BY lock_key ORDER BY id) AS before
		             FROM fencegate.grants WHERE event = 'granted') AS g WHERE token <= before),
		       (SELECT count(*) FROM (
		           SELECT FROM fencegate.grants GROUP BY lock_key, token HAVING count(DISTINCT holder_digest) > 1) AS g)`
	var fallen, shared int
	must(t, p.sql.QueryRow(t.Context(), query).Scan(&fallen, &shared))
	if fallen != 0 || shared != 0 {
		t.Errorf("%d grants did not raise their key's token, %d tokens have two holders", fallen, shared)
	}
}

// everyDay is a gateway's work when nothing goes wrong.
func everyDay(t *testing.T, p *plant) {
	sku, key := p.item(t)
	l := p.acquire(t, key, 60000)
	answer := p.set(t, l, sku, 1)
	wantStatus(t, answer, 204)
	left, err := strconv.Atoi(answer.Header.Get("Lease-Remaining-Ms"))
	if err != nil || left > 60000 || left < 30000 {
		t.Errorf("%q ms are left of 60000", answer.Header.Get("Lease-Remaining-Ms"))
	}
	if held := until(t, func() testenv.Response { return p.TryAcquire(t, key, 60000) }); held.Status != http.StatusLocked || held.Header.Get("Retry-After") == "" {
		t.Errorf("a second acquire: %d %s", held.Status, held.Body)
	}
	wantStatus(t, p.renew(t, l, 120000), 200)
	wantStatus(t, p.set(t, l, sku, 2), 204)
	p.Release(t, l)
	wantRefused(t, p.set(t, l, sku, 3), "lease_released")
	next := p.acquire(t, key, 60000)
	wantRefused(t, p.set(t, l, sku, 4), "stale_token")
	wantStatus(t, p.set(t, next, sku, 5), 204)
	p.wantAvailable(t, sku, 5)
	handedOn(t, p, next)
	p.wantOrderedGrants(t)
}

// handedOn gives l back while somebody waits for it.
func handedOn(t *testing.T, p *plant, l testenv.Lease) {
	body, _ := json.Marshal(map[string]any{"key": l.Key, "ttl_ms": 60000, "wait_ms": 30000})
	answers := make(chan testenv.Response, 1)
	go func() {
		answers <- until(t, func() testenv.Response {
			answer, err := p.Try(t, t.Context(), testenv.Request{Method: http.MethodPost, Path: "/v1/leases", Body: string(body)})
			if err != nil {
				t.Error(err)
			}
			return answer
		})
	}()
	p.Release(t, l)
	wantStatus(t, <-answers, http.StatusCreated)
}

// leasesLost is a lock service that forgets: the holder is stopped, the next one
// ranks above it.
func leasesLost(t *testing.T, p *plant, lose func(testing.TB)) {
	sku, key := p.item(t)
	old := p.acquire(t, key, 60000)
	wantStatus(t, p.set(t, old, sku, 1), 204)
	lose(t)
	wantRefused(t, p.set(t, old, sku, 2), "lease_expired")
	wantOvertaken(t, p, sku, old, 60000)
}

// leasesKept is a lock service that loses a server and nothing else.
func leasesKept(t *testing.T, p *plant, happens func(testing.TB)) {
	sku, key := p.item(t)
	l := p.acquire(t, key, 300000)
	wantStatus(t, p.set(t, l, sku, 1), 204)
	happens(t)
	wantStatus(t, p.set(t, l, sku, 2), 204)
	wantStatus(t, p.renew(t, l, 300000), 200)
	if answer := until(t, func() testenv.Response { return p.TryAcquire(t, key, 60000) }); answer.Status != http.StatusLocked {
		t.Errorf("a second acquire: %d %s", answer.Status, answer.Body)
	}
	p.Release(t, l)
	wantOvertaken(t, p, sku, l, 60000)
}

// ghostOf is a lock service that goes back to a holder of before: the one it
// names can't write, the one that it forgot has lost its lease, and once the
// ghost has run out the next one gets through.
func ghostOf(t *testing.T, p *plant, remember, goBack func(testing.TB)) {
	const ghostTTL = 4000
	sku, key := p.item(t)
	ghost := p.acquire(t, key, ghostTTL)
	remember(t)
	p.Release(t, ghost)
	honest := p.acquire(t, key, 60000)
	wantStatus(t, p.set(t, honest, sku, 1), 204)
	goBack(t)
	wantRefused(t, p.set(t, ghost, sku, 2), "stale_token")
	wantRefused(t, p.set(t, honest, sku, 3), "lease_lost", "lease_expired")
	p.wantAvailable(t, sku, 1)
	wantOvertaken(t, p, sku, honest, 60000)
	wantRefused(t, p.set(t, ghost, sku, 5), "stale_token")
}

// wantOvertaken checks that the next holder ranks above old and gets through, and
// that old does not.
func wantOvertaken(t testing.TB, p *plant, sku string, old testenv.Lease, ttlMS int) {
	t.Helper()
	next := p.acquire(t, old.Key, ttlMS)
	if token(t, next) <= token(t, old) {
		t.Errorf("token %s follows %s", next.Token, old.Token)
	}
	wantRefused(t, p.set(t, old, sku, 98), "stale_token")
	wantStatus(t, p.set(t, next, sku, 99), 204)
	p.wantAvailable(t, sku, 99)
	p.wantOrderedGrants(t)
}
