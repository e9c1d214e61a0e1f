package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencegate/fencegate/client"
)

func newLeaseAcquire() *cobra.Command {
	var t taking
	var show shape
	cmd := &cobra.Command{
		Use:   "acquire --key KEY",
		Short: "Take a lock and print what to send with every write",
		Long: "Prints the three headers, as `curl -H @FILE` takes them. The holder among them is the\n" +
			"proof of possession: keep it out of argument lists and logs.",
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := t.options(client.WithoutWatchdog())
			if err == nil && len(t.keys) > 1 {
				err = errors.New("acquire takes one --key; run takes several")
			}
			if err != nil {
				return &exitError{exitUsage, err}
			}
			gateway, err := t.sdk(t.client)
			if err != nil {
				return &exitError{exitUsage, err}
			}
			lease, err := gateway.Acquire(cmd.Context(), t.keys[0], options...)
			if err != nil {
				return t.exit(err)
			}
			return show.print(cmd.OutOrStdout(), t.url, lease.Headers(), lease.Left())
		},
	}
	t.flags(cmd)
	show.flags(cmd)
	return cmd
}

// shape is how a lease is printed.
type shape struct{ json, env bool }

func (s *shape) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&s.json, "json", false, "print JSON instead")
	cmd.Flags().BoolVar(&s.env, "env", false, "print FENCE_* variables for a shell to eval instead")
	cmd.MarkFlagsMutuallyExclusive("json", "env")
}

var lockHeaders = []string{"Lock-Key", "Lock-Holder", "Fencing-Token"}

func (s shape) print(out io.Writer, url string, h http.Header, left time.Duration) error {
	key, holder, token := h.Get("Lock-Key"), h.Get("Lock-Holder"), h.Get("Fencing-Token")
	switch {
	case s.json:
		return json.NewEncoder(out).Encode(map[string]any{
			"url": url, "key": key, "holder": holder, "token": token, "left_ms": left.Milliseconds(),
			"headers": map[string]string{"Lock-Key": key, "Lock-Holder": holder, "Fencing-Token": token},
		})
	case s.env:
		for _, each := range [][2]string{{envURL, url}, {envKey, key}, {envHolder, holder}, {envToken, token}} {
			fmt.Fprintf(out, "export %s='%s'\n", each[0], strings.ReplaceAll(each[1], "'", `'\''`))
		}
	default:
		for _, name := range lockHeaders {
			fmt.Fprintf(out, "%s: %s\n", name, h.Get(name))
		}
	}
	return nil
}
