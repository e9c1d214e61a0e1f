package telemetry

import (
	"context"
	"math/rand/v2"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// sampler decides which requests are traced. A caller that does not trace its own
// part is not traced here either: a part alone would be an orphan. One that does is
// asked for no more than the ratio, unless it is trusted: whoever reaches the
// gateway could otherwise have everything sent.
func sampler(cfg TracesConfig) sdk.Sampler {
	root := sdk.TraceIDRatioBased(cfg.Ratio)
	if cfg.Trust {
		return sdk.ParentBased(root)
	}
	return sdk.ParentBased(root, sdk.WithRemoteParentSampled(lot(cfg.Ratio)))
}

// lot is a ratio that no trace id can be made for.
type lot float64

// ShouldSample implements sdk.Sampler.
func (l lot) ShouldSample(sdk.SamplingParameters) sdk.SamplingResult {
	if rand.Float64() < float64(l) {
		return sdk.SamplingResult{Decision: sdk.RecordAndSample}
	}
	return sdk.SamplingResult{Decision: sdk.Drop}
}

// Description implements sdk.Sampler.
func (l lot) Description() string { return "Lot" }

// callersTrace returns ctx with the trace that the caller says it is in, if there is
// exactly one and it is well-formed. Its tracestate and baggage, which could be
// anything, go nowhere.
func callersTrace(ctx context.Context, h http.Header) context.Context {
	lines := h.Values("Traceparent")
	if len(lines) != 1 {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": lines[0]})
}
