package telemetry_test

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/fencegate/fencegate/internal/testenv"
)

const (
	callersTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	callersSpan  = "00f067aa0ba902b7"
	sku          = "inventory?sku=eq.SKU-1"
)

// traced starts a gateway that sends its traces to r.
func traced(t *testing.T, r *receiver, o testenv.GatewayOptions) *testenv.Gateway {
	t.Helper()
	o.Config += "traces: {endpoint: '" + r.URL + "', headers: 'x-key=header%20private'}\n"
	return testenv.StartGateway(t, o)
}

func patch(t *testing.T, g *testenv.Gateway, l testenv.Lease, body string, more map[string]string) testenv.Response {
	t.Helper()
	h := l.Header()
	for name, value := range more {
		h.Set(name, value)
	}
	return g.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/" + sku, Header: h, Body: body})
}

// requests returns what has been received, a tree for each request, by its id.
func requests(t *testing.T, r *receiver) map[string]*node {
	t.Helper()
	all := map[string]*node{}
	for _, top := range trees(r.spans()) {
		id := top.attributes["fencegate.request_id"]
		if top.Kind != otlp.Span_SPAN_KIND_SERVER || id == "" || all[id] != nil {
			t.Errorf("%s is part of no request, or of one in two parts:\n%s", top.Name, top.drawn())
		}
		all[id] = top
	}
	return all
}

// withoutWaits leaves out what is only there when it was waited for.
func withoutWaits(drawn string) string {
	return regexp.MustCompile(`(?m)^ *(wait for (turn|share|connection)|SELECT|fencegate\.ensure_epoch)\n`).ReplaceAllString(drawn, "")
}

func TestOneWriteIsOneTrace(t *testing.T) {
	t.Parallel()
	r := startReceiver(t)
	g := traced(t, r, testenv.GatewayOptions{Env: []string{"OTEL_SERVICE_NAME=gateway-of-the-shop", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_TRACES_SAMPLER=always_off"}})
	l := g.Acquire(t, "inventory:SKU-1", 60000)
	patch(t, g, l, `{"available":7}`, map[string]string{"Request-Id": "write", "Idempotency-Key": "once",
		"Traceparent": "00-" + callersTrace + "-" + callersSpan + "-01"})
	g.Stop(t)

	write := requests(t, r)["write"]
	want := "PATCH /rest/{table}\n  check leases\n    MULTI\n  update shop.inventory\n"
	if got := withoutWaits(write.drawn()); got != want {
		t.Fatalf("the write is\n%s\nnot\n%s", got, want)
	}
	if trace, parent := hex.EncodeToString(write.TraceId), hex.EncodeToString(write.ParentSpanId); trace != callersTrace || parent != callersSpan {
		t.Errorf("the write is in the trace %s under %s", trace, parent)
	}
	batch := write.find("update shop.inventory")
	if got, want := batch.events(), []string{"fencegate.claim_answer", "fencegate.admit", "UPDATE"}; !slices.Equal(got, want) {
		t.Errorf("the batch is answered with %q, not %q", got, want)
	}
	for at, wants := range map[*node]map[string]string{
		write:                      {"http.request.method": "PATCH", "http.route": "/rest/{table}", "http.response.status_code": "204", "fencegate.target": "shop.inventory"},
		batch:                      {"db.system.name": "postgresql", "db.namespace": g.Database.Name, "db.operation.batch.size": "3", "fencegate.operation": "update"},
		write.find("check leases"): {"fencegate.outcome": "live"},
		write.find("MULTI"):        {"db.system.name": "redis"},
	} {
		for key, want := range wants {
			if got := at.attributes[key]; strings.Trim(got, `"`) != want {
				t.Errorf("%s of %s is %s, not %s", key, at.Name, got, want)
			}
		}
	}
	if r.path != "/v1/traces" || r.head.Get("X-Key") != "header private" || r.of["service.name"] != "gateway-of-the-shop" || r.of["service.version"] == "" {
		t.Errorf("the receiver was told %s %v %v", r.path, r.head, r.of)
	}
	if line := accessLine(t, g, "write"); line.TraceID != callersTrace {
		t.Errorf("the log has the trace %q", line.TraceID)
	}
}

// accessLine is what the log has of a request.
func accessLine(t *testing.T, g *testenv.Gateway, id string) (found struct {
	TraceID string `json:"trace_id"`
}) {
	t.Helper()
	for line := range strings.Lines(g.Log()) {
		if strings.Contains(line, `"request_id":"`+id+`"`) {
			if err := json.Unmarshal([]byte(line), &found); err != nil {
				t.Fatal(err)
			}
			return found
		}
	}
	t.Fatalf("the log has no request %s:\n%s", id, g.Log())
	return found
}

func TestARefusedWriteShowsItsCodeAndIsNoError(t *testing.T) {
	t.Parallel()
	r := startReceiver(t)
	g := traced(t, r, testenv.GatewayOptions{})
	l := g.Acquire(t, "inventory:SKU-1", 60000)
	patch(t, g, l, `{"available":-1}`, map[string]string{"Request-Id": "check"})
	post(t, g, "/v1/leases/release", l.Claim())
	patch(t, g, l, `{"available":1}`, map[string]string{"Request-Id": "refused"})
	g.Stop(t)

	all := requests(t, r)
	want := "PATCH /rest/{table}\n  check leases\n    MULTI\n    fencegate.verdict\n  record refusal\n"
	if got := withoutWaits(all["refused"].drawn()); got != want {
		t.Fatalf("the refused write is\n%s\nnot\n%s", got, want)
	}
	recorded := all["refused"].find("record refusal").attributes
	if all["refused"].attributes["fencegate.code"] != "lease_released" || recorded["fencegate.code"] != "lease_released" || recorded["fencegate.target"] != "shop.inventory" {
		t.Errorf("the refusal shows as %v, recorded as %v", all["refused"].attributes, recorded)
	}
	if got := all["check"].find("update shop.inventory").attributes["db.response.status_code"]; got != "23514" {
		t.Errorf("the database's answer is %q", got)
	}
	for id, top := range all {
		for n := range top.all() {
			if n.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR {
				t.Errorf("%s of %s is an error", n.Name, id)
			}
		}
	}
}

func TestAnAnswerOf5xxIsAnError(t *testing.T) {
	t.Parallel()
	redis := testenv.OwnRedis(t)
	r := startReceiver(t)
	g := traced(t, r, testenv.GatewayOptions{RedisURL: redis.URL(), KeyPrefix: "t:"})
	l := g.Acquire(t, "inventory:SKU-1", 60000)
	if err := redis.Stop(); err != nil {
		t.Fatal(err)
	}
	patch(t, g, l, `{"available":1}`, map[string]string{"Request-Id": "down"})
	g.Stop(t)

	down := requests(t, r)["down"]
	for _, name := range []string{"PATCH /rest/{table}", "check leases", "MULTI"} {
		if n := down.find(name); n == nil || n.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR {
			t.Errorf("%s is no error in\n%s", name, down.drawn())
		}
	}
	if down.attributes["error.type"] != "lock_service_unavailable" {
		t.Errorf("the error is %q", down.attributes["error.type"])
	}
}

// Writes of one key go two at a time: the third waits for its turn. Another key's
// finds no connection left.
func TestWhatIsWaitedForShows(t *testing.T) {
	t.Parallel()
	r := startReceiver(t)
	db := testenv.Shop(t)
	g := traced(t, r, testenv.GatewayOptions{Database: db, Config: "database: {url: '" + db.URL + "', pool_size: 2, reload_on_notify: false}\n"})
	one, other := g.Acquire(t, "inventory:SKU-1", 60000), g.Acquire(t, "inventory:SKU-2", 60000)
	patch(t, g, one, `{"available":1}`, nil)
	tx, err := db.Pool(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM shop.inventory FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	answered := make(chan struct{}, 4)
	send := func(l testenv.Lease, row, id string) {
		h := l.Header()
		h.Set("Request-Id", id)
		g.Try(t, t.Context(), testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq." + row, Header: h, Body: `{"available":2}`})
		answered <- struct{}{}
	}
	for range 3 {
		go send(one, "SKU-1", "")
	}
	awaitMetric(t, g, "writes_waiting", 1)
	go send(other, "SKU-2", "other")
	awaitMetric(t, g, "http_requests_in_flight", 4, "kind", "write")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range cap(answered) {
		<-answered
	}
	g.Stop(t)

	turns := 0
	all := requests(t, r)
	for _, top := range all {
		if top.find("wait for turn") != nil {
			turns++
		}
	}
	if turns == 0 {
		t.Error("nobody waited for a turn")
	}
	if all["other"].find("wait for share") == nil {
		t.Errorf("the other key's write did not wait for a connection to be free:\n%s", all["other"].drawn())
	}
}

// awaitMetric returns once a metric has this value.
func awaitMetric(t *testing.T, g *testenv.Gateway, name string, want float64, labels ...string) {
	t.Helper()
	for {
		text, _ := scrape(t, g, "")
		if sample(families(t, text), name, labels...) == want {
			return
		}
		if t.Context().Err() != nil {
			t.Fatalf("%s did not become %v", name, want)
		}
	}
}

func TestAReceiverThatIsDownCostsRequestsNothing(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	g := traced(t, &receiver{URL: server.URL}, testenv.GatewayOptions{})
	l := g.Acquire(t, "inventory:SKU-1", 60000)
	if answer := patch(t, g, l, `{"available":7}`, nil); answer.Status != http.StatusNoContent {
		t.Fatalf("%d %s", answer.Status, answer.Body)
	}
	g.AwaitLog(t, "traces can't be sent, and are dropped until they can")
	text, _ := scrape(t, g, "")
	if got := sample(families(t, text), "trace_spans_dropped_total", "reason", "send_failed"); got == 0 {
		t.Error("no span counts as dropped")
	}
	if answer := patch(t, g, l, `{"available":8}`, nil); answer.Status != http.StatusNoContent {
		t.Errorf("%d %s", answer.Status, answer.Body)
	}
}

func TestAReceiverThatHangsDelaysNoRequestAndNoStop(t *testing.T) {
	t.Parallel()
	hanging, asked := make(chan struct{}), make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-hanging
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(hanging) })
	g := traced(t, &receiver{URL: server.URL}, testenv.GatewayOptions{Config: "limits: {shutdown_grace: 1s}\n"})
	l := g.Acquire(t, "inventory:SKU-1", 60000)
	<-asked
	if answer := patch(t, g, l, `{"available":7}`, nil); answer.Status != http.StatusNoContent {
		t.Fatalf("%d %s", answer.Status, answer.Body)
	}
	began := time.Now()
	g.Stop(t)
	if took := time.Since(began); took > 8*time.Second { // its timeout is 10 s
		t.Errorf("stopping took %s", took)
	}
	if !strings.Contains(g.Log(), "not all traces could be sent before the end") {
		t.Errorf("the log does not say so:\n%s", g.Log())
	}
}

var attributeRow = regexp.MustCompile("(?m)^\\| `([a-z0-9_.]+)` \\|")

func TestSpansHoldNothingButWhatThePageLists(t *testing.T) {
	t.Parallel()
	r := startReceiver(t)
	db := testenv.Shop(t)
	db.Exec(t, `INSERT INTO shop.inventory (sku) VALUES ('SKU-PRIVATE')`)
	g := traced(t, r, testenv.GatewayOptions{Database: db, Config: told})
	l := traffic(t, g)
	g.Stop(t)

	requests(t, r)
	for _, word := range append(private, l.Holder, "header private", "password") {
		if strings.Contains(string(r.raw), word) {
			t.Errorf("%q is in what was sent", word)
		}
	}
	page, err := os.ReadFile("../../docs/traces.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, row := range attributeRow.FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, row[1])
	}
	for _, s := range r.spans() {
		keys := texts(s.Attributes)
		for _, e := range s.Events {
			for key, value := range texts(e.Attributes) {
				keys[key] = value
			}
		}
		for key := range keys {
			if !slices.Contains(listed, key) {
				t.Errorf("%s has %s, which is not documented", s.Name, key)
			}
		}
		if s.Status.GetMessage() != "" || s.TraceState != "" {
			t.Errorf("%s has the texts %q and %q", s.Name, s.Status.Message, s.TraceState)
		}
	}
}
