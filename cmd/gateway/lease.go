package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencegate/fencegate/client"
)

// Exit codes of the lease commands, after sysexits.h where it has one.
const (
	exitUsage       = 64 // wrong arguments, or a request that the gateway refuses
	exitUnavailable = 69 // no answer from the gateway, or none but "later"
	exitBusy        = 75 // somebody else has the lock
	exitLost        = 76 // the lease was lost
)

// What hands a lease on to a command, and from there to the next.
const (
	envURL                             = "FENCE_URL"
	envCAFile, envCertFile, envKeyFile = "FENCE_CA_FILE", "FENCE_CERT_FILE", "FENCE_KEY_FILE"
	envKey                             = "FENCE_KEY"
	envHolder                          = "FENCE_HOLDER"
	envToken                           = "FENCE_TOKEN"
	envLocks                           = "FENCE_LOCKS" // JSON, as a transaction takes them
)

const defaultURL = "http://127.0.0.1:8080"

func newLease() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lease",
		Short: "Take, keep and give back locks; run a command under them; see and revoke them",
		Long: "Talks to a running gateway: --url, or FENCE_URL, or " + defaultURL + ".\n" + credentialHelp + "\n\n" +
			"Exit codes: 64 wrong usage, or refused by the gateway; 69 no gateway; 75 the lock is\n" +
			"held by somebody else; 76 the lease is lost.",
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newLeaseRun(), newLeaseAcquire(), newLeaseRenew(), newLeaseRelease(), newLeaseList(), newLeaseRevoke())
	for _, each := range append(cmd.Commands(), cmd) {
		each.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &exitError{exitUsage, err} })
	}
	return cmd
}

// usage makes what check finds wrong with the arguments a usage error.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &exitError{exitUsage, err}
		}
		return nil
	}
}

// taking is how a lock is to be taken.
type taking struct {
	reach
	client, busy string
	keys         []string
	ttl, wait    time.Duration
}

func (t *taking) flags(cmd *cobra.Command) {
	host, _ := os.Hostname() // "" is a name, too
	t.reach.flags(cmd)
	cmd.Flags().StringArrayVar(&t.keys, "key", nil, "lock `key`; given more than once, all are taken or none")
	cmd.Flags().StringVar(&t.client, "client", host, "`name` for the gateway's records; it proves nothing")
	cmd.Flags().DurationVar(&t.ttl, "ttl", 30*time.Second, "length of the lease")
	cmd.Flags().DurationVar(&t.wait, "wait", 10*time.Second, "how long to wait for a lock that is held, with --if-busy wait")
	cmd.Flags().StringVar(&t.busy, "if-busy", "wait", "when the lock is held: `wait`, fail (exit code 75) or skip (exit code 0)")
}

// options returns what the SDK is asked, with more.
func (t taking) options(more ...client.Option) ([]client.Option, error) {
	switch {
	case len(t.keys) == 0:
		return nil, errors.New("--key is needed")
	case t.ttl < time.Millisecond:
		return nil, errors.New("--ttl is at least 1ms")
	case t.busy != "wait" && t.busy != "fail" && t.busy != "skip":
		return nil, fmt.Errorf("--if-busy is wait, fail or skip, not %q", t.busy)
	}
	more = append(more, client.TTL(t.ttl))
	if t.busy == "wait" {
		more = append(more, client.Wait(t.wait))
	}
	return more, nil
}

// exit gives an error of the SDK's its exit code. skip makes a lock that is held
// no error.
func (t taking) exit(err error) error {
	switch {
	case errors.Is(err, client.ErrHeld) && t.busy == "skip":
		fmt.Fprintf(os.Stderr, "gateway: %s held by somebody else, skipped\n", t)
		return nil
	case errors.Is(err, client.ErrHeld):
		return &exitError{exitBusy, fmt.Errorf("%s held by somebody else: %w", t, err)}
	}
	return exitOf(err)
}

// String names the locks.
func (t taking) String() string { return fmt.Sprintf("%q", t.keys) }

func exitOf(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, client.ErrLost):
		return &exitError{exitLost, err}
	case errors.Is(err, client.ErrUnavailable):
		return &exitError{exitUnavailable, err}
	}
	return &exitError{exitUsage, err}
}
