package telemetry_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/fencegate/fencegate/internal/testenv"
)

// What must be in no metric: keys and names that only this test uses.
var private = []string{"SKU-PRIVATE", "LINE-PRIVATE", "client-private", "once-private", "principal-private", "table_private", "path-private", "METHODPRIVATE", "anyone"}

const told = "log: {level: debug}\n"

// scrape returns the text of /metrics as plain Prometheus reads it.
func scrape(t *testing.T, g *testenv.Gateway, accept string) (text, media string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.AdminURL+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d, %v: %s", resp.StatusCode, err, body)
	}
	return string(body), resp.Header.Get("Content-Type")
}

func families(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// sample is the value of one line, the number of observations of a histogram; 0
// if it is not there.
func sample(all map[string]*dto.MetricFamily, name string, labels ...string) (value float64) {
	family := all["fencegate_"+name]
	for _, m := range family.GetMetric() {
		if matches(m, labels) {
			value += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return value
}

func matches(m *dto.Metric, labels []string) bool {
	have := map[string]string{}
	for _, pair := range m.GetLabel() {
		have[pair.GetName()] = pair.GetValue()
	}
	for i := 0; i < len(labels); i += 2 {
		if have[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}

func acquire(key string, more string) testenv.Request {
	return testenv.Request{Method: http.MethodPost, Path: "/v1/leases", Header: http.Header{},
		Body: fmt.Sprintf(`{"key":%q,"ttl_ms":60000,"client":"client-private"%s}`, key, more)}
}

func take(t *testing.T, g *testenv.Gateway, q testenv.Request) (l testenv.Lease) {
	t.Helper()
	answer := g.Do(t, q)
	if answer.Status != http.StatusCreated {
		t.Fatalf("%d %s", answer.Status, answer.Body)
	}
	answer.JSON(t, &l)
	return l
}

func post(t *testing.T, g *testenv.Gateway, path, body string) testenv.Response {
	t.Helper()
	return g.Do(t, testenv.Request{Method: http.MethodPost, Path: path, Body: body})
}

// traffic is some of all that can happen. It returns a lease that is over.
func traffic(t *testing.T, g *testenv.Gateway) testenv.Lease {
	t.Helper()
	l := take(t, g, acquire("inventory:SKU-PRIVATE", ""))
	const row = "inventory?sku=eq.SKU-PRIVATE"
	once := l.Header()
	once.Set("Idempotency-Key", "once-private")
	for range 2 { // the second is a replay
		g.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/" + row, Header: once, Body: `{"available":7}`})
	}
	g.Patch(t, l, row, `{"available":-1}`)                // a CHECK
	g.Patch(t, l, "table_private?sku=eq.x", `{"a":1}`)    // no such table
	g.Patch(t, l, "orders?order_no=eq.1", `{"note":"x"}`) // another lock's
	g.Patch(t, l, row, `{"no_such_column":1}`)            // makes it look at the tables
	g.Do(t, testenv.Request{Method: http.MethodGet, Path: "/rest/" + row})
	g.Do(t, testenv.Request{Method: http.MethodGet, Path: "/path-private"})
	g.Do(t, testenv.Request{Method: "METHODPRIVATE", Path: "/rest/" + row})
	post(t, g, "/v1/transactions", `{"locks":[`+l.Claim()+`],"operations":[
		{"op":"update","table":"inventory","where":{"sku":"eq.SKU-PRIVATE"},"set":{"available":3}}]}`)
	post(t, g, "/v1/leases/renew", l.Claim())
	g.Do(t, acquire("inventory:SKU-PRIVATE", "")) // it is held
	await := make(chan struct{})
	go func() {
		defer close(await)
		g.Try(t, t.Context(), acquire("inventory:SKU-PRIVATE", `,"wait_ms":30000`))
	}()
	g.AwaitLog(t, "an acquire waits")
	text, _ := scrape(t, g, "")
	if got := sample(families(t, text), "acquires_waiting"); got != 1 {
		t.Errorf("%v acquires wait, not 1", got)
	}
	post(t, g, "/v1/leases/release", l.Claim())
	<-await
	g.Patch(t, l, row, `{"available":1}`)       // stale by now
	post(t, g, "/v1/leases/renew", l.Claim())   // as well
	post(t, g, "/v1/leases/release", l.Claim()) // as well
	post(t, g, "/v1/leases/revoke", `{"key":"inventory:SKU-PRIVATE","reason":"principal-private"}`)
	return l
}

// afterTraffic is what must have been counted of it.
var afterTraffic = []struct {
	value  float64
	name   string
	labels []string
}{
	{2, "writes_total", []string{"door", "rest", "table", "shop.inventory", "operation", "update", "outcome", "ok"}},
	{1, "writes_total", []string{"table", "shop.inventory", "outcome", "check_violation"}},
	{1, "writes_total", []string{"table", "shop.inventory", "outcome", "unknown_column"}},
	{1, "writes_total", []string{"table", "unknown", "outcome", "unknown_table"}},
	{1, "writes_total", []string{"table", "shop.orders", "outcome", "lock_scope"}},
	{1, "writes_total", []string{"table", "shop.inventory", "outcome", "stale_token"}},
	{1, "writes_total", []string{"door", "transaction", "table", "shop.inventory", "outcome", "ok"}},
	{1, "idempotent_replays_total", []string{"call", "write"}},
	{1, "refusals_total", []string{"code", "lock_scope", "operation", "update", "table", "shop.orders"}},
	{1, "refusals_total", []string{"code", "stale_token", "operation", "update", "table", "shop.inventory"}},
	{1, "refusals_total", []string{"code", "stale_token", "operation", "renew", "table", "none"}},
	{1, "refusals_total", []string{"code", "stale_token", "operation", "release", "table", "none"}},
	{4, "refusal_record_duration_seconds", nil},
	{0, "refusal_record_failures_total", nil},
	{2, "lease_calls_total", []string{"call", "acquire", "outcome", "ok"}},
	{1, "lease_calls_total", []string{"call", "acquire", "outcome", "lock_held"}},
	{1, "lease_calls_total", []string{"call", "renew", "outcome", "ok"}},
	{1, "lease_calls_total", []string{"call", "renew", "outcome", "stale_token"}},
	{1, "lease_calls_total", []string{"call", "release", "outcome", "ok"}},
	{1, "lease_calls_total", []string{"call", "release", "outcome", "stale_token"}},
	{1, "lease_calls_total", []string{"call", "revoke", "outcome", "ok"}},
	{1, "acquire_wait_duration_seconds", nil},
	{0, "acquires_waiting", nil},
	{0, "writes_waiting", nil},
	{0, "lease_check_failures_total", nil},
	{2, "database_transaction_duration_seconds", []string{"kind", "grant"}},
	{1, "database_transaction_duration_seconds", []string{"kind", "read"}},
	{2, "database_transaction_duration_seconds", []string{"kind", "release"}},
	{1, "database_transaction_duration_seconds", []string{"kind", "revoke"}},
	{1, "catalog_looks_total", nil},
	{0, "catalog_changes_total", nil},
	{1, "http_requests_total", []string{"method", "GET", "route", "none", "status", "404"}},
	{1, "http_requests_total", []string{"method", "GET", "route", "/rest/{table}", "status", "200"}},
	{1, "http_requests_total", []string{"method", "other", "route", "none", "status", "405"}},
	{7, "http_request_duration_seconds", []string{"method", "PATCH", "route", "/rest/{table}"}},
	{0, "http_requests_in_flight", nil},
	{1, "build_info", nil},
}

func TestTheNumbersRiseWithWhatHappens(t *testing.T) {
	t.Parallel()
	db := testenv.Shop(t)
	db.Exec(t, `INSERT INTO shop.inventory (sku) VALUES ('SKU-PRIVATE')`)
	g := testenv.StartGateway(t, testenv.GatewayOptions{Database: db, Config: told})

	l := traffic(t, g)
	text, media := scrape(t, g, "")
	if !strings.HasPrefix(media, "text/plain") {
		t.Errorf("the type is %q", media)
	}
	all := families(t, text)
	for _, want := range afterTraffic {
		if got := sample(all, want.name, want.labels...); got != want.value {
			t.Errorf("%s %q is %v, not %v", want.name, want.labels, got, want.value)
		}
	}
	for _, name := range []string{"lease_checks_total", "lease_check_duration_seconds", "pool_acquires_total", "pool_connections_limit", "http_requests_in_flight_limit"} {
		if sample(all, name) == 0 {
			t.Errorf("%s is 0", name)
		}
	}
	for _, word := range append(private, l.Holder) {
		if strings.Contains(text, word) {
			t.Errorf("%q is in the metrics", word)
		}
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "fencegate_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

func TestOpenMetricsIsOffered(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	text, media := scrape(t, g, "application/openmetrics-text; version=1.0.0")
	if !strings.HasPrefix(media, "application/openmetrics-text") || !strings.HasSuffix(text, "# EOF\n") {
		t.Errorf("%s: …%s", media, text[max(0, len(text)-40):])
	}
}

func TestTroubleIsCounted(t *testing.T) {
	t.Parallel()
	redis := testenv.OwnRedis(t)
	g := testenv.StartGateway(t, testenv.GatewayOptions{RedisURL: redis.URL(), KeyPrefix: "t:"})
	l := g.Acquire(t, "inventory:SKU-1", 60000)
	const row = "inventory?sku=eq.SKU-1"

	// A deadlock's victim runs again; here PostgreSQL says so each time.
	g.Database.Exec(t, `CREATE FUNCTION shop.again() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40P01'; END $$;
		CREATE TRIGGER again BEFORE UPDATE ON shop.inventory FOR EACH ROW EXECUTE FUNCTION shop.again()`)
	g.Patch(t, l, row, `{"available":1}`)

	g.Database.Exec(t, `DROP TRIGGER again ON shop.inventory;
		ALTER TABLE fencegate.refusals ADD CONSTRAINT no_more CHECK (false) NOT VALID`)
	forged := l
	forged.Headers = map[string]string{"Lock-Key": l.Headers["Lock-Key"], "Lock-Holder": l.Headers["Lock-Holder"], "Fencing-Token": "99"}
	g.Patch(t, forged, row, `{"available":1}`)
	if err := redis.Stop(); err != nil {
		t.Fatal(err)
	}
	if answer := g.Patch(t, l, row, `{"available":1}`); answer.Status != http.StatusServiceUnavailable {
		t.Fatalf("%d %s", answer.Status, answer.Body)
	}

	text, _ := scrape(t, g, "")
	all := families(t, text)
	for name, want := range map[string]float64{"database_retries_total": 2, "refusal_record_failures_total": 1, "lease_check_failures_total": 1} {
		if got := sample(all, name); got != want {
			t.Errorf("%s is %v, not %v", name, got, want)
		}
	}
	for _, want := range [][]string{{"outcome", "serialization_failure"}, {"outcome", "token_not_granted"}, {"outcome", "lock_service_unavailable"}} {
		if got := sample(all, "writes_total", want...); got != 1 {
			t.Errorf("writes_total %q is %v, not 1", want, got)
		}
	}
}

// What is turned away before it is routed must still be counted at its route.
func TestRequestsPastTheLimitAreCountedAtTheirRoute(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: "limits: {max_in_flight: 1}\n"})
	l := g.Acquire(t, "inventory:SKU-1", 60000)
	tx, err := g.Database.Pool(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM shop.inventory FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	statuses := make(chan int, 2)
	for range cap(statuses) {
		go func() {
			answer, _ := g.Try(t, t.Context(), testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1", Header: l.Header(), Body: `{"available":1}`})
			statuses <- answer.Status
		}()
	}
	turnedAway := <-statuses
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if other := <-statuses; turnedAway != http.StatusServiceUnavailable || other != http.StatusNoContent {
		t.Errorf("%d and %d", turnedAway, other)
	}
	text, _ := scrape(t, g, "")
	if got := sample(families(t, text), "writes_total", "door", "rest", "operation", "update", "outcome", "overloaded"); got != 1 {
		t.Errorf("%v writes were counted as overloaded, not 1", got)
	}
}
