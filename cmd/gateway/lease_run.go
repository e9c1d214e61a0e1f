package main

import (
	"cmp"
	"context"
	"encoding/json"
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
		Long: "Takes the lock, or all of several, runs the command in a process group of its own, renews,\n" +
			"and gives the locks back at its end. In the command's environment are FENCE_URL, FENCE_KEY,\n" +
			"FENCE_HOLDER and FENCE_TOKEN of the first lock, and FENCE_LOCKS: all of them, as the member\n" +
			"locks of a transaction takes them.\n" +
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
func (r leaseRun) slack() time.Duration { return r.ttl/50 + 50*time.Millisecond }

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
	gateway, err := r.sdk(r.client)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, heeded(syscall.SIGINT, syscall.SIGHUP)...)
	defer signal.Stop(signals)
	leases, err := r.acquire(ctx, gateway, signals, options)
	if err != nil || leases == nil { // skipped
		return err
	}
	return r.hold(leases, args, signals)
}

// acquire takes the locks; the first signal ends the waiting for them. The leases
// themselves outlive signals: they are the command's to act on.
func (r leaseRun) acquire(ctx context.Context, gateway *client.Client, signals <-chan os.Signal, options []client.Option) ([]*client.Lease, error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	taken, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case s := <-signals:
			cancel(&exitError{128 + int(s.(syscall.Signal)), fmt.Errorf("%s while waiting for %s", s, r)})
		case <-taken:
		}
	}()
	leases, err := gateway.AcquireAll(ctx, r.keys, options...)
	close(taken)
	<-watched
	if ended := context.Cause(ctx); ended != nil {
		_, _ = giveBack(ctx, leases)
		return nil, ended
	}
	return leases, r.exit(err)
}

// hold runs the command to its end, or to that of a lease, and gives the locks
// back.
func (r leaseRun) hold(leases []*client.Lease, args []string, signals <-chan os.Signal) error {
	g, err := startGroup(args, append(os.Environ(), r.environment(leases)...))
	if err != nil {
		_, _ = giveBack(context.Background(), leases)
		return err
	}
	lost := r.attend(g, leases, signals)
	patience := 5 * time.Second
	if lost != nil { // what is left of it runs out, and maybe nobody answers
		patience = time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ours, err := giveBack(ctx, leases)
	switch {
	case lost != nil:
		return &exitError{exitLost, lost}
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

// giveBack releases the leases, and returns whether all were still held.
func giveBack(ctx context.Context, leases []*client.Lease) (ours bool, err error) {
	ours = true
	for _, l := range leases {
		held, failed := l.Release(ctx)
		ours, err = ours && held, errors.Join(err, failed)
	}
	return ours, err
}

// environment hands the leases on: the first by its parts, all as a transaction
// takes them.
func (r leaseRun) environment(leases []*client.Lease) []string {
	type lock struct {
		Key    string `json:"key"`
		Holder string `json:"holder"`
		Token  string `json:"token"`
	}
	var all []lock
	for _, l := range leases {
		h := l.Headers()
		all = append(all, lock{h.Get("Lock-Key"), h.Get("Lock-Holder"), h.Get("Fencing-Token")})
	}
	locks, _ := json.Marshal(all) // strings always marshal
	return append(r.reach.environment(), envKey+"="+all[0].Key, envHolder+"="+all[0].Holder,
		envToken+"="+all[0].Token, envLocks+"="+string(locks))
}

// attend passes signals on until nothing of the group is left, which it brings
// about when the command itself has ended, and in time when a lease is lost. It
// returns why one was.
func (r leaseRun) attend(g *group, leases []*client.Lease, signals <-chan os.Signal) (why error) {
	lost := make(chan *client.Lease, len(leases))
	for _, l := range leases {
		defer context.AfterFunc(l.Context(), func() { lost <- l })()
	}
	ended, killed := g.ended, false
	var kill, look <-chan time.Time
	var killAt time.Time
	stop := func(left time.Duration) {
		g.signal(syscall.SIGTERM)
		if at := time.Now().Add(left); killAt.IsZero() || at.Before(killAt) {
			kill, killAt = time.After(left), at
		}
	}
	for ended != nil || !killed && g.alive() {
		select {
		case <-ended:
			// What it leaves behind is not to go on once the locks are given back.
			ended = nil
			look = time.Tick(10 * time.Millisecond) // nobody tells of grandchildren
			stop(r.killAfter)
		case s := <-signals:
			g.signal(s.(syscall.Signal))
		case l := <-lost:
			why = cmp.Or(why, over(l))
			left := max(0, l.Grace()-r.slack())
			stop(left)
			// Whoever reads this may be stuck: the kill does not wait for it.
			go fmt.Fprintf(os.Stderr, "gateway: the command is stopped, and killed in %s: %v\n", left.Round(time.Millisecond), why)
		case <-kill:
			killed = true
			g.signal(syscall.SIGKILL)
		case <-look:
		}
	}
	for _, l := range leases {
		why = cmp.Or(why, over(l))
	}
	return why
}

// over returns why the lease is over, and nil if it is not.
func over(l *client.Lease) error {
	if err := l.Err(); err != nil {
		return fmt.Errorf("the lease of %q is over: %w", l.Key(), err)
	}
	return nil
}
