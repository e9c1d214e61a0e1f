package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/statement"
)

// checkRoutines lets PostgreSQL parse every registered statement and the call of
// every function. It reports all that can't be served, not only the first.
func checkRoutines(ctx context.Context, pool *pgxpool.Pool, routines []*catalog.Routine) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	var faults []error
	for _, r := range routines {
		fault, err := tryRoutine(ctx, conn.Conn().PgConn(), r)
		if err != nil {
			return err
		}
		if fault != nil {
			faults = append(faults, r.Blame(fault))
		}
	}
	return errors.Join(faults...)
}

// tryRoutine returns what is wrong with the routine, or an error that is not its
// own.
func tryRoutine(ctx context.Context, conn *pgconn.PgConn, r *catalog.Routine) (fault, err error) {
	for _, trial := range statement.Trials(r) {
		described, err := conn.Prepare(ctx, "", trial.SQL, nil)
		var said *pgconn.PgError
		switch {
		case errors.As(err, &said):
			return refusal(r, trial, said), nil
		case err != nil:
			return nil, err
		case trial.Bare:
			fault = columnsFault(described.Fields)
		}
		if fault != nil {
			return fault, nil
		}
	}
	return nil, nil
}

// refusal is what PostgreSQL said, with the line it means.
func refusal(r *catalog.Routine, trial statement.Trial, said *pgconn.PgError) error {
	text := said.Message
	switch line := trial.Line(int(said.Position)); {
	case line > 0 && r.Line > 0:
		text = fmt.Sprintf("on line %d, %s", r.Line+line-1, text)
	case line > 0 && r.IsStatement():
		text = fmt.Sprintf("in its line %d, %s", line, text)
	}
	for _, more := range []string{said.Detail, said.Hint} {
		if more != "" {
			text += "; " + strings.TrimSuffix(more, ".")
		}
	}
	text += fmt.Sprintf(" (SQLSTATE %s)", said.Code)
	if r.IsStatement() && !trial.Bare {
		text += "; by itself it is right, but a call makes it part of a larger statement, where INSERT, UPDATE and DELETE " +
			"must stand at its top and not in a WITH of its own (a function can do that)"
	}
	return errors.New(text)
}

// columnsFault says what keeps a statement's rows from being JSON objects.
func columnsFault(columns []pgconn.FieldDescription) error {
	if len(columns) == 0 {
		return errors.New("it gives no rows; an INSERT, UPDATE or DELETE needs a RETURNING clause, if only RETURNING 1")
	}
	seen := make(map[string]bool, len(columns))
	for _, c := range columns {
		if seen[c.Name] {
			return fmt.Errorf("two of its columns are called %q; name one of them with AS", c.Name)
		}
		seen[c.Name] = true
	}
	return nil
}
