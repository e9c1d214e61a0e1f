// Package pglock keeps leases in the protected database itself, in the table
// fencegate.leases, for gateways that run without Redis. The database's clock
// alone tells when a lease ends; a call is one statement, also through a pooler
// that lends its connections out for a transaction at a time.
//
// Not promised: that a lease outlives a crash or a promotion of the database. The
// table is UNLOGGED, so both end all leases at once.
package pglock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient"
	"github.com/fencegate/fencegate/internal/pooled"
)

// Store keeps leases in one database. It implements lockclient.Store.
type Store struct {
	db pooled.Querier
}

var _ lockclient.Store = (*Store)(nil)

// New returns a store in the database behind db, whose connections bound what a
// statement may take.
func New(db pooled.Querier) *Store { return &Store{db: db} }

// Take implements lockclient.Store.
func (s *Store) Take(ctx context.Context, key lease.Key, holder lease.Holder, ttl time.Duration) (bool, lockclient.Reading, error) {
	var taken bool
	var current string
	var remaining int64
	err := s.db.QueryRow(ctx,
		`SELECT taken, holder, remaining_ms FROM fencegate.take_lease($1, $2, $3)`,
		key, holder.Wire(), ttl.Milliseconds(),
	).Scan(&taken, &current, &remaining)
	if err != nil {
		return false, lockclient.Reading{}, unavailable("taking", key, err)
	}
	r, err := reading(current, remaining)
	if err != nil {
		return false, lockclient.Reading{}, unavailable("taking", key, err)
	}
	return taken, r, nil
}

// Read implements lockclient.Store.
func (s *Store) Read(ctx context.Context, keys ...lease.Key) ([]lockclient.Reading, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	// The clock is read once: for every key it is the same moment.
	const query = `
		WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS now)
		SELECT coalesce(l.holder, ''), coalesce(fencegate.lease_left(l.ends_at, moment.now), 0)
		  FROM moment, unnest($1::text[]) WITH ORDINALITY AS asked (lock_key, place)
		  LEFT JOIN fencegate.leases AS l ON l.lock_key = asked.lock_key
		 ORDER BY asked.place`
	names := make([]string, len(keys)) // a pooler's connections are told no types
	for i, key := range keys {
		names[i] = string(key)
	}
	rows, _ := s.db.Query(ctx, query, names)
	readings, err := pgx.CollectRows(rows, scanReading)
	if err == nil && len(readings) != len(keys) {
		err = fmt.Errorf("%d answers to %d keys", len(readings), len(keys))
	}
	if err != nil {
		return nil, unavailable("reading", keys[0], err)
	}
	return readings, nil
}

func scanReading(row pgx.CollectableRow) (lockclient.Reading, error) {
	var holder string
	var remaining int64
	if err := row.Scan(&holder, &remaining); err != nil {
		return lockclient.Reading{}, err
	}
	return reading(holder, remaining)
}

// Extend implements lockclient.Store.
func (s *Store) Extend(ctx context.Context, key lease.Key, holder lease.Holder, ttl time.Duration) (bool, error) {
	const query = `
		UPDATE fencegate.leases
		   SET ends_at = clock_timestamp() + $3::bigint * interval '1 ms'
		 WHERE lock_key = $1
		   AND holder = $2
		   AND ends_at > clock_timestamp()
		RETURNING true`
	return s.did(ctx, "extending", key, query, key, holder.Wire(), ttl.Milliseconds())
}

// Drop implements lockclient.Store.
func (s *Store) Drop(ctx context.Context, key lease.Key, holder lease.Holder) (bool, error) {
	const query = `
		DELETE FROM fencegate.leases
		 WHERE lock_key = $1
		   AND holder = $2
		RETURNING ends_at > clock_timestamp()`
	return s.did(ctx, "dropping", key, query, key, holder.Wire())
}

// did runs a statement that answers a row if there was a lease.
func (s *Store) did(ctx context.Context, act string, key lease.Key, query string, args ...any) (did bool, err error) {
	err = s.db.QueryRow(ctx, query, args...).Scan(&did)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, unavailable(act, key, err)
	}
	return did, nil
}

func reading(holder string, remainingMS int64) (lockclient.Reading, error) {
	if remainingMS <= 0 {
		return lockclient.Reading{}, nil
	}
	parsed, err := lease.ParseHolder(holder)
	if err != nil {
		return lockclient.Reading{}, fmt.Errorf("its holder is not one a gateway wrote: %w", err)
	}
	return lockclient.Reading{Holder: parsed, Remaining: time.Duration(remainingMS) * time.Millisecond}, nil
}

func unavailable(act string, key lease.Key, err error) error {
	return fmt.Errorf("%s the lease of %q: %w: %w", act, key, lockclient.ErrUnavailable, err)
}
