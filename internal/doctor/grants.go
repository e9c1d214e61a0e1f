package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// errUndone takes back what Grants tried.
var errUndone = errors.New("taken back")

// Grants returns the statements that give role what a gateway of p needs and the role
// lacks; nothing else. The role need not be there: it is made in a transaction that
// is taken back, for PostgreSQL itself to say what it may do. The connection's role
// must be allowed to make and to become it.
func Grants(ctx context.Context, conn *pgx.Conn, p Patient, role string) (statements []string, err error) {
	name := pgx.Identifier{role}.Sanitize()
	v := &visit{Patient: p, rules: rulesByCode()}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		made, err := makeRoles(ctx, tx, role, v.databaseRoles())
		if err != nil {
			return err
		}
		statements = made
		if err := join(ctx, tx, role); err != nil {
			return fmt.Errorf("becoming a member of the role for a try: %w", err)
		}
		if _, err := tx.Exec(ctx, "SET LOCAL ROLE "+name); err != nil {
			return fmt.Errorf("becoming the role for a try: %w", err)
		}
		// Names of types are then printed with their schemas, whoever runs this.
		if _, err := tx.Exec(ctx, "SET LOCAL search_path = pg_catalog"); err != nil {
			return fmt.Errorf("setting the search path for a try: %w", err)
		}
		for _, look := range []func(*visit, context.Context, pgx.Tx) error{
			(*visit).checkDatabaseRoles, (*visit).checkTableRights, (*visit).checkFunctionRights, (*visit).checkFenceRights,
		} {
			if err := look(v, ctx, tx); err != nil {
				return err
			}
		}
		return errUndone
	})
	if !errors.Is(err, errUndone) {
		return nil, err
	}
	for _, f := range v.findings {
		statements = append(statements, f.Fix)
	}
	return statements, nil
}

// makeRoles makes those that are not there, for a try. A gateway that may become
// others has none of their rights before it does.
func makeRoles(ctx context.Context, tx pgx.Tx, gateway string, databaseRoles []string) (statements []string, err error) {
	for i, role := range append([]string{gateway}, databaseRoles...) {
		var there bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = $1)`, role).Scan(&there); err != nil {
			return nil, err
		}
		if there {
			continue
		}
		statement := "CREATE ROLE " + pgx.Identifier{role}.Sanitize() + " NOLOGIN;"
		if i == 0 {
			statement = "CREATE ROLE " + pgx.Identifier{role}.Sanitize() + " LOGIN NOINHERIT;"
		}
		if _, err := tx.Exec(ctx, statement); err != nil {
			return nil, fmt.Errorf("making the role %s for a try: %w", role, err)
		}
		statements = append(statements, statement)
	}
	return statements, nil
}

// join makes the connection's role a member of role, unless it may become it already.
func join(ctx context.Context, tx pgx.Tx, role string) error {
	var may bool
	if err := tx.QueryRow(ctx, `SELECT pg_has_role($1, `+maySetRole+`)`, role).Scan(&may); err != nil || may {
		return err
	}
	_, err := tx.Exec(ctx, "GRANT "+pgx.Identifier{role}.Sanitize()+" TO CURRENT_USER")
	return err
}
