package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// visit collects what is found.
type visit struct {
	Patient
	rules    map[string]Rule
	findings []Finding
	unseen   []Unseen
}

func (v *visit) find(code, about, found, fix string) {
	rule, known := v.rules[code]
	if !known {
		panic("doctor: the code " + code + " has no rule") // a mistake in this package
	}
	v.findings = append(v.findings, Finding{Rule: rule, About: about, Found: found, Fix: fix})
}

// findWay is find for a way past the gateway.
func (v *visit) findWay(code string, w way, fix string) {
	v.find(code, w.Login, w.says(), fix)
	v.findings[len(v.findings)-1].Relations = w.Relations
}

// hidden notes what this role may not see.
func (v *visit) hidden(about, why string) {
	v.unseen = append(v.unseen, Unseen{About: about, Why: why})
}

// blind notes a part that could not be looked at.
func (v *visit) blind(about string, err error) {
	v.unseen = append(v.unseen, Unseen{About: about, Why: err.Error(), Blind: true})
}

func (v *visit) report() *Report {
	r := &Report{Findings: v.findings, Unseen: v.unseen}
	if r.Findings == nil {
		r.Findings = []Finding{}
	}
	if r.Unseen == nil {
		r.Unseen = []Unseen{}
	}
	r.sort()
	r.Verdict = r.sum()
	return r
}

// check is one look at the database.
type check struct {
	about string
	look  func(*visit, context.Context, pgx.Tx) error
}

// run looks in a transaction of its own that can't write, so that nothing is left
// in the session and one check that fails takes no other with it.
func (v *visit) run(ctx context.Context, conn *pgx.Conn, c check) {
	ctx, cancel := context.WithTimeout(ctx, 2*v.Timeout) // costs the connection, which the server's own timeout does not
	defer cancel()
	err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, bounds, fmt.Sprint(v.Timeout.Milliseconds())); err != nil {
			return fmt.Errorf("bounding the check: %w", err)
		}
		return c.look(v, ctx, tx)
	})
	var refused *pgconn.PgError
	switch {
	case err == nil:
	case errors.As(err, &refused) && refused.Code == insufficientPrivilege:
		v.hidden(c.about, "the gateway's role may not: "+refused.Message)
	default:
		v.blind(c.about, err)
	}
}

// bounds are those of a check. What it asks the catalogs looks more costly than it
// is, and compiling it would take a hundred times as long as running it.
const bounds = `
	SELECT set_config('statement_timeout', $1, true),
	       (SELECT set_config(name, 'off', true) FROM pg_catalog.pg_settings WHERE name = 'jit')`

const insufficientPrivilege = "42501"

// read returns the rows of a query as T, column by column.
func read[T any](ctx context.Context, tx pgx.Tx, what, query string, args ...any) ([]T, error) {
	rows, _ := tx.Query(ctx, query, args...)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	return all, nil
}
