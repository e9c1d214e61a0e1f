package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/fencegate/fencegate/internal/config"
	migrations "github.com/fencegate/fencegate/sql"
)

func newMigrate() *cobra.Command {
	var path, role string
	var forget, roles bool
	cmd := &cobra.Command{
		Use:   "migrate up|down|status",
		Args:  cobra.NoArgs,
		Short: "Move the gateway's own schema, fencegate, in the protected database",
		Long: "Only the schema fencegate is touched, never the protected tables. The database is\n" +
			"the configuration's, or " + config.MigrateURLEnv + " if that is set: migrating needs a direct\n" +
			"connection and the right to create a schema. With --print-roles it prints the SQL that\n" +
			"gives the gateway's role the rights it needs, and changes nothing.",
	}
	url := func(cmd *cobra.Command) (string, error) {
		if direct := os.Getenv(config.MigrateURLEnv); direct != "" {
			return direct, nil
		}
		cfg, err := loadConfig(cmd, path)
		if err != nil {
			return "", err
		}
		return directURL(cfg, "migrating")
	}
	up := &cobra.Command{
		Use: "up", Short: "Bring the schema to this gateway's version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withURL(cmd, url, func(u string) error { return migrations.Up(cmd.Context(), u) })
		},
	}
	down := &cobra.Command{
		Use: "down", Short: "Go one version back", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !forget {
				return errors.New("going back drops the marks: late writers would be admitted again. Stop every gateway and worker, then say --forget-marks")
			}
			return withURL(cmd, url, func(u string) error { return migrations.Down(cmd.Context(), u) })
		},
	}
	down.Flags().BoolVar(&forget, "forget-marks", false, "drop the marks, knowing what that means")
	status := &cobra.Command{
		Use: "status", Short: "Show the schema's version; exit code 1 if it is not this gateway's", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withURL(cmd, url, func(string) error { return nil })
		},
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !roles {
			return cmd.Help()
		}
		cfg, err := loadConfig(cmd, path)
		if err != nil {
			return err
		}
		direct, err := url(cmd)
		if err != nil {
			return err
		}
		return printRoles(cmd.Context(), cmd.OutOrStdout(), direct, cfg, role)
	}
	cmd.Flags().BoolVar(&roles, "print-roles", false, "print the SQL for a role that may do what the gateway needs, and no more")
	cmd.Flags().StringVar(&role, "role", "fencegate_gateway", "`name` of that role")
	cmd.PersistentFlags().StringVar(&path, "config", "", "configuration `file`")
	cmd.AddCommand(up, down, status)
	return cmd
}

// directURL is where act, which changes schemas, connects to.
func directURL(cfg *config.Config, act string) (string, error) {
	if direct := os.Getenv(config.MigrateURLEnv); direct != "" {
		return direct, nil
	}
	if cfg.Database.Pooler == config.PoolerTransaction {
		return "", fmt.Errorf("database.pooler is %s and %s needs a direct connection: set %s to one", config.PoolerTransaction, act, config.MigrateURLEnv)
	}
	return cfg.Database.URL.Reveal(), nil
}

// withURL acts on the database and then says where it stands.
func withURL(cmd *cobra.Command, find func(*cobra.Command) (string, error), act func(url string) error) error {
	url, err := find(cmd)
	if err != nil {
		return err
	}
	if err := act(url); err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	conn, err := pgx.Connect(cmd.Context(), url)
	if err != nil {
		return fmt.Errorf("connecting to the database: %w", err)
	}
	defer conn.Close(cmd.Context())
	at, err := migrations.Read(cmd.Context(), conn)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "schema fencegate: version %d of %d\n", at.Version, migrations.Latest())
	if cmd.Name() == "status" {
		return migrations.Check(cmd.Context(), conn)
	}
	return nil
}
