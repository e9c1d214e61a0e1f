package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/lease"
)

// Grant is one event in the history of a lock key's grants.
type Grant struct {
	ID           int64
	Event        string // granted, released, revoked
	Key          lease.Key
	Token        lease.Token
	HolderDigest string
	Client       string
	Principal    string // who was granted it, released it or revoked it
	Reason       string // of a revocation
	OccurredAt   time.Time
}

const grantColumns = `id, event, lock_key, token, holder_digest, client, principal, coalesce(reason, ''),
	(extract(epoch FROM occurred_at) * 1000000)::bigint`

// Grants returns up to limit events of key, newest first; with before only those
// of a smaller id.
func (r *Reader) Grants(ctx context.Context, key lease.Key, before int64, limit int) ([]Grant, error) {
	const query = `
		SELECT ` + grantColumns + `
		  FROM fencegate.grants
		 WHERE lock_key = $1
		   AND (id < $2 OR $2 = 0)
		 ORDER BY id DESC
		 LIMIT $3`
	return r.grants(ctx, query, key, before, limit)
}

// historyLimit bounds History.
const historyLimit = 100

// History returns what became of key's grants from that of token on, oldest
// first, at most 100 events.
func (r *Reader) History(ctx context.Context, key lease.Key, token lease.Token) ([]Grant, error) {
	const query = `
		SELECT ` + grantColumns + `
		  FROM fencegate.grants
		 WHERE lock_key = $1
		   AND token >= $2
		 ORDER BY lock_key, token, id
		 LIMIT $3`
	return r.grants(ctx, query, key, token, historyLimit)
}

func (r *Reader) grants(ctx context.Context, query string, args ...any) ([]Grant, error) {
	rows, _ := r.db.Query(ctx, query, args...)
	grants, err := pgx.CollectRows(rows, scanGrant)
	if err != nil {
		return nil, fmt.Errorf("reading the history of grants: %w", err)
	}
	return grants, nil
}

func scanGrant(row pgx.CollectableRow) (Grant, error) {
	var g Grant
	var occurred int64
	err := row.Scan(&g.ID, &g.Event, &g.Key, &g.Token, &g.HolderDigest, &g.Client, &g.Principal, &g.Reason, &occurred)
	g.OccurredAt = time.UnixMicro(occurred)
	return g, err
}
