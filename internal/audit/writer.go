package audit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/pooled"
)

// maxGroup bounds the records that share one INSERT.
const maxGroup = 256

// writeTimeout bounds one INSERT. It is longer than the statement_timeout that is
// usual, whose error proves that nothing was recorded, and shorter than the wait
// of the refusal that it is for.
const writeTimeout = 6 * time.Second

// ErrNotRunning says that the writer has stopped and took nothing.
var ErrNotRunning = errors.New("the audit writer is not running")

// Writer records refusals. Concurrent ones share an INSERT: while one is on its
// way the next group gathers, without any lingering.
type Writer struct {
	db       pooled.Querier
	instance string
	keep     atomic.Int64 // a time.Duration
	queue    chan pending
	stopped  chan struct{}
}

type pending struct {
	record Record
	answer chan<- answer
}

type answer struct {
	id  int64
	err error
}

// NewWriter returns a writer that records as instance and keeps records at least
// for keep, a day or more. Run must be running for Record to work.
func NewWriter(db pooled.Querier, instance string, keep time.Duration) *Writer {
	w := &Writer{
		db:       db,
		instance: instance,
		queue:    make(chan pending, maxGroup),
		stopped:  make(chan struct{}),
	}
	w.KeepFor(keep)
	return w
}

// KeepFor changes how long records are kept at least, from the next round on.
func (w *Writer) KeepFor(keep time.Duration) { w.keep.Store(int64(keep)) }

// Record returns the record's id once it is committed. A cancelled ctx only
// ends the waiting: the record may still be written.
func (w *Writer) Record(ctx context.Context, r Record) (int64, error) {
	reply := make(chan answer, 1)
	select {
	case w.queue <- pending{record: r, answer: reply}:
	case <-w.stopped:
		return 0, ErrNotRunning
	case <-ctx.Done():
		return 0, fmt.Errorf("queueing the record: %w", ctx.Err())
	}
	select {
	case a := <-reply:
		return a.id, a.err
	case <-w.stopped:
		return 0, ErrNotRunning
	case <-ctx.Done():
		return 0, fmt.Errorf("waiting for the record: %w", ctx.Err())
	}
}

// Run writes until ctx ends, then what is already queued, and returns nil.
func (w *Writer) Run(ctx context.Context) error {
	defer close(w.stopped)
	for {
		select {
		case first := <-w.queue:
			w.write(w.gather(first))
		case <-ctx.Done():
			w.drain()
			return nil
		}
	}
}

func (w *Writer) drain() {
	for {
		select {
		case first := <-w.queue:
			w.write(w.gather(first))
		default:
			return
		}
	}
}

func (w *Writer) gather(first pending) []pending {
	group := []pending{first}
	for len(group) < maxGroup {
		select {
		case next := <-w.queue:
			group = append(group, next)
		default:
			return group
		}
	}
	return group
}

// write commits the group. One record that the database won't take must not
// cost the others theirs, so a group that it rejected is tried again one by one;
// never one that it may have taken, which would be recorded twice.
func (w *Writer) write(group []pending) {
	ids, err := w.insert(group)
	if noPartition(err) && w.Keep() == nil {
		ids, err = w.insert(group)
	}
	if len(group) > 1 && leftNothing(err) {
		for i := range group {
			w.write(group[i : i+1])
		}
		return
	}
	for i, p := range group {
		if err != nil {
			p.answer <- answer{err: fmt.Errorf("recording the refusal: %w", err)}
			continue
		}
		p.answer <- answer{id: ids[i]}
	}
}

// leftNothing reports whether err proves that nothing was committed.
func leftNothing(err error) bool {
	var rejected *pgconn.PgError
	return errors.As(err, &rejected) && rejected.SeverityUnlocalized == "ERROR" || pgconn.SafeToRetry(err)
}

// insert keeps the group's order. The client's name comes from the grant of the
// presented token, since a late writer does not say who it is.
func (w *Writer) insert(group []pending) ([]int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	const query = `
		INSERT INTO fencegate.refusals (code, disposition, operation, table_name, lock_key,
		       presented_token, mark_token, holder_digest, principal, request_id, remote_address,
		       payload_sha256, idempotency_key, payload, instance, client)
		SELECT r.code, r.disposition, r.operation, nullif(r.table_name, ''), r.lock_key,
		       r.presented_token, nullif(r.mark_token, 0), r.holder_digest, r.principal, r.request_id,
		       r.remote_address, nullif(r.payload_sha256, ''), nullif(r.idempotency_key, ''), nullif(r.payload, '')::json, $15,
		       (SELECT nullif(g.client, '') FROM fencegate.grants AS g
		         WHERE g.lock_key = r.lock_key AND g.token = r.presented_token AND g.event = 'granted')
		  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[],
		              $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[])
		       WITH ORDINALITY
		    AS r(code, disposition, operation, table_name, lock_key, presented_token, mark_token,
		         holder_digest, principal, request_id, remote_address, payload_sha256, idempotency_key, payload, position)
		 ORDER BY r.position
		RETURNING id`
	rows, err := w.db.Query(ctx, query, w.columns(group)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// Instance is what the writer records as.
func (w *Writer) Instance() string { return w.instance }

// digestOf is "" for a write that named no holder.
func digestOf(h lease.Holder) string {
	if h == "" {
		return ""
	}
	return h.Digest()
}

func (w *Writer) columns(group []pending) []any {
	text := func(get func(Record) string) []string {
		column := make([]string, len(group))
		for i, p := range group {
			column[i] = get(p.record)
		}
		return column
	}
	number := func(get func(Record) int64) []int64 {
		column := make([]int64, len(group))
		for i, p := range group {
			column[i] = get(p.record)
		}
		return column
	}
	return []any{
		text(func(r Record) string { return r.Code }),
		text(func(r Record) string { return string(r.Disposition) }),
		text(func(r Record) string { return r.Operation }),
		text(func(r Record) string { return r.Table }),
		text(func(r Record) string { return string(r.Claim.Key) }),
		number(func(r Record) int64 { return int64(r.Claim.Token) }),
		number(func(r Record) int64 { return int64(r.Mark) }),
		text(func(r Record) string { return digestOf(r.Claim.Holder) }),
		text(func(r Record) string { return r.Origin.Principal }),
		text(func(r Record) string { return r.Origin.RequestID }),
		text(func(r Record) string { return r.Origin.RemoteAddress }),
		text(func(r Record) string { return r.Origin.PayloadSHA256 }),
		text(func(r Record) string { return r.Origin.IdempotencyKey }),
		text(func(r Record) string { return r.Payload }),
		w.instance,
	}
}
