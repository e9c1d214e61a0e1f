package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// keepPause is how long Retain waits between two rounds.
const keepPause = time.Hour

// Keep makes the partitions that the next records go to, and drops those whose
// records have had their time. Safe to repeat and to run in several gateways.
func (w *Writer) Keep() error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	var dropped int
	if err := w.db.QueryRow(ctx, `SELECT fencegate.keep_refusals($1)`, time.Duration(w.keep.Load())).Scan(&dropped); err != nil {
		return fmt.Errorf("keeping the partitions of the refusals: %w", err)
	}
	return nil
}

// Retain calls Keep now and then until ctx ends, and returns nil.
func (w *Writer) Retain(ctx context.Context, log *slog.Logger) error {
	for {
		select {
		case <-time.After(keepPause):
		case <-ctx.Done():
			return nil
		}
		if err := w.Keep(); err != nil {
			log.Warn("old refusals could not be dropped, or room made for new ones", "error", err)
		}
	}
}

// noPartition reports whether there was no room for the record's week: nobody
// called Keep for as long.
func noPartition(err error) bool {
	var rejected *pgconn.PgError
	return errors.As(err, &rejected) && rejected.Code == "23514" && rejected.ConstraintName == ""
}
