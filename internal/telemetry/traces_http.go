package telemetry

import (
	"context"
	"log/slog"
	"net/http"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencegate/fencegate/internal/proxy"
)

// Attributes of the gateway's own.
const (
	requestIDKey = attribute.Key("fencegate.request_id")
	codeKey      = attribute.Key("fencegate.code") // the last part of a problem's type, or what a write was refused for
	targetKey    = attribute.Key("fencegate.target")
	operationKey = attribute.Key("fencegate.operation")
	outcomeKey   = attribute.Key("fencegate.outcome")
	reasonKey    = attribute.Key("fencegate.reason")
	replayedKey  = attribute.Key("fencegate.replayed")
)

// Serve wraps the public handler: each request that is traced is a span, which
// Served completes.
func (t *Traces) Serve(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := t.tracer.Start(callersTrace(r.Context(), r.Header), "HTTP", trace.WithSpanKind(trace.SpanKindServer))
		if !span.IsRecording() {
			next.ServeHTTP(w, r)
			return
		}
		defer func() {
			span.SetAttributes(requestIDKey.String(w.Header().Get("Request-Id")))
			span.End()
		}()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Served takes the outcome of the request whose context is ctx. The path and the
// query, which hold values, are no part of the span.
func (t *Traces) Served(ctx context.Context, o proxy.Outcome) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	name, method := o.Method, semconv.HTTPRequestMethodKey.String(o.Method)
	if !slices.Contains(methods, o.Method) {
		name, method = "HTTP", semconv.HTTPRequestMethodOther
	}
	span.SetAttributes(method, semconv.HTTPResponseStatusCode(o.Status))
	if o.Route != "" {
		name += " " + o.Route
		span.SetAttributes(semconv.HTTPRoute(o.Route))
	}
	span.SetName(name)
	for _, said := range []struct {
		key   attribute.Key
		value string
	}{{codeKey, o.Code}, {targetKey, o.Target}, {reasonKey, o.Reason}} {
		if said.value != "" {
			span.SetAttributes(said.key.String(said.value))
		}
	}
	if o.Replayed {
		span.SetAttributes(replayedKey.Bool(true))
	}
	if o.Status >= http.StatusInternalServerError {
		span.SetAttributes(semconv.ErrorTypeKey.String(o.Code))
		span.SetStatus(codes.Error, "")
	}
}

// Log wraps a log handler: lines about a request that is traced say where.
func (t *Traces) Log(next slog.Handler) slog.Handler { return logHandler{next} }

type logHandler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if at := trace.SpanContextFromContext(ctx); at.IsSampled() {
		r.AddAttrs(slog.String("trace_id", at.TraceID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }
