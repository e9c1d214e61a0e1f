package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// leaseState is LeaseState of openapi.yaml.
type leaseState struct {
	Key         string `json:"key"`
	RemainingMS int64  `json:"remaining_ms"`
	Mark        struct{ Token, State, Client string }
	OfMark      bool `json:"mark_holds_lease"`
}

func newLeaseList() *cobra.Command {
	var to reach
	var prefix string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the live leases",
		Args:  usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			if !asJSON {
				fmt.Fprintln(table, "KEY\tTOKEN\tLEFT\tCLIENT\t")
			}
			query := url.Values{"prefix": {prefix}}
			for {
				raw, err := to.exchange(cmd.Context(), http.MethodGet, "/v1/leases?"+query.Encode(), nil)
				if err != nil {
					return err
				}
				var page struct {
					Leases     []json.RawMessage
					NextCursor string `json:"next_cursor"`
				}
				if err := json.Unmarshal(raw, &page); err != nil {
					return err
				}
				for _, lease := range page.Leases {
					if err := printLease(cmd, table, lease, asJSON); err != nil {
						return err
					}
				}
				if page.NextCursor == "" {
					return table.Flush()
				}
				query.Set("cursor", page.NextCursor)
			}
		},
	}
	to.flags(cmd)
	cmd.Flags().StringVar(&prefix, "prefix", "", "only lock keys that begin with this `text`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the gateway's answer, JSON, a line for each lease")
	return cmd
}

func printLease(cmd *cobra.Command, table *tabwriter.Writer, raw json.RawMessage, asJSON bool) error {
	if asJSON {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), string(raw))
		return err
	}
	var l leaseState
	if err := json.Unmarshal(raw, &l); err != nil {
		return err
	}
	token, name := l.Mark.Token, l.Mark.Client
	if !l.OfMark {
		token, name = "-", "(taken past the gateway, or not granted yet)"
	}
	_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t\n", plain(l.Key), token, time.Duration(l.RemainingMS)*time.Millisecond, plain(name))
	return err
}

func newLeaseRevoke() *cobra.Command {
	var to reach
	var key, reason string
	var block time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "revoke --key KEY --reason TEXT",
		Short: "Cut off whoever holds a lock",
		Long: "Nothing is admitted under its token any more, its lease is gone, and nobody is granted\n" +
			"the key within --block. The reason is kept with the grant.",
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if key == "" || reason == "" {
				return &exitError{exitUsage, errors.New("--key and --reason are needed")}
			}
			body, err := json.Marshal(map[string]any{"key": key, "reason": reason, "block_ms": block.Milliseconds()})
			if err != nil {
				return err
			}
			raw, err := to.exchange(cmd.Context(), http.MethodPost, "/v1/leases/revoke", body)
			if err != nil {
				return err
			}
			var done struct {
				Token        string
				BlockedUntil string `json:"blocked_until"`
			}
			if err := json.Unmarshal(raw, &done); err != nil {
				return err
			}
			text := "revoked, token " + done.Token
			if done.BlockedUntil != "" {
				text += ", nobody is granted it until " + done.BlockedUntil
			}
			return claim{json: asJSON}.say(cmd, raw, text)
		},
	}
	to.flags(cmd)
	cmd.Flags().StringVar(&key, "key", "", "lock `key`")
	cmd.Flags().StringVar(&reason, "reason", "", "`text` for the record")
	cmd.Flags().DurationVar(&block, "block", 0, "how long nobody is granted the key; 0: whoever asks next is")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the gateway's answer, JSON")
	return cmd
}
