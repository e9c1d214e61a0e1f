package telemetry

import (
	"context"
	"log/slog"
	"sync/atomic"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// outbox is where ended spans wait to be sent. The SDK's own processor drops what
// is too much without telling how much that was, so that here nothing gets there
// for which it has no room.
type outbox struct {
	sdk.SpanProcessor
	waiting          atomic.Int64
	sent, full, lost atomic.Int64
}

func newOutbox(exporter sdk.SpanExporter, cfg TracesConfig) *outbox {
	box := &outbox{}
	box.SpanProcessor = sdk.NewBatchSpanProcessor(&counted{SpanExporter: exporter, box: box, log: cfg.Log},
		sdk.WithMaxQueueSize(mostWaiting), sdk.WithMaxExportBatchSize(mostAtOnce),
		sdk.WithBatchTimeout(sendAfter), sdk.WithExportTimeout(cfg.Timeout))
	return box
}

// OnEnd implements sdk.SpanProcessor, and does not block.
func (b *outbox) OnEnd(s sdk.ReadOnlySpan) {
	if b.waiting.Add(1) > mostWaiting {
		b.waiting.Add(-1)
		b.full.Add(1)
		return
	}
	b.SpanProcessor.OnEnd(s)
}

// counted is an exporter whose batches are counted. They come one after the other.
type counted struct {
	sdk.SpanExporter
	box     *outbox
	log     *slog.Logger
	failing bool
}

// ExportSpans implements sdk.SpanExporter. An error goes no further: the SDK would
// print each one past the log.
func (c *counted) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := c.SpanExporter.ExportSpans(ctx, spans)
	c.box.waiting.Add(-int64(len(spans)))
	switch {
	case err != nil:
		c.box.lost.Add(int64(len(spans)))
		if !c.failing {
			c.log.Warn("traces can't be sent, and are dropped until they can", "error", err)
		}
	default:
		c.box.sent.Add(int64(len(spans)))
		if c.failing {
			c.log.Info("traces can be sent again")
		}
	}
	c.failing = err != nil
	return nil
}
