package fence

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/lease"
)

// ErrKeyReused says that an idempotency key stands for another acquire.
var ErrKeyReused = errors.New("the idempotency key was used for another request")

// Once names an acquire, so that one whose answer was lost is answered alike
// when it is sent again. The zero value names nothing.
type Once struct {
	Principal   string
	Key         string
	Fingerprint string        // tells the request from another one under the same key
	Keep        time.Duration // how long it is remembered
}

// Remember keeps what once was granted. A later grant under the same key takes
// the place of an earlier one, whose lease must have run out meanwhile; the
// earlier one, if it comes last, gets ErrLostRace.
func (m *Marks) Remember(ctx context.Context, once Once, claims []lease.Claim) error {
	const query = `
		INSERT INTO fencegate.acquired AS a
		       (principal, idempotency_key, fingerprint, lock_keys, holders, tokens, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp() + $7)
		ON CONFLICT (principal, idempotency_key) DO UPDATE
		   SET fingerprint = excluded.fingerprint, lock_keys = excluded.lock_keys, holders = excluded.holders,
		       tokens = excluded.tokens, expires_at = excluded.expires_at
		 WHERE a.fingerprint = excluded.fingerprint AND a.tokens < excluded.tokens
		    OR a.expires_at <= clock_timestamp()
		RETURNING 1`
	keys, holders, tokens := columns(claims)
	var kept int
	err := m.db.QueryRow(ctx, query, once.Principal, once.Key, once.Fingerprint, keys, holders, tokens, once.Keep).Scan(&kept)
	if errors.Is(err, pgx.ErrNoRows) {
		_, err := m.Recall(ctx, once)
		return cmp.Or(err, ErrLostRace)
	}
	return wall("remembering the grant", claims[0].Key, err)
}

// Recall returns what once was granted, in byte order of the keys; nothing if it
// was not, or is no longer remembered. Whether it is still worth anything is
// another question.
func (m *Marks) Recall(ctx context.Context, once Once) ([]lease.Claim, error) {
	const query = `
		SELECT fingerprint, lock_keys, holders, tokens
		  FROM fencegate.acquired
		 WHERE principal = $1
		   AND idempotency_key = $2
		   AND expires_at > clock_timestamp()`
	var fingerprint string
	var keys, holders []string
	var tokens []int64
	err := m.db.QueryRow(ctx, query, once.Principal, once.Key).Scan(&fingerprint, &keys, &holders, &tokens)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, wall("recalling a grant", "", err)
	case fingerprint != once.Fingerprint:
		return nil, ErrKeyReused
	}
	claims := make([]lease.Claim, len(keys))
	for i := range keys {
		claims[i] = lease.Claim{Key: lease.Key(keys[i]), Token: lease.Token(tokens[i])}
		if claims[i].Holder, err = lease.ParseHolder(holders[i]); err != nil {
			return nil, wall("recalling a grant", claims[i].Key, err)
		}
	}
	return claims, nil
}

// Unremember takes Remember back, for a grant that could not be answered.
func (m *Marks) Unremember(ctx context.Context, once Once, claims []lease.Claim) error {
	const query = `
		DELETE FROM fencegate.acquired
		 WHERE principal = $1
		   AND idempotency_key = $2
		   AND tokens = $3`
	_, _, tokens := columns(claims)
	rows, _ := m.db.Query(ctx, query, once.Principal, once.Key, tokens)
	rows.Close()
	return wall("forgetting the grant", claims[0].Key, rows.Err())
}

// Forget deletes up to limit remembered grants whose time is over.
func (m *Marks) Forget(ctx context.Context, limit int) (deleted int64, err error) {
	const query = `
		DELETE FROM fencegate.acquired
		 WHERE (principal, idempotency_key) IN (
		       SELECT principal, idempotency_key
		         FROM fencegate.acquired
		        WHERE expires_at <= clock_timestamp()
		        ORDER BY expires_at
		        LIMIT $1
		          FOR UPDATE SKIP LOCKED)`
	rows, _ := m.db.Query(ctx, query, limit)
	rows.Close()
	return rows.CommandTag().RowsAffected(), wall("forgetting grants", "", rows.Err())
}

// columns are the claims as PostgreSQL takes them.
func columns(claims []lease.Claim) (keys, holders []string, tokens []int64) {
	keys, holders, tokens = []string{}, []string{}, []int64{} // nil would be NULL
	for _, claim := range claims {
		keys = append(keys, string(claim.Key))
		holders = append(holders, claim.Holder.Wire())
		tokens = append(tokens, int64(claim.Token))
	}
	return keys, holders, tokens
}
