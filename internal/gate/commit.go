package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/statement"
)

// The private SQLSTATE of fencegate.end_trial.
const stateTrialEnded = "FG009"

// commit sends the claim of the idempotency key, the fence and the data as one
// batch without BEGIN: PostgreSQL makes it one transaction, in one round trip,
// committed by the final Sync. Each piece of data is a statement of its own, so
// that its snapshot is taken after the marks are locked.
func (g *Gate) commit(ctx context.Context, w Write, plan []piece, replan bool) ([]Rows, error) {
	var batch pgx.Batch
	g.begin(&batch, replan, fence.Meeting)
	g.claimAnswer(&batch, w)
	fence.Admit(&batch, w.Claims)
	w.Settings.apply(&batch)
	for _, s := range plan {
		queue(&batch, s.Statement)
	}
	if w.Trial {
		batch.Queue(`SELECT fencegate.end_trial()`)
	}
	parts := make([]Rows, len(w.Mutations))
	texts := make([][]string, len(w.Mutations))
	err := send(ctx, g.Writes, &batch, func(results pgx.BatchResults) error {
		if err := g.begun(results, replan); err != nil {
			return err
		}
		if err := g.passed(results, w); err != nil {
			return err
		}
		for _, s := range plan {
			text, err := parts[s.part].add(results)
			if err != nil {
				return w.at(s.part, err)
			}
			texts[s.part] = append(texts[s.part], text...)
		}
		return nil
	})
	for i := range parts {
		parts[i].JSON = strings.Join(texts[i], ",")
	}
	if w.Trial {
		err = trialEnded(err)
	}
	return parts, err
}

// passed reads the answers to what comes before the data.
func (g *Gate) passed(results pgx.BatchResults, w Write) error {
	if err := claimed(results, w); err != nil {
		return err
	}
	if err := fence.Admitted(results, w.Claims); err != nil {
		return err
	}
	return w.Settings.applied(results)
}

// trialEnded: a trial that took itself back is what was asked for, and one that
// was not heard of again has done so too.
func trialEnded(err error) error {
	var db *DatabaseError
	switch {
	case errors.As(err, &db) && db.SQLState == stateTrialEnded:
		return nil
	case errors.Is(err, ErrOutcomeUnknown):
		return fmt.Errorf("%w: %v", ErrDatabaseUnavailable, err)
	}
	return err
}

func (s Settings) apply(batch *pgx.Batch) {
	if s.TimeZone != "" {
		batch.Queue(`SELECT set_config('TimeZone', $1, true)`, s.TimeZone)
	}
}

func (s Settings) applied(results pgx.BatchResults) error {
	if s.TimeZone == "" {
		return nil
	}
	_, err := results.Exec()
	return err
}

func queue(batch *pgx.Batch, s statement.Statement) { batch.Queue(s.SQL, s.Args...) }

// send runs one batch as one transaction and lets read take its answers. The
// caller's going away does not stop it half-way.
func send(ctx context.Context, pool *pgxpool.Pool, batch *pgx.Batch, read func(pgx.BatchResults) error) error {
	ctx, cancel := undisturbed(ctx)
	defer cancel()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return classify(reaching, err)
	}
	defer conn.Release()
	results := conn.SendBatch(ctx, batch)
	if err := read(results); err != nil {
		results.Close()
		return classify(executing, err)
	}
	return classify(committing, results.Close())
}

// add reads the answer of one statement; text is its objects, if there are any.
func (r *Rows) add(results pgx.BatchResults) (text []string, err error) {
	var affected int64
	var json, etag *string
	if err := results.QueryRow().Scan(&affected, &json, &r.Total, &etag); err != nil {
		return nil, err
	}
	r.Affected += affected
	if etag != nil {
		r.ETag = *etag
	}
	if json == nil {
		return nil, nil
	}
	return []string{*json}, nil
}

// undisturbed keeps the deadline of ctx and drops its cancellation: cancelling
// a statement in flight closes the connection and leaves the outcome unknown.
func undisturbed(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(defaultDeadline)
	}
	return context.WithDeadline(context.WithoutCancel(ctx), deadline)
}

// defaultDeadline bounds a batch whose caller set no deadline.
const defaultDeadline = 30 * time.Second

// Read runs one query in a READ ONLY transaction. Reading needs no lock.
func (g *Gate) Read(ctx context.Context, p auth.Principal, q statement.Query, settings Settings) (rows Rows, err error) {
	if err := auth.Allow(p, q.Table, "select"); err != nil {
		return Rows{}, err
	}
	s, err := statement.BuildQuery(q)
	if err != nil {
		return Rows{}, err
	}
	rows, err = retried(ctx, g.Reads, func(ctx context.Context, replan bool) (Rows, error) {
		return g.read(ctx, s, settings, replan)
	})
	if err != nil {
		return Rows{}, fmt.Errorf("reading %s: %w", q.Table.QualifiedName(), err)
	}
	return rows, nil
}

func (g *Gate) read(ctx context.Context, s statement.Statement, settings Settings, replan bool) (rows Rows, err error) {
	var batch pgx.Batch
	g.begin(&batch, replan, fence.Asking)
	batch.Queue(`SELECT set_config('transaction_read_only', 'on', true)`)
	settings.apply(&batch)
	queue(&batch, s)
	err = send(ctx, g.Reads, &batch, func(results pgx.BatchResults) error {
		if err := g.begun(results, replan); err != nil {
			return err
		}
		if _, err := results.Exec(); err != nil {
			return err
		}
		if err := settings.applied(results); err != nil {
			return err
		}
		text, err := rows.add(results)
		rows.JSON = strings.Join(text, "")
		return err
	})
	return rows, err
}
