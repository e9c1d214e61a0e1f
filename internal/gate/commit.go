package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/statement"
)

// The private SQLSTATEs of fencegate.end_trial and fencegate.check_row_token.
const (
	stateTrialEnded = "FG009"
	stateRowFenced  = "FG010"
)

// commit sends the claim of the idempotency key, the fence and the data as one
// batch without BEGIN: PostgreSQL makes it one transaction, in one round trip,
// committed by the final Sync. Each piece of data is a statement of its own, so
// that its snapshot is taken after the marks are locked.
func (g *Gate) commit(ctx context.Context, w Write, plan []piece, replan bool) ([]Rows, error) {
	var batch pgx.Batch
	g.begin(&batch, replan, fence.Meeting)
	g.claimAnswer(&batch, w)
	w.admit(&batch)
	w.Settings.apply(&batch)
	become(&batch, w.Principal)
	for _, s := range plan {
		queue(&batch, s.Statement)
	}
	g.recordAdmitted(&batch, w)
	g.wash(&batch, w.calls())
	if w.Trial {
		batch.Queue(`SELECT fencegate.end_trial()`)
	}
	parts := make([]Rows, len(w.Mutations))
	texts := make([][]string, len(w.Mutations))
	seen := false
	err := g.send(ctx, g.Writes, &batch, w.calls(), func(results pgx.BatchResults) error {
		if err := g.begun(results, replan); err != nil {
			return err
		}
		if err := g.passed(results, w); err != nil {
			return err
		}
		for _, s := range plan {
			text, err := parts[s.part].add(results)
			if err != nil {
				return w.at(s.part, rowRefused(w.Claims, err))
			}
			texts[s.part] = append(texts[s.part], text...)
		}
		seen = true
		return w.sighting.read(results, w.Principal)
	})
	join(parts, texts)
	if w.Trial {
		err = trialEnded(err, seen)
	}
	return parts, err
}

// join makes one text of what the statements of each part answered.
func join(parts []Rows, texts [][]string) {
	for i := range parts {
		parts[i].JSON = strings.Join(texts[i], ",")
	}
}

// passed reads the answers to what comes before the data.
func (g *Gate) passed(results pgx.BatchResults, w Write) error {
	if err := claimed(results, w); err != nil {
		return err
	}
	if err := fence.Admitted(results, w.Claims); err != nil {
		return err
	}
	if err := w.Settings.applied(results); err != nil {
		return err
	}
	return became(results, w.Principal)
}

// rowRefused tells a row that was written under a higher token, by its fence
// column, from other errors.
func rowRefused(claims []lease.Claim, err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != stateRowFenced {
		return err
	}
	var row struct {
		Key  lease.Key
		Mark lease.Token `json:",string"`
	}
	if err := json.Unmarshal([]byte(pg.Detail), &row); err != nil {
		return fmt.Errorf("reading the refusal of a row %q: %w", pg.Detail, err)
	}
	for _, claim := range claims {
		if claim.Key == row.Key {
			return &Refused{Code: fence.StaleToken, Claim: claim, Mark: row.Mark,
				Detail: fmt.Sprintf("token %s is older than %s, which a row has in its fence column", claim.Token, row.Mark)}
		}
	}
	return err
}

// trialEnded: a trial that took itself back, once all was seen, is what was asked
// for, and one that was not heard of again has done so too.
func trialEnded(err error, seen bool) error {
	var db *DatabaseError
	switch {
	case seen && errors.As(err, &db) && db.SQLState == stateTrialEnded:
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
// caller's going away does not stop it half-way. called says that a routine is
// among it.
func (g *Gate) send(ctx context.Context, pool *pgxpool.Pool, batch *pgx.Batch, called bool, read func(pgx.BatchResults) error) error {
	ctx, cancel := undisturbed(ctx)
	defer cancel()
	conn, err := connection(ctx, pool)
	if err != nil {
		return classify(reaching, err)
	}
	defer g.release(conn, called)
	defer g.Observer.ran(g.kindOf(pool), time.Now())
	results := conn.SendBatch(ctx, batch)
	if err := read(results); err != nil {
		results.Close()
		return classify(executing, err)
	}
	return classify(committing, results.Close())
}

func (g *Gate) kindOf(pool *pgxpool.Pool) Kind {
	if pool == g.Reads {
		return Reading
	}
	return Writing
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

// connection leaves the batch most of the time left.
func connection(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Conn, error) {
	ctx, cancel := thirdOf(ctx)
	defer cancel()
	return pool.Acquire(ctx)
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
	if err := allowRead(p, &q); err != nil {
		return Rows{}, err
	}
	s, err := statement.BuildQuery(q)
	if err != nil {
		return Rows{}, err
	}
	leave, err := g.shared(ctx, g.readers, p.Name)
	if err != nil {
		return Rows{}, err
	}
	defer leave()
	rows, err = retried(g.asking(ctx, q), g, g.Reads, func(ctx context.Context, replan bool) (Rows, error) {
		return g.read(ctx, p, s, q.Routine != nil, settings, replan)
	})
	if err != nil {
		return Rows{}, fmt.Errorf("reading: %w", err)
	}
	return rows, nil
}

func (g *Gate) read(ctx context.Context, p auth.Principal, s statement.Statement, called bool, settings Settings, replan bool) (rows Rows, err error) {
	var batch pgx.Batch
	g.begin(&batch, replan, fence.Asking)
	batch.Queue(`SELECT set_config('transaction_read_only', 'on', true)`)
	settings.apply(&batch)
	become(&batch, p)
	queue(&batch, s)
	g.wash(&batch, called)
	err = g.send(ctx, g.Reads, &batch, called, func(results pgx.BatchResults) error {
		if err := g.begun(results, replan); err != nil {
			return err
		}
		if _, err := results.Exec(); err != nil {
			return err
		}
		if err := settings.applied(results); err != nil {
			return err
		}
		if err := became(results, p); err != nil {
			return err
		}
		text, err := rows.add(results)
		rows.JSON = strings.Join(text, "")
		return err
	})
	return rows, err
}

func allowRead(p auth.Principal, q *statement.Query) (err error) {
	if q.Routine != nil {
		return auth.AllowCall(p, q.Routine)
	}
	if q.Table, err = p.Narrow(q.Table); err != nil {
		return err
	}
	return auth.Allow(p, q.Table, catalog.Select)
}
