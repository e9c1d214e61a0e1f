package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
)

func newDemo() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Play the story of a paused worker, without and with the gateway",
		Long: "Plays it on servers of its own, as dev does, and prints a timeline. Exit code 0 only\n" +
			"if every step came out as it should.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			servers, err := startStack(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, servers.stop()) }()
			cfg, err := servers.config("127.0.0.1:0", "off", nil)
			if err != nil {
				return err
			}
			house, err := build(cmd.Context(), cfg, slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			ctx, stop := context.WithCancel(cmd.Context())
			ended := make(chan error, 1)
			go func() { ended <- house.run(ctx) }()
			err = play(ctx, cmd.OutOrStdout(), servers, house)
			stop()
			return errors.Join(err, <-ended)
		},
	}
}

// The demo's lease, and how long worker A stops: well past the lease.
const (
	demoLease = 2 * time.Second
	demoPause = 3 * time.Second
)

func play(ctx context.Context, out io.Writer, servers *stack, h *house) error {
	options, err := redis.ParseURL(servers.redisURL)
	if err != nil {
		return err
	}
	lock := redis.NewClient(options)
	defer lock.Close()
	d := &demo{
		ctx: ctx, out: out,
		direct: directWorkers{pool: h.pools.writes, lock: lock},
		fenced: fencedWorkers{base: "http://" + h.public.Addr().String()},
	}
	fmt.Fprintln(out, "Two workers sell from one shelf: each takes the lock, reads how many are left,\nand writes one less. The lock is a lease of 2 s in Redis. Worker A stops for 3 s.")
	if err := d.withoutFence(); err != nil {
		return fmt.Errorf("without the gateway: %w", err)
	}
	if err := d.withFence(); err != nil {
		return fmt.Errorf("through the gateway: %w", err)
	}
	fmt.Fprintln(out, "\nEvery step came out as it should.")
	return nil
}

// demo prints what happens as it happens, with the time since the scene began.
type demo struct {
	ctx    context.Context
	out    io.Writer
	began  time.Time
	direct directWorkers
	fenced fencedWorkers
}

func (d *demo) scene(title string) {
	fmt.Fprintf(d.out, "\n%s\n", title)
	d.began = time.Now()
}

func (d *demo) say(who, format string, args ...any) {
	fmt.Fprintf(d.out, "  %5.2f s  %-10s %s\n", time.Since(d.began).Seconds(), who, fmt.Sprintf(format, args...))
}

// pauseUntil is the pause itself: nothing is awaited, the worker just stops.
func (d *demo) pauseUntil(offset time.Duration) error {
	select {
	case <-time.After(time.Until(d.began.Add(offset))):
		return nil
	case <-d.ctx.Done():
		return d.ctx.Err()
	}
}

// patiently tries until take says that it got the lock.
func (d *demo) patiently(take func() (bool, error)) error {
	for {
		ok, err := take()
		if ok || err != nil {
			return err
		}
		if err := d.pauseUntil(time.Since(d.began) + 50*time.Millisecond); err != nil {
			return err
		}
	}
}

func expect[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: got %v, expected %v", what, got, want)
	}
	return nil
}
