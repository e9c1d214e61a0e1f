package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/fencegate/fencegate/internal/config"
)

func newCheck() *cobra.Command {
	var path string
	var dump, example bool
	cmd := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Check a configuration without starting anything",
		Long: "Reads the configuration as serve would, with the environment laid over it, and\n" +
			"names the file, line and column of every mistake. Exit code 0: it is right.\n" +
			"The way to try a changed file before SIGHUP.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if example {
				fmt.Fprint(cmd.OutOrStdout(), config.Example())
				return nil
			}
			cfg, err := loadConfig(cmd, path)
			if err != nil {
				return err
			}
			if _, err := loadCertificates(cfg); err != nil {
				return err
			}
			if dump {
				fmt.Fprint(cmd.OutOrStdout(), cfg.Masked())
				return nil
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: right, %d tables\n", path, len(cfg.Tables))
			return nil
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration `file`")
	cmd.Flags().BoolVar(&dump, "dump", false, "print the effective configuration, secrets masked")
	cmd.Flags().BoolVar(&example, "example", false, "print a commented example and stop")
	config.Flags(cmd.Flags())
	return cmd
}

// loadConfig reads the configuration and says what is wrong with it, a line for
// each mistake.
func loadConfig(cmd *cobra.Command, path string) (*config.Config, error) {
	if path == "" {
		return nil, errors.New("--config FILE is needed; `gateway check --example` prints one to start from")
	}
	cfg, err := config.Load(path, os.Environ(), cmd.Flags())
	var mistakes config.Mistakes
	if errors.As(err, &mistakes) {
		fmt.Fprintln(cmd.ErrOrStderr(), mistakes)
		return nil, errSaid
	}
	return cfg, err
}
