package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fencegate/fencegate/internal/config"
)

func newServe() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "serve --config FILE",
		Short: "Run the gateway",
		Long: "Runs until SIGTERM or Ctrl-C, then finishes what is in flight and exits 0; a second\n" +
			"signal ends it at once, with exit code 3. SIGHUP reads the configuration anew, whole or not at\n" +
			"all; try it with check first. Refuses to start on a schema that is not its own version.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return unlessCutOff(func() error { return serve(cmd, path) })
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration `file`")
	config.Flags(cmd.Flags())
	return cmd
}

func serve(cmd *cobra.Command, path string) error {
	cfg, err := loadConfig(cmd, path)
	if err != nil {
		return err
	}
	file := &configFile{path: path, flags: cmd.Flags(), started: cfg}
	log := newLogger(cfg.Log, &file.level)
	supervisor, err := findSupervisor(log)
	if err != nil {
		return err
	}
	house, err := build(cmd.Context(), cfg, log)
	if err != nil {
		return err
	}
	house.file, house.supervisor = file, supervisor
	return house.run(cmd.Context())
}

// configFile is where a gateway that runs reads its configuration anew.
type configFile struct {
	path    string
	flags   *pflag.FlagSet
	started *config.Config
	level   slog.LevelVar // of the log
}

func (f *configFile) read() (*config.Config, error) {
	return config.Reload(f.started, f.path, os.Environ(), f.flags)
}

func levelOf(cfg config.Log) (level slog.Level) {
	level.UnmarshalText([]byte(cfg.Level)) // validated by config
	return level
}

// newLogger returns the log, whose level is set by cfg and can be moved.
func newLogger(cfg config.Log, level *slog.LevelVar) *slog.Logger {
	level.Set(levelOf(cfg))
	options := &slog.HandlerOptions{Level: level}
	if cfg.Format == "text" {
		return slog.New(slog.NewTextHandler(os.Stdout, options))
	}
	return slog.New(slog.NewJSONHandler(os.Stdout, options))
}
