package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/fencegate/fencegate/internal/config"
)

func newServe() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "serve --config FILE",
		Short: "Run the gateway",
		Long: "Runs until SIGTERM or Ctrl-C, then finishes what is in flight and exits 0; a second\n" +
			"signal ends it at once. Refuses to start on a schema that is not its own version.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(cmd, path)
			if err != nil {
				return err
			}
			house, err := build(cmd.Context(), cfg, newLogger(cfg.Log))
			if err != nil {
				return err
			}
			return house.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration `file`")
	config.Flags(cmd.Flags())
	return cmd
}

func newLogger(cfg config.Log) *slog.Logger {
	var level slog.Level
	level.UnmarshalText([]byte(cfg.Level)) // validated by config
	options := &slog.HandlerOptions{Level: level}
	if cfg.Format == "text" {
		return slog.New(slog.NewTextHandler(os.Stdout, options))
	}
	return slog.New(slog.NewJSONHandler(os.Stdout, options))
}
