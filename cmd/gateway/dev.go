package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/fencegate/fencegate/internal/config"
)

func newDev() *cobra.Command {
	var dataDir string
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a gateway to try, on a PostgreSQL and a Redis of its own",
		Long: "Starts a private PostgreSQL and a private Redis from the programs installed here\n" +
			"(or uses DATABASE_URL and REDIS_URL), creates a small legacy schema named shop, and\n" +
			"serves on loopback. Not for production. Ctrl-C leaves nothing behind.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			servers, err := startStack(cmd.Context(), dataDir)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, servers.stop()) }()
			cfg, err := servers.config("127.0.0.1:8080", "127.0.0.1:9090", cmd.Flags())
			if err != nil {
				return err
			}
			house, err := build(cmd.Context(), cfg, newLogger(cfg.Log, new(slog.LevelVar)))
			if err != nil {
				return err
			}
			greet(cmd.OutOrStdout(), servers, cfg, house)
			return house.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&dataDir, "data-dir", "", "keep the data in this `directory` (default: in memory, gone at the end)")
	config.Flags(cmd.Flags())
	return cmd
}

func greet(out io.Writer, servers *stack, cfg *config.Config, h *house) {
	kept := "nothing is kept"
	if servers.kept != "" {
		kept = "data is kept in " + servers.kept
	}
	base := "http://" + h.public.Addr().String()
	fmt.Fprintf(out, `fencegate for trying out. Not for production: no authentication, loopback only, %s.

  gateway     %s        contract: %s/openapi.yaml
  dashboard   %s
  probes      %s
  PostgreSQL  %s   (tables: schema shop)
  Redis       %s

Four lines to paste, in order. Worker A takes the lock for 10 s and writes:

  %s
  %s

A stops for too long. Worker B takes over as soon as A's lease has run out:

  %s

A wakes up and writes under its old token. Refused with 412, nothing written:

  %s

What was refused: curl -s %s/v1/refusals      Ctrl-C ends it all.
`, kept, base, base, h.dashboardURL(), h.readyURL(), cfg.Database.URL, cfg.Redis.URL,
		acquireLine(base), writeLine(base, 9), takeOverLine(base), writeLine(base, 3), base)
}

const jsonHeader = `-H 'Content-Type: application/json'`

// acquireLine keeps the three headers of the answer in the file a.headers.
func acquireLine(base string) string {
	return fmt.Sprintf(`curl -si %s/v1/leases %s -d '{"key":"inventory:SKU-1","ttl_ms":10000,"client":"worker-a"}' | tr -d '\r' | grep -E '^(Lock-|Fencing-)' | tee a.headers`, base, jsonHeader)
}

func writeLine(base string, available int) string {
	return fmt.Sprintf(`curl -si -X PATCH '%s/rest/inventory?sku=eq.SKU-1' -H @a.headers %s -d '{"available":%d}'`, base, jsonHeader, available)
}

func takeOverLine(base string) string {
	return fmt.Sprintf(`until curl -sf %s/v1/leases %s -d '{"key":"inventory:SKU-1","ttl_ms":60000,"client":"worker-b"}'; do sleep 1; done; echo`, base, jsonHeader)
}
