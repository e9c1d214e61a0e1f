package main

import (
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/config"
	"github.com/fencegate/fencegate/internal/doctor"
	migrations "github.com/fencegate/fencegate/sql"
)

// printRoles prints what gives a role all that the gateway needs.
func printRoles(ctx context.Context, out io.Writer, url string, cfg *config.Config, role string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connecting to the database: %w", err)
	}
	defer conn.Close(ctx)
	if err := migrations.Check(ctx, conn); err != nil {
		return err
	}
	statements, err := doctor.Grants(ctx, conn, doctor.Patient{Config: cfg, Specs: specs(cfg)}, role)
	if err != nil {
		return fmt.Errorf("finding out what the role %s lacks: %w", role, err)
	}
	if len(statements) == 0 {
		_, err := fmt.Fprintf(out, "-- The role %q has all that a gateway with this configuration needs.\n", role)
		return err
	}
	fmt.Fprintf(out, "-- What the role %q lacks for a gateway with this configuration, and nothing else. A new\n"+
		"-- role has no password: give it one, or what pg_hba.conf asks for. To be run by whoever\n"+
		"-- may grant these rights, and again after tables were added to the configuration.\n", role)
	for _, statement := range statements {
		if _, err := fmt.Fprintln(out, statement); err != nil {
			return err
		}
	}
	return nil
}
