// Package pooled is for connections that a pooler lends out for one transaction
// at a time, such as PgBouncer's in transaction mode. Each transaction can meet
// another session, and what one leaves behind meets somebody else: so nothing is
// set for longer than a transaction, nothing stays prepared, and each transaction
// says first, in its one round trip, what it needs to be set.
package pooled

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Settings are what every transaction sets for itself. Both are needed.
type Settings struct {
	LockTimeout      time.Duration
	StatementTimeout time.Duration // of the statements after the first
}

// Begin queues the one statement that a transaction begins with; it evaluates
// also, SQL expressions, in order.
func (s Settings) Begin(batch *pgx.Batch, also ...string) {
	expressions := append([]string{
		`set_config('lock_timeout', $1, true)`,
		`set_config('statement_timeout', $2, true)`,
		`set_config('extra_float_digits', '3', true)`, // less loses digits of what is read
	}, also...)
	batch.Queue(`SELECT `+strings.Join(expressions, ", "), milliseconds(s.LockTimeout), milliseconds(s.StatementTimeout))
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

// Querier runs single statements, each a transaction of its own: a Pool, or on
// direct connections a *pgxpool.Pool.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Pool runs single statements with Settings on connections of a pooler.
type Pool struct {
	Conns    *pgxpool.Pool // of a mode that prepares nothing
	Settings Settings
}

// Query is pgxpool's, but for the mode: Conns' own counts. The statement is
// committed once the rows are closed without an error.
func (p *Pool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if len(args) > 0 {
		if _, mode := args[0].(pgx.QueryExecMode); mode {
			args = args[1:]
		}
	}
	var batch pgx.Batch
	p.Settings.Begin(&batch)
	batch.Queue(sql, args...)
	results := p.Conns.SendBatch(ctx, &batch)
	_, err := results.Exec()
	answer, queried := results.Query() // has the same error, if there is one
	r := &rows{Rows: answer, results: results}
	if err = cmp.Or(err, queried); err != nil {
		r.Close()
	}
	return r, err
}

// QueryRow is Query for one row.
func (p *Pool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	r, _ := p.Query(ctx, sql, args...)
	return row{r}
}

// rows are the second answer of a batch, and end it.
type rows struct {
	pgx.Rows
	results pgx.BatchResults
	closed  bool
	err     error
}

func (r *rows) Next() bool {
	if !r.closed && r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *rows) Close() {
	if r.closed {
		return
	}
	r.closed = true
	r.Rows.Close()
	r.err = cmp.Or(r.Rows.Err(), r.results.Close())
}

func (r *rows) Err() error { return cmp.Or(r.err, r.Rows.Err()) }

type row struct{ rows pgx.Rows }

func (r row) Scan(dest ...any) error {
	defer r.rows.Close()
	if !r.rows.Next() {
		return cmp.Or(r.rows.Err(), pgx.ErrNoRows)
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
