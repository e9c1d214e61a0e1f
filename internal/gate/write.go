package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/statement"
)

// Write is one write as its door decoded it.
type Write struct {
	Principal auth.Principal
	Claim     lease.Claim
	Mutation  statement.Mutation
	Origin    audit.Origin
	Once      Once
}

// Result is a committed write.
type Result struct {
	Rows
	Lease    Check
	Replayed bool // answered from an earlier attempt under the same idempotency key
}

// Rows is what statements touched.
type Rows struct {
	Affected int64
	JSON     string // objects separated by commas, "" if none were asked for
	Total    *int64 // rows that match without limit, nil unless asked for
}

// Write authorises, checks the lease, builds, and commits behind the fence. It
// is the only way into a protected table. Errors: auth.ErrDenied, *Refused
// (recorded), *statement.Fault, *DatabaseError, and the passing ones of this
// package. After any error but ErrOutcomeUnknown nothing was applied.
func (g *Gate) Write(ctx context.Context, w Write) (Result, error) {
	for _, op := range w.Mutation.Operations() {
		if err := auth.Allow(w.Principal, w.Mutation.Table, op); err != nil {
			return Result{}, err
		}
	}
	result, err := g.write(ctx, w)
	if refused := asRefused(err); refused != nil && w.Once.Key != "" {
		err = cmp.Or(g.refuseAnswer(ctx, w, refused.Code), err)
	}
	if errors.Is(err, errApplied) {
		return g.replay(ctx, w)
	}
	if err != nil {
		return Result{}, g.recorded(ctx, audit.Record{
			Disposition: audit.Refused,
			Operation:   string(w.Mutation.Op),
			Table:       w.Mutation.Table.QualifiedName(),
			Claim:       w.Claim,
			Origin:      w.Origin,
		}, err)
	}
	return result, nil
}

func (g *Gate) write(ctx context.Context, w Write) (Result, error) {
	check, err := g.check(ctx, w.Claim)
	if err != nil {
		return Result{}, g.answered(ctx, w, err)
	}
	if w.Once.Key != "" {
		w.Mutation.Keep = statement.Keep{Principal: w.Principal.Name, Key: w.Once.Key}
	}
	statements, err := statement.Build(w.Mutation, w.Claim.Key)
	if err != nil {
		return Result{}, err
	}
	rows, err := g.retried(ctx, func(ctx context.Context) (Rows, error) {
		return g.commit(ctx, w, statements)
	})
	return Result{Rows: rows, Lease: check}, err
}

// commit sends the claim of the idempotency key, the fence and the data as one
// batch without BEGIN: PostgreSQL makes it one transaction, in one round trip,
// committed by the final Sync. The data is a statement of its own, so that its
// snapshot is taken after the mark is locked.
func (g *Gate) commit(ctx context.Context, w Write, statements []statement.Statement) (Rows, error) {
	var batch pgx.Batch
	g.claimAnswer(&batch, w)
	fence.Admit(&batch, w.Claim)
	for _, s := range statements {
		queue(&batch, s)
	}
	return send(ctx, g.Writes, &batch, func(results pgx.BatchResults) error {
		if err := claimed(results, w); err != nil {
			return err
		}
		return fence.Admitted(results, w.Claim)
	}, len(statements))
}

func queue(batch *pgx.Batch, s statement.Statement) { batch.Queue(s.SQL, s.Args...) }

// send runs one batch as one transaction: first, whose answer lead reads, then
// count data statements. The caller's going away does not stop it half-way.
func send(ctx context.Context, pool *pgxpool.Pool, batch *pgx.Batch, lead func(pgx.BatchResults) error, count int) (Rows, error) {
	ctx, cancel := undisturbed(ctx)
	defer cancel()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return Rows{}, classify(reaching, err)
	}
	defer conn.Release()
	results := conn.SendBatch(ctx, batch)
	rows, err := collect(results, lead, count)
	if err != nil {
		results.Close()
		return Rows{}, classify(executing, err)
	}
	if err := results.Close(); err != nil {
		return Rows{}, classify(committing, err)
	}
	return rows, nil
}

func collect(results pgx.BatchResults, lead func(pgx.BatchResults) error, count int) (Rows, error) {
	var all Rows
	if err := lead(results); err != nil {
		return all, err
	}
	var parts []string
	for range count {
		var one Rows
		var text *string
		if err := results.QueryRow().Scan(&one.Affected, &text, &one.Total); err != nil {
			return all, err
		}
		all.Affected += one.Affected
		all.Total = one.Total
		if text != nil {
			parts = append(parts, *text)
		}
	}
	all.JSON = strings.Join(parts, ",")
	return all, nil
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
func (g *Gate) Read(ctx context.Context, p auth.Principal, q statement.Query) (Rows, error) {
	if err := auth.Allow(p, q.Table, "select"); err != nil {
		return Rows{}, err
	}
	s, err := statement.BuildQuery(q)
	if err != nil {
		return Rows{}, err
	}
	var batch pgx.Batch
	batch.Queue(`SELECT set_config('transaction_read_only', 'on', true)`)
	queue(&batch, s)
	rows, err := send(ctx, g.Reads, &batch, func(results pgx.BatchResults) error {
		_, err := results.Exec()
		return err
	}, 1)
	if err != nil {
		return Rows{}, fmt.Errorf("reading %s: %w", q.Table.QualifiedName(), err)
	}
	return rows, nil
}
