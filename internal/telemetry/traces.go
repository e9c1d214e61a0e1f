package telemetry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// TracesConfig says where spans go and which requests have them. Every field is
// needed unless it says otherwise.
type TracesConfig struct {
	URL      string            // where OTLP is taken over HTTP, path included
	Headers  map[string]string // sent along. Zero value: none
	TLS      *tls.Config       // Zero value: Go's own
	Timeout  time.Duration     // ends sending one batch, with all it is tried again
	Ratio    float64           // of the requests, 0 to 1
	Trust    bool              // a caller's sampled flag counts beyond Ratio. Zero value: it does not
	Version  string
	Instance string
	Log      *slog.Logger
}

// Bounds of what waits to be sent.
const (
	mostWaiting = 8192
	mostAtOnce  = 512
	sendAfter   = time.Second
)

// spanLimits bound what one span can cost.
var spanLimits = sdk.SpanLimits{
	AttributeValueLengthLimit: 256, AttributeCountLimit: 32,
	EventCountLimit: 128, AttributePerEventCountLimit: 8,
	LinkCountLimit: 1, AttributePerLinkCountLimit: 1,
}

// Traces makes spans of what the rooms announce and sends them off. Sending never
// holds a request up: what can't be sent in time is dropped and counted. Safe for
// concurrent use.
type Traces struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	outbox   *outbox
	closed   atomic.Bool
}

// OpenTraces returns traces that Close ends. The receiver need not be there.
func OpenTraces(ctx context.Context, cfg TracesConfig) (*Traces, error) {
	about, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName(namespace), semconv.ServiceVersion(cfg.Version), semconv.ServiceInstanceID(cfg.Instance)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("reading OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	exporter, err := otlptracehttp.New(ctx, exporterOptions(cfg)...)
	if err != nil {
		return nil, fmt.Errorf("opening the way to the traces' receiver: %w", err)
	}
	return tracesTo(exporter, about, cfg), nil
}

func tracesTo(exporter sdk.SpanExporter, about *resource.Resource, cfg TracesConfig) *Traces {
	box := newOutbox(exporter, cfg)
	provider := sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithSpanProcessor(box),
		sdk.WithSampler(sampler(cfg)), sdk.WithRawSpanLimits(spanLimits))
	return &Traces{provider: provider, outbox: box,
		tracer: provider.Tracer("github.com/fencegate/fencegate", trace.WithSchemaURL(semconv.SchemaURL))}
}

// exporterOptions leaves none of what the SDK would otherwise take from
// OTEL_EXPORTER_OTLP_*: what runs is what the configuration says.
func exporterOptions(cfg TracesConfig) []otlptracehttp.Option {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = cfg.TLS
	return []otlptracehttp.Option{
		otlptracehttp.WithEndpointURL(cfg.URL),
		otlptracehttp.WithHeaders(cfg.Headers),
		otlptracehttp.WithTLSClientConfig(nil),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf),
		otlptracehttp.WithHTTPClient(&http.Client{
			Transport: transport, Timeout: cfg.Timeout,
			// The headers are for the one they were written for.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: 500 * time.Millisecond, MaxInterval: 5 * time.Second, MaxElapsedTime: cfg.Timeout,
		}),
	}
}

// Close sends what waits until ctx ends, and drops the rest. A second one does
// nothing.
func (t *Traces) Close(ctx context.Context) error {
	if t.closed.Swap(true) {
		return nil
	}
	err := t.provider.Shutdown(ctx)
	if left := t.outbox.waiting.Load(); left > 0 {
		return errors.Join(fmt.Errorf("%d spans were not sent", left), err)
	}
	return err
}

// start begins a span, if it is part of one that is recorded; otherwise the span
// it returns takes everything and keeps nothing.
func (t *Traces) start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, nothing
	}
	return t.tracer.Start(ctx, name, options...)
}

// nothing is a span that is not there.
var nothing = trace.SpanFromContext(context.Background())
