package audit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/pooled"
)

// Filter narrows List. Zero values don't narrow.
type Filter struct {
	Disposition Disposition
	Key         lease.Key
	Code        string
	Table       string
	Principal   string
	Since       time.Time
	Until       time.Time
	Before      Place // only records before it: the page after
	After       Place // only records after it, oldest first
}

// Place returns where the record stands.
func (r Record) Place() Place { return Place{OccurredAt: r.OccurredAt, ID: r.ID} }

// Place is where a record stands: records are ordered by time, and by id where
// times are equal. The zero value is no place.
type Place struct {
	OccurredAt time.Time // to the microsecond
	ID         int64
}

// Reader reads records.
type Reader struct {
	db pooled.Querier
}

// NewReader returns a reader of the records in the database behind db.
func NewReader(db pooled.Querier) *Reader { return &Reader{db: db} }

// Times come as microseconds: how one looks as text depends on the session.
const columns = `id, (extract(epoch FROM occurred_at) * 1000000)::bigint, code, disposition, operation, coalesce(table_name, ''), lock_key,
	presented_token, coalesce(mark_token, 0), holder_digest, coalesce(client, ''), principal, request_id,
	remote_address, coalesce(payload_sha256, ''), coalesce(idempotency_key, ''), instance`

// List returns up to limit records, newest first unless f says otherwise.
func (r *Reader) List(ctx context.Context, f Filter, limit int) ([]Record, error) {
	where, args := f.where()
	direction := "DESC"
	if f.After != (Place{}) {
		direction = "ASC"
	}
	args = append(args, limit)
	query := `SELECT ` + columns + ` FROM fencegate.refusals` + where +
		fmt.Sprintf("\n ORDER BY occurred_at %[1]s, id %[1]s\n LIMIT $%[2]d", direction, len(args))
	rows, _ := r.db.Query(ctx, query, args...)
	records, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("listing refusals: %w", err)
	}
	return records, nil
}

// where returns the condition that f makes, and its arguments.
func (f Filter) where() (condition string, args []any) {
	condition = ` WHERE true`
	narrow := func(one string, value any) {
		args = append(args, value)
		condition += fmt.Sprintf("\n   AND "+one, len(args))
	}
	if f.Disposition != "" {
		narrow("disposition = $%d", string(f.Disposition))
	}
	if f.Key != "" {
		narrow("lock_key = $%d", f.Key)
	}
	if f.Code != "" {
		narrow("code = $%d", f.Code)
	}
	if f.Table != "" {
		narrow("table_name = $%d", f.Table)
	}
	if f.Principal != "" {
		narrow("principal = $%d", f.Principal)
	}
	if !f.Since.IsZero() {
		narrow("occurred_at >= $%d", f.Since)
	}
	if !f.Until.IsZero() {
		narrow("occurred_at < $%d", f.Until)
	}
	if f.Before != (Place{}) {
		narrow("(occurred_at, id) < ($%d, "+strconv.FormatInt(f.Before.ID, 10)+")", f.Before.OccurredAt)
	}
	if f.After != (Place{}) {
		narrow("(occurred_at, id) > ($%d, "+strconv.FormatInt(f.After.ID, 10)+")", f.After.OccurredAt)
	}
	return condition, args
}

// ErrNotFound says that there is no such record.
var ErrNotFound = errors.New("no such record")

// Get returns one record, or ErrNotFound.
func (r *Reader) Get(ctx context.Context, id int64) (Record, error) {
	rows, _ := r.db.Query(ctx, `SELECT `+columns+`, coalesce(payload::text, '') FROM fencegate.refusals WHERE id = $1`, id)
	record, err := pgx.CollectExactlyOneRow(rows, scanWhole)
	if errors.Is(err, pgx.ErrNoRows) {
		return record, ErrNotFound
	}
	if err != nil {
		return record, fmt.Errorf("reading refusal %d: %w", id, err)
	}
	return record, nil
}

func scan(row pgx.CollectableRow) (Record, error) { return scanInto(row) }

func scanWhole(row pgx.CollectableRow) (r Record, err error) {
	var payload string
	r, err = scanInto(row, &payload)
	r.Payload = payload
	return r, err
}

// scanInto reads columns, and what comes after them into more.
func scanInto(row pgx.CollectableRow, more ...any) (Record, error) {
	var r Record
	var occurred int64
	err := row.Scan(append([]any{&r.ID, &occurred, &r.Code, &r.Disposition, &r.Operation, &r.Table, &r.Claim.Key,
		&r.Claim.Token, &r.Mark, &r.HolderDigest, &r.Client, &r.Origin.Principal, &r.Origin.RequestID,
		&r.Origin.RemoteAddress, &r.Origin.PayloadSHA256, &r.Origin.IdempotencyKey, &r.Instance}, more...)...)
	r.OccurredAt = time.UnixMicro(occurred)
	return r, err
}
