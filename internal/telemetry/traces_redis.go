package telemetry

import (
	"context"
	"errors"
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Redis returns what makes spans of the commands to the server at address, a
// host:port or a socket, "" for more than one: of their names and the codes of their errors, never of keys or values.
func (t *Traces) Redis(address string) redis.Hook {
	about := []attribute.KeyValue{semconv.DBSystemNameRedis}
	host, port, err := net.SplitHostPort(address)
	switch number, _ := strconv.Atoi(port); {
	case err == nil:
		about = append(about, semconv.ServerAddress(host), semconv.ServerPort(number))
	case address != "": // a unix socket
		about = append(about, semconv.ServerAddress(address))
	}
	return &redisHook{Traces: t, about: trace.WithAttributes(about...)}
}

type redisHook struct {
	*Traces
	about trace.SpanStartEventOption
}

// DialHook implements redis.Hook.
func (h *redisHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h *redisHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !trace.SpanFromContext(ctx).IsRecording() {
			return next(ctx, cmd)
		}
		ctx, span := h.start(ctx, strings.ToUpper(cmd.Name()), trace.WithSpanKind(trace.SpanKindClient), h.about)
		err := next(ctx, cmd)
		answered(span, err)
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h *redisHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !trace.SpanFromContext(ctx).IsRecording() {
			return next(ctx, cmds)
		}
		name := "PIPELINE"
		if len(cmds) > 0 && cmds[0].Name() == "multi" {
			name = "MULTI"
		}
		ctx, span := h.start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), h.about,
			trace.WithAttributes(semconv.DBOperationBatchSize(len(cmds))))
		err := next(ctx, cmds)
		answered(span, err)
		return err
	}
}

var redisCode = regexp.MustCompile(`^[A-Z]+\b`)

// answered ends the span of a call that ended with err. A script that the server
// does not know yet is sent next.
func answered(span trace.Span, err error) {
	defer span.End()
	var said redis.Error
	var timeout net.Error
	trouble := "connection"
	switch {
	case err == nil, errors.Is(err, redis.Nil), redis.HasErrorPrefix(err, "NOSCRIPT"):
		return
	case errors.As(err, &said):
		trouble = redisCode.FindString(said.Error())
		span.SetAttributes(semconv.DBResponseStatusCode(trouble))
	case errors.Is(err, context.Canceled):
		trouble = "canceled"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		trouble = "timeout"
	}
	span.SetAttributes(semconv.ErrorTypeKey.String(trouble))
	span.SetStatus(codes.Error, "")
}
