package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// errNotTheGateway: a success came that no gateway answers. It is not shown: it
// may have a holder in it.
var errNotTheGateway = &exitError{exitUnavailable, errors.New("what answered is not the gateway")}

func newLeaseRenew() *cobra.Command {
	var c claim
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "renew",
		Short: "Set the end of a lease to --ttl from now",
		Long:  "Exit code 76: it is lost, and can't be renewed.",
		Args:  usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			raw, err := c.post(cmd, "/v1/leases/renew", map[string]any{"ttl_ms": max(1, ttl.Milliseconds())})
			if err != nil {
				return err
			}
			var renewed struct {
				TTLMS int64 `json:"ttl_ms"`
			}
			if err := json.Unmarshal(raw, &renewed); err != nil || renewed.TTLMS <= 0 {
				return errNotTheGateway
			}
			return c.say(cmd, raw, fmt.Sprintf("%d ms left", renewed.TTLMS))
		},
	}
	c.flags(cmd)
	cmd.Flags().DurationVar(&ttl, "ttl", 30*time.Second, "length of the lease")
	return cmd
}

func newLeaseRelease() *cobra.Command {
	var c claim
	cmd := &cobra.Command{
		Use:   "release",
		Short: "Give a lock back",
		Long:  "Exit code 76: it was not held any more.",
		Args:  usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			raw, err := c.post(cmd, "/v1/leases/release", nil)
			if err != nil {
				return err
			}
			var done struct {
				Released *bool
				Reason   string
			}
			if err := json.Unmarshal(raw, &done); err != nil || done.Released == nil {
				return errNotTheGateway
			}
			if err := c.say(cmd, raw, cmp.Or(done.Reason, "released")); err != nil || *done.Released {
				return err
			}
			return &exitError{exitLost, errSaid}
		},
	}
	c.flags(cmd)
	return cmd
}

func (c claim) say(cmd *cobra.Command, raw []byte, text string) error {
	if c.json {
		text = strings.TrimSpace(string(raw))
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}

// claim is a lease that another command has taken.
type claim struct {
	reach
	file string
	json bool
}

func (c *claim) flags(cmd *cobra.Command) {
	c.reach.flags(cmd)
	cmd.Flags().StringVar(&c.file, "headers", "", "`file` with what acquire printed, - for the standard input; without it, FENCE_KEY, FENCE_HOLDER and FENCE_TOKEN")
	cmd.Flags().BoolVar(&c.json, "json", false, "print the gateway's answer, JSON")
}

// read returns the claim's three headers.
func (c claim) read(in io.Reader) (http.Header, error) {
	h := http.Header{}
	if c.file == "" {
		for i, name := range []string{envKey, envHolder, envToken} {
			h.Set(lockHeaders[i], os.Getenv(name))
		}
	} else {
		raw, err := readAll(c.file, in)
		if err != nil {
			return nil, err
		}
		lines := append(bytes.TrimSpace(raw), "\n\n"...)
		mime, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(lines))).ReadMIMEHeader()
		if err != nil {
			return nil, fmt.Errorf("reading the headers in %s: %w", c.file, err)
		}
		h = http.Header(mime)
	}
	for _, name := range lockHeaders {
		if h.Get(name) == "" {
			return nil, fmt.Errorf("there is no %s: give --headers FILE, or FENCE_KEY, FENCE_HOLDER and FENCE_TOKEN", name)
		}
	}
	return h, nil
}

func readAll(file string, in io.Reader) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(in)
	}
	return os.ReadFile(file)
}

// post sends the claim, and what more says, to one of the lease calls, and returns
// the answer's body.
func (c claim) post(cmd *cobra.Command, path string, more map[string]any) ([]byte, error) {
	h, err := c.read(cmd.InOrStdin())
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	body := map[string]any{"key": h.Get("Lock-Key"), "holder": h.Get("Lock-Holder"), "token": h.Get("Fencing-Token")}
	for name, value := range more {
		body[name] = value
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return c.exchange(cmd.Context(), http.MethodPost, path, raw)
}
