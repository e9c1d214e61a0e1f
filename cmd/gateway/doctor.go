package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/fencegate/fencegate/internal/config"
	"github.com/fencegate/fencegate/internal/doctor"
)

func newDoctor() *cobra.Command {
	var path string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor --config FILE",
		Short: "Look at an installation and say what is unsafe, why, and what to do",
		Long: "Looks at the database, the lock service and the configuration, and changes nothing.\n" +
			"Exit code 0: nothing above a note; 1: warnings; 2: dangers; 3: no danger was seen, but\n" +
			"a part could not be looked at. Every code is explained in docs/doctor.md.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(cmd, path)
			if err != nil {
				return &exitError{doctor.ExitBlind, err}
			}
			report, err := examine(cmd.Context(), cfg)
			if err != nil {
				return &exitError{doctor.ExitBlind, err}
			}
			if err := tell(cmd, report, asJSON); err != nil {
				return err
			}
			if code := report.ExitCode(); code != doctor.ExitSound {
				return &exitError{code, errSaid}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration `file`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	config.Flags(cmd.Flags())
	return cmd
}

func tell(cmd *cobra.Command, report *doctor.Report, asJSON bool) error {
	if !asJSON {
		report.Print(cmd.OutOrStdout())
		return nil
	}
	encoder := json.NewEncoder(cmd.OutOrStdout())
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(report)
}

// examine returns an error only for what no server was asked for yet.
func examine(ctx context.Context, cfg *config.Config) (*doctor.Report, error) {
	patient := doctor.Patient{Config: cfg, Specs: specs(cfg), Certificates: shownCertificates(cfg)}
	var err error
	if patient.Plain, err = plainConnection(cfg); err != nil {
		return nil, err
	}
	serve, err := connections(cfg)
	if err != nil {
		return nil, err
	}
	patient.Serve = serve.ConnConfig
	servers, closeServers, err := redisServers(cfg)
	if err != nil {
		return nil, err
	}
	defer closeServers()
	patient.Redis = servers
	if cfg.Leases.Backend != config.BackendPostgres {
		patient.AskLocks = func(ctx context.Context) error { return askLocks(ctx, cfg) }
	}
	return doctor.Examine(ctx, patient), nil
}

// shownCertificates are those of the listeners that have one.
func shownCertificates(cfg *config.Config) (all []doctor.Certificate) {
	for section, files := range map[string]config.TLS{"tls": cfg.TLS, "admin_tls": cfg.AdminTLS} {
		if i, err := loadCertificate(section, files); err != nil {
			all = append(all, doctor.Certificate{Section: section, Fault: err})
		} else if i != nil {
			all = append(all, doctor.Certificate{Section: section, Ends: i.ends})
		}
	}
	return all
}

// plainConnection asks for no settings, so that those of the role and the database
// show, and prepares nothing, which a pooler would not keep.
func plainConnection(cfg *config.Config) (*pgx.ConnConfig, error) {
	c, err := pgx.ParseConfig(cfg.Database.URL.Reveal())
	if err != nil {
		return nil, fmt.Errorf("reading the database address: %w", err)
	}
	c.ConnectTimeout = cfg.Database.ConnectTimeout
	c.DefaultQueryExecMode = unprepared
	c.RuntimeParams["application_name"] = "fencegate doctor"
	return c, nil
}

func askLocks(ctx context.Context, cfg *config.Config) error {
	locks, err := openLockService(settingsOf(cfg), nil, nil)
	if err != nil {
		return err
	}
	defer locks.close()
	return locks.ask(ctx)
}
