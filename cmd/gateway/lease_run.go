package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencegate/fencegate/client"
)

func newLeaseRun() *cobra.Command {
	var r leaseRun
	cmd := &cobra.Command{
		Use:   "run --key KEY [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command while holding a lock",
		Long: "Takes the lock, runs the command in a process group of its own with FENCE_URL, FENCE_KEY,\n" +
			"FENCE_HOLDER and FENCE_TOKEN in its environment, renews, and gives the lock back at its end.\n" +
			"When the lease is lost, or can't be renewed, the group gets SIGTERM and, before the lease's\n" +
			"time is over, SIGKILL. SIGINT, SIGTERM and SIGHUP are passed on to the group.\n\n" +
			"Exit code: the command's own, 128 and the signal's number if one ended it; 76 if the lease\n" +
			"was lost; 75 if the lock is held and --if-busy is not skip; 69 if there is no gateway; 64\n" +
			"for wrong usage; 126 and 127 if the command can't be run, or found.",
		Args: usage(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args) },
	}
	r.flags(cmd)
	cmd.Flags().DurationVar(&r.killAfter, "kill-after", 5*time.Second,
		"time between SIGTERM and SIGKILL when the lease is lost; a third of --ttl at most")
	return cmd
}

// leaseRun runs one command under one lease.
type leaseRun struct {
	taking
	killAfter time.Duration
}

// slack is what the SIGKILL keeps from the lease's very end.
func (r leaseRun) slack() time.Duration { return r.ttl/100 + 20*time.Millisecond }

func (r leaseRun) run(ctx context.Context, args []string) error {
	if r.killAfter < 0 {
		return &exitError{exitUsage, errors.New("--kill-after is not negative")}
	}
	// Trust ends so early that what is to be stopped has time to.
	grace := min(r.killAfter, r.ttl/3)
	options, err := r.options(client.Margin(grace + r.slack()))
	if err != nil {
		return &exitError{exitUsage, err}
	}
	gateway, err := client.New(client.Config{URL: r.url, Client: r.client, Patience: callPatience})
	if err != nil {
		return &exitError{exitUsage, err}
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	lease, err := r.acquire(ctx, gateway, signals, options)
	if err != nil {
		return err
	}
	if lease == nil {
		return nil // skipped
	}
	return r.hold(lease, args, signals)
}

// acquire takes the lock; the first signal ends the waiting for it. The lease
// itself outlives signals: they are the command's to act on.
func (r leaseRun) acquire(ctx context.Context, gateway *client.Client, signals <-chan os.Signal, options []client.Option) (*client.Lease, error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	taken, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case s := <-signals:
			cancel(&exitError{128 + int(s.(syscall.Signal)), fmt.Errorf("%s while waiting for %q", s, r.key)})
		case <-taken:
		}
	}()
	lease, err := gateway.Acquire(ctx, r.key, options...)
	close(taken)
	<-watched
	if ended := context.Cause(ctx); ended != nil {
		if lease != nil {
			_, _ = lease.Release(ctx)
		}
		return nil, ended
	}
	return lease, r.exit(err)
}

// hold runs the command to its end, or to that of the lease, and gives the lock
// back.
func (r leaseRun) hold(lease *client.Lease, args []string, signals <-chan os.Signal) error {
	g, err := startGroup(args, append(os.Environ(), r.environment(lease)...))
	if err != nil {
		_, _ = lease.Release(context.Background())
		return err
	}
	lost := r.attend(g, lease, signals)
	// Lost, it is there for minutes at most, and maybe nobody answers.
	patience := 5 * time.Second
	if lost {
		patience = time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	why := lease.Err()
	ours, err := lease.Release(ctx)
	switch {
	case lost:
		return &exitError{exitLost, why}
	case err != nil:
		fmt.Fprintln(os.Stderr, "gateway:", err) // it runs out by itself
	case !ours:
		return &exitError{exitLost, fmt.Errorf("%w: it was not held any more at the command's end", client.ErrLost)}
	}
	if g.code() == 0 {
		return nil
	}
	return &exitError{g.code(), errSaid}
}

func (r leaseRun) environment(lease *client.Lease) []string {
	h := lease.Headers()
	return []string{
		envURL + "=" + r.url, envKey + "=" + h.Get("Lock-Key"),
		envHolder + "=" + h.Get("Lock-Holder"), envToken + "=" + h.Get("Fencing-Token"),
	}
}

// attend passes signals on until nothing of the group is left, which it brings
// about when the command itself has ended, and in time when the lease is lost.
func (r leaseRun) attend(g *group, lease *client.Lease, signals <-chan os.Signal) (lost bool) {
	look := time.NewTicker(10 * time.Millisecond) // nobody tells of grandchildren
	defer look.Stop()
	trust, ended, killed := lease.Context().Done(), g.ended, false
	var kill <-chan time.Time
	for ended != nil || !killed && g.alive() {
		select {
		case <-ended:
			// What it leaves behind is not to go on once the lock is given back.
			ended = nil
			g.signal(syscall.SIGTERM)
			if kill == nil {
				kill = time.After(r.killAfter)
			}
		case s := <-signals:
			g.signal(s.(syscall.Signal))
		case <-trust:
			lost, trust = true, nil
			left := max(0, lease.Grace()-r.slack())
			fmt.Fprintf(os.Stderr, "gateway: the lease of %q is over; its command is stopped, and killed in %s: %v\n", r.key, left.Round(time.Millisecond), lease.Err())
			g.signal(syscall.SIGTERM)
			kill = time.After(left)
		case <-kill:
			killed = true
			g.signal(syscall.SIGKILL)
		case <-look.C:
		}
	}
	return lost || lease.Err() != nil
}
