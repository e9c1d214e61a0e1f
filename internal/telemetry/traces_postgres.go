package telemetry

import (
	"cmp"
	"context"
	"errors"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Postgres returns what makes spans of the statements on connections of c: of their
// names and codes, never of their text, their arguments or the database's words.
func (t *Traces) Postgres(c *pgx.ConnConfig) pgx.QueryTracer {
	return &postgres{Traces: t, about: trace.WithAttributes(semconv.DBSystemNamePostgreSQL,
		semconv.DBNamespace(c.Database), semconv.ServerAddress(c.Host), semconv.ServerPort(int(c.Port)))}
}

type postgres struct {
	*Traces
	about trace.SpanStartEventOption
}

var (
	_ pgx.BatchTracer       = (*postgres)(nil)
	_ pgxpool.AcquireTracer = (*postgres)(nil)
)

var (
	ownName = regexp.MustCompile(`(?:^SELECT|FROM|INTO|UPDATE)\s+(fencegate\.[a-z_]+)`)
	ownCall = regexp.MustCompile(`^SELECT (fencegate\.[a-z_]+|set_config)\(`)
	change  = regexp.MustCompile(`^WITH w AS \(\s*(INSERT|UPDATE|DELETE)\b`)
)

// nameOf names one of the gateway's own statements by the function or table of its
// schema that it is about.
func nameOf(sql string) string {
	if found := ownName.FindStringSubmatch(sql); found != nil {
		return found[1]
	}
	return "SELECT"
}

// partOf names a statement beside which others are made for the request: those are
// told by their beginning alone, which no text of a caller can be part of.
func partOf(sql string) string {
	for _, known := range []*regexp.Regexp{ownCall, change} {
		if found := known.FindStringSubmatch(sql); found != nil {
			return found[1]
		}
	}
	return "statement"
}

// TraceQueryStart implements pgx.QueryTracer.
func (p *postgres) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx
	}
	ctx, _ = p.start(ctx, nameOf(data.SQL), trace.WithSpanKind(trace.SpanKindClient), p.about)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (p *postgres) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	ended(trace.SpanFromContext(ctx), data.Err)
}

// TraceBatchStart implements pgx.BatchTracer.
func (p *postgres) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx
	}
	queued := data.Batch.QueuedQueries
	about := []attribute.KeyValue{semconv.DBOperationBatchSize(len(queued))}
	name := nameOf(queued[len(queued)-1].SQL)
	if a, ok := ctx.Value(aimKey{}).(aim); ok {
		name, about = a.String(), append(about, a.attributes()...)
	}
	ctx, _ = p.start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), p.about, trace.WithAttributes(about...))
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer: each answer is an event.
func (p *postgres) TraceBatchQuery(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	var about []attribute.KeyValue
	if state, _ := troubleOf(data.Err); state != "" {
		about = append(about, semconv.DBResponseStatusCode(state))
	}
	span.AddEvent(partOf(data.SQL), trace.WithAttributes(about...))
}

// TraceBatchEnd implements pgx.BatchTracer.
func (p *postgres) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchEndData) {
	ended(trace.SpanFromContext(ctx), data.Err)
}

// acquiring is since when a connection is waited for.
type acquiring struct{}

// TraceAcquireStart implements pgxpool.AcquireTracer.
func (p *postgres) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx
	}
	return context.WithValue(ctx, acquiring{}, time.Now())
}

// TraceAcquireEnd implements pgxpool.AcquireTracer.
func (p *postgres) TraceAcquireEnd(ctx context.Context, _ *pgxpool.Pool, data pgxpool.TraceAcquireEndData) {
	if began, ok := ctx.Value(acquiring{}).(time.Time); ok {
		p.waited(ctx, "wait for connection", began, data.Err != nil)
	}
}

// ended ends the span of a call that ended with err.
func ended(span trace.Span, err error) {
	if !span.IsRecording() {
		return
	}
	state, trouble := troubleOf(err)
	if state != "" {
		span.SetAttributes(semconv.DBResponseStatusCode(state))
	}
	if trouble != "" {
		span.SetAttributes(semconv.ErrorTypeKey.String(trouble))
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// troubleOf returns the code that a server answered, and what the trouble is if the
// error is more than an answer about the request.
func troubleOf(err error) (state, trouble string) {
	var pg *pgconn.PgError
	var timeout net.Error
	switch {
	case err == nil, errors.Is(err, pgx.ErrNoRows):
		return "", ""
	case errors.As(err, &pg):
		if pg.SeverityUnlocalized != "ERROR" || serverTrouble(pg.Code) {
			trouble = pg.Code
		}
		return pg.Code, trouble
	case errors.Is(err, context.Canceled):
		return "", "canceled"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "", "timeout"
	}
	return "", "connection"
}

// serverTrouble tells the classes of SQLSTATE that are about the server: a conflict
// of transactions, resources, locks, shutting down, its disk, itself.
func serverTrouble(state string) bool {
	return strings.Contains("08 40 53 55 57 58 XX", cmp.Or(state, "XX")[:2])
}
