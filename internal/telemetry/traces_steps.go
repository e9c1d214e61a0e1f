package telemetry

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/proxy"
)

// worthASpan is the shortest wait that is shown: most writes wait for nothing.
const worthASpan = time.Millisecond

type aimKey struct{}

// aim is what the transactions under a context are for.
type aim struct{ operation, target string }

func (a aim) String() string { return a.operation + " " + a.target }

func (a aim) attributes() []attribute.KeyValue {
	return []attribute.KeyValue{operationKey.String(a.operation), targetKey.String(a.target)}
}

func aimOf(operation, target string) aim {
	if strings.Contains(target, ", ") { // more than one
		target = proxy.Several
	}
	return aim{operation, target}
}

// Enter makes spans of the steps that a gate tells.
func (t *Traces) Enter(ctx context.Context, s gate.Step) (context.Context, func(outcome string)) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, ignored
	}
	switch s.Kind {
	case gate.Sending:
		return context.WithValue(ctx, aimKey{}, aimOf(s.Operation, s.Target)), ignored
	case gate.Queueing, gate.Sharing, gate.Waiting:
		began := time.Now()
		return ctx, func(outcome string) { t.waited(ctx, string(s.Kind), began, outcome == gate.Failed) }
	}
	var about []attribute.KeyValue
	if s.Code != "" {
		about = append(aimOf(s.Operation, s.Target).attributes(), codeKey.String(s.Code))
	}
	ctx, span := t.start(ctx, string(s.Kind), trace.WithAttributes(about...))
	return ctx, func(outcome string) {
		span.SetAttributes(outcomeKey.String(outcome))
		if outcome == gate.Failed {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

func ignored(string) {}

// waited makes a span of a wait that is over, if it was one.
func (t *Traces) waited(ctx context.Context, name string, began time.Time, failed bool) {
	if !failed && time.Since(began) < worthASpan {
		return
	}
	_, span := t.start(ctx, name, trace.WithTimestamp(began))
	if failed {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}
