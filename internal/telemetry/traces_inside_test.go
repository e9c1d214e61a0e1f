package telemetry

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/proxy"
)

const (
	callersID  = "4bf92f3577b34da6a3ce929d0e0e4736"
	sampled    = "00-" + callersID + "-00f067aa0ba902b7-01"
	notSampled = "00-" + callersID + "-00f067aa0ba902b7-00"
)

func keeping(exporter sdk.SpanExporter, ratio float64, trust bool) *Traces {
	return tracesTo(exporter, resource.Empty(), TracesConfig{Ratio: ratio, Trust: trust, Timeout: time.Minute, Log: slog.New(slog.DiscardHandler)})
}

// served is a handler that tells the outcome, as the proxy does.
func served204(t *Traces) http.Handler {
	return t.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Served(r.Context(), proxy.Outcome{Method: r.Method, Route: "/rest/{table}", Status: http.StatusNoContent})
	}))
}

func TestACallerCanNotHaveMoreTracedThanItIsTrustedWith(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		parents []string
		ratio   float64
		trust   bool
		traced  bool
		callers bool
	}{
		"nobody asks":                        {nil, 1, false, true, false},
		"nobody asks, and none are traced":   {nil, 0, true, false, false},
		"a stranger within the ratio":        {[]string{sampled}, 1, false, true, true},
		"a stranger past the ratio":          {[]string{sampled}, 0, false, false, false},
		"a trusted caller past the ratio":    {[]string{sampled}, 0, true, true, true},
		"a caller that is not traced":        {[]string{notSampled}, 1, false, false, false},
		"a trusted caller that is not":       {[]string{notSampled}, 1, true, false, false},
		"a malformed header is none":         {[]string{"00-" + callersID + "-zz-01"}, 1, true, true, false},
		"two headers are none":               {[]string{sampled, sampled}, 1, true, true, false},
		"an endless header is none":          {[]string{sampled + string(make([]byte, 30000))}, 1, true, true, false},
		"a trace of zeros is none":           {[]string{"00-00000000000000000000000000000000-00f067aa0ba902b7-01"}, 1, true, true, false},
		"a version that is forbidden is one": {[]string{"ff" + sampled[2:]}, 1, true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exporter := tracetest.NewInMemoryExporter()
			traces := keeping(exporter, c.ratio, c.trust)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPatch, "/rest/inventory", nil)
			r.Header["Traceparent"] = c.parents
			r.Header.Set("Tracestate", "vendor=private")
			served204(traces).ServeHTTP(httptest.NewRecorder(), r)
			if err := traces.provider.ForceFlush(t.Context()); err != nil {
				t.Fatal(err)
			}
			spans := exporter.GetSpans()
			if (len(spans) == 1) != c.traced {
				t.Fatalf("there are %d spans", len(spans))
			}
			for _, s := range spans {
				if (s.SpanContext.TraceID().String() == callersID) != c.callers {
					t.Errorf("the trace is %s", s.SpanContext.TraceID())
				}
				if s.SpanContext.TraceState().Len() > 0 {
					t.Errorf("the caller's state %s was kept", s.SpanContext.TraceState())
				}
			}
		})
	}
}

// blocked is an exporter that hangs until the test lets it go on.
type blocked struct{ until chan struct{} }

func (b blocked) ExportSpans(context.Context, []sdk.ReadOnlySpan) error {
	<-b.until
	return nil
}

func (b blocked) Shutdown(context.Context) error { return nil }

func TestWhatIsTooMuchToSendIsDroppedAndCounted(t *testing.T) {
	t.Parallel()
	const tooMany = 100
	b := blocked{make(chan struct{})}
	traces := keeping(b, 1, false)
	for range mostWaiting + tooMany { // none of which may wait
		_, span := traces.tracer.Start(t.Context(), "one")
		span.End()
	}
	if got := traces.outbox.full.Load(); got != tooMany {
		t.Errorf("%d were dropped, not %d", got, tooMany)
	}
	close(b.until)
	if err := traces.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := traces.outbox.sent.Load(); got != mostWaiting {
		t.Errorf("%d were sent, not %d", got, mostWaiting)
	}
}

func TestNamesOfStatementsComeFromTheGatewaysOwnAlone(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{
		`SELECT fencegate.admit($1, $2, $3)`:                              "fencegate.admit",
		`SELECT set_config('TimeZone', $1, true)`:                         "set_config",
		"WITH w AS (\n  UPDATE shop.secret AS t\n     SET a = 'SELECT'":   "UPDATE",
		"WITH fencegate_params AS (), w AS (SELECT 1 FROM fencegate.mine": "statement",
		`SELECT count(*), t."FROM fencegate.mine"`:                        "statement",
	} {
		if got := partOf(sql); got != want {
			t.Errorf("%s is %s, not %s", sql, got, want)
		}
	}
	for sql, want := range map[string]string{
		`SELECT outcome, token FROM fencegate.raise_mark($1, $2)`: "fencegate.raise_mark",
		"\n\t\tUPDATE fencegate.leases\n":                         "fencegate.leases",
		`SELECT pg_is_in_recovery()`:                              "SELECT",
	} {
		if got := nameOf(sql); got != want {
			t.Errorf("%s is %s, not %s", sql, got, want)
		}
	}
}

// gone is an exporter that takes everything.
type gone struct{}

func (gone) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { return nil }
func (gone) Shutdown(context.Context) error                        { return nil }

// BenchmarkTraces is what a request and its steps cost when it is traced and when
// it is not.
func BenchmarkTraces(b *testing.B) {
	for name, ratio := range map[string]float64{"traced": 1, "not traced": 0} {
		b.Run(name, func(b *testing.B) {
			traces := keeping(gone{}, ratio, false)
			handler := traces.Serve(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				for _, kind := range []gate.StepKind{gate.Checking, gate.Queueing, gate.Sending} {
					_, end := traces.Enter(r.Context(), gate.Step{Kind: kind, Operation: "update", Target: "shop.inventory"})
					end(gate.Done)
				}
				traces.Served(r.Context(), proxy.Outcome{Method: http.MethodPatch, Route: "/rest/{table}", Status: http.StatusNoContent, Target: "shop.inventory"})
			}))
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(b.Context(), http.MethodPatch, "/rest/inventory", nil)
			b.ReportAllocs()
			for b.Loop() {
				handler.ServeHTTP(w, r)
			}
		})
	}
}
