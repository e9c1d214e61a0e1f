package gate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient"
	"github.com/fencegate/fencegate/internal/pooled"
	"github.com/fencegate/fencegate/internal/statement"
)

// Once names a request so that it is applied once, however often it is sent.
// The zero value names nothing.
type Once struct {
	Key string
	// Fingerprint tells the request from another one under the same key. The
	// lock headers are no part of it: a retry may come under a newer grant.
	Fingerprint string
}

// shows makes the columns that may be returned part of the fingerprint, where these
// are not all: an answer that was stored when there were more is not for now.
func (o *Once) shows(m statement.Mutation) {
	if o.Key != "" && m.Table != nil && m.Return.Any() && m.Table.Hides() {
		sum := sha256.Sum256([]byte(o.Fingerprint + "\x00" + strings.Join(m.Table.Returnable(), "\x00")))
		o.Fingerprint = hex.EncodeToString(sum[:])
	}
}

// What a request under a used key can meet.
var (
	// ErrKeyReused: the key was used for another request.
	ErrKeyReused = fence.ErrKeyReused
	// ErrKeyBusy: an earlier attempt is still running.
	ErrKeyBusy = errors.New("an earlier attempt under this idempotency key is still running")
	// errApplied: an earlier attempt was applied; its answer is to be replayed.
	errApplied = errors.New("applied already")
)

// unprepared is for statements that are rare, and not worth the care that one
// which stays prepared takes (see staleSession).
const unprepared = pgx.QueryExecModeExec

// The private SQLSTATEs of the functions around fencegate.answers.
const (
	stateKeyReused = "FG005"
	stateApplied   = "FG006"
)

// claimAnswer queues the claim of the request's key, before the fence: what is
// committed under it later is there if and only if the write is.
func (g *Gate) claimAnswer(batch *pgx.Batch, w Write) {
	if w.Once.Key == "" {
		return
	}
	batch.Queue(`SELECT fencegate.claim_answer($1, $2, $3, $4::jsonb, $5)`,
		w.Principal.Name, w.Once.Key, w.Once.Fingerprint, asJSON(presentedBy(w.Claims...)), g.KeepAnswers)
}

// claimed reads the answer to claimAnswer.
func claimed(results pgx.BatchResults, w Write) error {
	if w.Once.Key == "" {
		return nil
	}
	_, err := results.Exec()
	return answerError(w.Claims, err)
}

// answered looks for the answer of an earlier attempt when the lock service
// can't be asked about this one: replay needs no lease.
func (g *Gate) answered(ctx context.Context, w Write, err error) error {
	if w.Once.Key == "" || !errors.Is(err, lockclient.ErrUnavailable) {
		return err
	}
	if _, missing := g.replay(ctx, w); missing == nil {
		return errApplied
	}
	return err
}

// replay returns what an earlier attempt was answered.
func (g *Gate) replay(ctx context.Context, w Write) (Result, error) {
	const query = `
		SELECT p.operation, p.affected, p.rows
		  FROM fencegate.answers AS a
		  JOIN fencegate.answer_parts AS p USING (principal, idempotency_key)
		 WHERE a.principal = $1
		   AND a.idempotency_key = $2
		   AND a.fingerprint = $3
		   AND a.state = 'applied'
		 ORDER BY p.part`
	answered, err := g.single().Query(ctx, query, unprepared, w.Principal.Name, w.Once.Key, w.Once.Fingerprint)
	if err != nil {
		return Result{}, classify(reaching, err)
	}
	parts := make([]Rows, len(w.Mutations))
	texts := make([][]string, len(w.Mutations))
	var operation int
	var affected int64
	var text string
	found, err := pgx.ForEachRow(answered, []any{&operation, &affected, &text}, func() error {
		parts[operation].Affected += affected
		if text != "" {
			texts[operation] = append(texts[operation], text)
		}
		return nil
	})
	if err != nil {
		return Result{}, classify(reaching, err)
	}
	if found.RowsAffected() == 0 {
		return Result{}, ErrKeyBusy // expired just now: sending it again starts anew
	}
	join(parts, texts)
	return Result{Parts: parts, Replayed: true}, nil
}

// answerError finds what the functions around fencegate.answers raise; other
// errors stay as they are.
func answerError(claims []lease.Claim, err error) error {
	err = fence.Classify(claims, err)
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, fence.ErrBusy):
		return ErrKeyBusy
	case errors.As(err, &pg) && pg.Code == stateKeyReused:
		return ErrKeyReused
	case errors.As(err, &pg) && pg.Code == stateApplied:
		return errApplied
	}
	return err
}

// forgetPause is how long the janitor waits before each round.
const forgetPause = time.Minute

// forgetBatch bounds the answers that one statement forgets.
const forgetBatch = 1000

// ForgetAnswers deletes expired answers until ctx ends, and returns nil. Any
// number of gateways may do so at once.
func (g *Gate) ForgetAnswers(ctx context.Context) error {
	for {
		select {
		case <-time.After(forgetPause):
		case <-ctx.Done():
			return nil
		}
		for n := int64(forgetBatch); n == forgetBatch; {
			var err error
			if n, err = g.forgetSome(ctx); err != nil && ctx.Err() == nil {
				g.Log.Warn("expired idempotency keys could not be deleted", "error", err)
			}
		}
		if _, err := g.Marks.Forget(ctx, forgetBatch); err != nil && ctx.Err() == nil {
			g.Log.Warn("expired idempotency keys of acquires could not be deleted", "error", err)
		}
	}
}

func (g *Gate) forgetSome(ctx context.Context) (int64, error) {
	const query = `
		DELETE FROM fencegate.answers
		 WHERE (principal, idempotency_key) IN (
		       SELECT principal, idempotency_key
		         FROM fencegate.answers
		        WHERE expires_at <= clock_timestamp()
		        ORDER BY expires_at
		        LIMIT $1
		          FOR UPDATE SKIP LOCKED)`
	return g.exec(ctx, query, forgetBatch)
}

// single runs single statements where writes run.
func (g *Gate) single() pooled.Querier {
	if g.Pooled == nil {
		return g.Writes
	}
	return &pooled.Pool{Conns: g.Writes, Settings: *g.Pooled}
}

// exec runs a statement whose rows, if any, nobody needs.
func (g *Gate) exec(ctx context.Context, sql string, args ...any) (affected int64, err error) {
	rows, _ := g.single().Query(ctx, sql, append([]any{unprepared}, args...)...)
	rows.Close()
	return rows.CommandTag().RowsAffected(), rows.Err()
}
