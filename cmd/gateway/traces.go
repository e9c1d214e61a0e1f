package main

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/config"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/telemetry"
)

// flushTime bounds what a receiver that does not answer may add to a stop, within
// the grace time.
const flushTime = 5 * time.Second

// openTraces returns nil if nothing is to be traced. Nobody is asked about spans
// then: no hook is set.
func openTraces(ctx context.Context, cfg *config.Config, log *slog.Logger) (*telemetry.Traces, error) {
	t := cfg.Traces
	if t.Endpoint == "" {
		return nil, nil
	}
	headers, err := t.HeaderValues()
	if err != nil {
		return nil, err
	}
	encrypted, err := withFiles(strings.HasPrefix(t.Endpoint, "https://"), t.CAFile, t.CertFile, t.KeyFile)
	if err != nil {
		return nil, err
	}
	return telemetry.OpenTraces(ctx, telemetry.TracesConfig{
		URL: t.URL(), Headers: headers, TLS: encrypted, Timeout: t.Timeout,
		Ratio: t.SampleRatio, Trust: t.TrustParent,
		Version: buildVersion(), Instance: instanceName(), Log: log,
	})
}

// tracedPool adds the spans of a pool's statements.
func tracedPool(c *pgxpool.Config, traces *telemetry.Traces) {
	if traces != nil {
		c.ConnConfig.Tracer = traces.Postgres(c.ConnConfig)
	}
}

// tracedRedis adds the spans of a client's commands.
func tracedRedis(client redis.UniversalClient, address string, traces *telemetry.Traces) {
	if traces != nil {
		client.AddHook(traces.Redis(address))
	}
}

// tracedLog adds to a request's lines which trace it is in.
func tracedLog(log *slog.Logger, traces *telemetry.Traces) *slog.Logger {
	if traces == nil {
		return log
	}
	return slog.New(traces.Log(log.Handler()))
}

func (h *house) traced(handler http.Handler) http.Handler {
	if h.traces == nil {
		return handler
	}
	return h.traces.Serve(handler)
}

// steps returns who is told the steps of a request.
func (h *house) steps() func(context.Context, gate.Step) (context.Context, func(string)) {
	if h.traces == nil {
		return nil
	}
	return h.traces.Enter
}

// sendTraces sends what still waits once no request is left.
func (h *house) sendTraces(ctx context.Context) {
	if h.traces == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	if err := h.traces.Close(ctx); err != nil {
		h.log.Warn("not all traces could be sent before the end", "error", err)
	}
}
