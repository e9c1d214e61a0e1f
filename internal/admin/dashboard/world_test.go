package dashboard_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// hostile are texts that callers may use for keys and names.
var hostile = []string{
	`<script>alert(1)</script>`,
	`"><img src=x onerror=alert(1)>`,
	"pay\u202Egnitseretni\u202C", // turns the direction of what follows
	"\u05DE\u05E4\u05EA\u05D7 inventory",
	strings.Repeat("k", 512),
	"javascript:alert(1)",
	"{{.}} {x} %s",
}

func ui(g *testenv.Gateway) string { return g.AdminURL + "/ui/" }

// acquire takes a lock for a client of that name.
func acquire(t *testing.T, g *testenv.Gateway, key, client string, ttlMS int) testenv.Lease {
	t.Helper()
	answer := g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/v1/leases",
		Body: fmt.Sprintf(`{"key":%q,"client":%q,"ttl_ms":%d}`, key, client, ttlMS)})
	if answer.Status != http.StatusCreated {
		t.Fatalf("acquiring %q: %d %s", key, answer.Status, answer.Body)
	}
	var l testenv.Lease
	answer.JSON(t, &l)
	return l
}

// refuse makes a refusal: worker-b takes over from worker-a, which then writes. It
// returns the number of the record.
func refuse(t *testing.T, g *testenv.Gateway, sku string) (id string) {
	t.Helper()
	key := "inventory:" + sku
	a := acquire(t, g, key, "worker-a", 60000)
	revoke(t, g, key, "to make room")
	acquire(t, g, key, "worker-b", 60000)
	answer := g.Patch(t, a, "inventory?sku=eq."+sku, `{"available":1}`)
	if answer.Status != http.StatusPreconditionFailed {
		t.Fatalf("%d %s", answer.Status, answer.Body)
	}
	return answer.Problem(t).AuditID
}

func revoke(t *testing.T, g *testenv.Gateway, key, reason string) {
	t.Helper()
	answer := g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/v1/leases/revoke", Body: fmt.Sprintf(`{"key":%q,"reason":%q}`, key, reason)})
	if answer.Status != http.StatusOK {
		t.Fatalf("revoking %q: %d %s", key, answer.Status, answer.Body)
	}
}

// record puts refusals in the database that nobody has to cause one by one.
func record(t *testing.T, g *testenv.Gateway, n int, code, key string) {
	t.Helper()
	g.Database.Exec(t, `
		INSERT INTO fencegate.refusals (occurred_at, code, disposition, operation, table_name, lock_key, presented_token, mark_token,
		       holder_digest, client, principal, request_id, remote_address, instance)
		SELECT clock_timestamp() - i * interval '1 s', $2, 'refused', 'update', 'shop.inventory', $3, i, i + 1,
		       'abcdef0123456789', 'worker-' || i, 'anyone', 'request-' || i, '127.0.0.1', 'test'
		  FROM generate_series(1, $1::integer) AS i`, n, code, key)
}

// fill makes something of everything, with hostile texts in it. It returns the
// number of a refusal.
func fill(t *testing.T, g *testenv.Gateway) (id string) {
	t.Helper()
	for _, text := range hostile {
		acquire(t, g, text, text[:min(len(text), 200)], 60000)
	}
	for i, text := range hostile {
		record(t, g, i+1, "stale_token", text)
	}
	record(t, g, 2, "token_not_granted", "inventory:SKU-3")
	revoke(t, g, hostile[0], hostile[1])
	return refuse(t, g, "SKU-1")
}

type lockState struct {
	Live bool
	Mark struct{ State, Token string }
}

func look(t *testing.T, g *testenv.Gateway, key string) (s lockState) {
	t.Helper()
	g.Do(t, testenv.Request{Path: "/v1/leases?key=" + key}).JSON(t, &s)
	return s
}

type grants struct {
	Grants []struct{ Event, Token, Reason, Principal string }
}

func history(t *testing.T, g *testenv.Gateway, key string) (all grants) {
	t.Helper()
	g.Do(t, testenv.Request{Path: "/v1/grants?key=" + key}).JSON(t, &all)
	return all
}
