package testenv

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// wiredRedis is one connection over a wire, without retries, warm.
func wiredRedis(t *testing.T) (*Wire, *redis.Client, string) {
	t.Helper()
	address, prefix := Redis(t)
	w := NewWire(t, address)
	options, err := redis.ParseURL(w.URL())
	if err != nil {
		t.Fatal(err)
	}
	options.PoolSize, options.MaxRetries, options.DialerRetries = 1, -1, 1
	options.PipelinePoolSize = -1 // pipelines go over the one connection, too
	options.ContextTimeoutEnabled = true
	c := redis.NewClient(options)
	t.Cleanup(func() { c.Close() })
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	w.Reset()
	return w, c, prefix
}

func TestWireCountsRoundTripsToRedis(t *testing.T) {
	w, c, prefix := wiredRedis(t)
	for range 3 {
		if err := c.Incr(t.Context(), prefix+"n").Err(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		for range 50 {
			p.Incr(t.Context(), prefix+"n")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if w.Requests() != 4 || w.RoundTrips() != 4 {
		t.Errorf("%d requests, %d round trips, want 4", w.Requests(), w.RoundTrips())
	}
}

func TestWireCountsRoundTripsToPostgres(t *testing.T) {
	w := NewWire(t, Postgres(t).URL)
	conn, err := pgx.Connect(t.Context(), w.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	run := func() {
		var batch pgx.Batch
		batch.Queue("SELECT $1::int", 1)
		batch.Queue("SELECT repeat('x', 1000000), $1::int", 2) // an answer in many pieces
		if err := conn.SendBatch(t.Context(), &batch).Close(); err != nil {
			t.Fatal(err)
		}
	}
	run()
	w.Reset()
	run()
	if w.Requests() != 1 || w.RoundTrips() != 1 {
		t.Errorf("%d requests, %d round trips, want 1", w.Requests(), w.RoundTrips())
	}
}

func TestWireHoldsOneMessage(t *testing.T) {
	w, c, prefix := wiredRedis(t)
	direct := client(t, mustStart(t, sharedRedis))
	get := func() string { return direct.Get(t.Context(), prefix+"k").Val() }
	before, after := "unset", "unset"
	w.OnRequest(2, func() bool { before = get(); return true })
	w.OnReply(2, func() bool { after = get(); return true })
	for _, value := range []string{"1", "2", "3"} {
		if err := c.Set(t.Context(), prefix+"k", value, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if before != "1" || after != "2" {
		t.Errorf("before the second request %q, before its reply %q", before, after)
	}
}

func TestWireSwallowsWhatAHookSays(t *testing.T) {
	for name, drop := range map[string]struct {
		arm  func(*Wire)
		want string
	}{
		"request": {func(w *Wire) { w.OnRequest(1, func() bool { return false }) }, ""},
		"reply":   {func(w *Wire) { w.OnReply(1, func() bool { return false }) }, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			w, c, prefix := wiredRedis(t)
			drop.arm(w)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := c.Set(ctx, prefix+"k", "1", 0).Err(); err == nil {
				t.Error("it was answered")
			}
			w.Settle()
			if got := client(t, mustStart(t, sharedRedis)).Get(t.Context(), prefix+"k").Val(); got != drop.want {
				t.Errorf("the server has %q, want %q", got, drop.want)
			}
		})
	}
}

func TestWireBreaksAndMends(t *testing.T) {
	for name, damage := range map[string]struct {
		do   func(*Wire)
		want error
		done string // what the server has got of SET k 1
	}{
		"cut and refused": {(*Wire).Down, syscall.ECONNREFUSED, ""},
		"black hole":      {(*Wire).BlackHole, os.ErrDeadlineExceeded, ""},
		"replies dropped": {(*Wire).DropReplies, os.ErrDeadlineExceeded, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			w, c, prefix := wiredRedis(t)
			damage.do(w)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			err := c.Set(ctx, prefix+"k", "1", 0).Err()
			if !errors.Is(err, damage.want) {
				err = c.Set(ctx, prefix+"k", "1", 0).Err() // the first met the cut connection
			}
			if !errors.Is(err, damage.want) {
				t.Errorf("broken: %v, want %v", err, damage.want)
			}
			w.Mend(t)
			c, again := redialled(t, w)
			if got := c.Get(t.Context(), prefix+"k").Val(); got != damage.done {
				t.Errorf("the server has %q, want %q", got, damage.done)
			}
			if again == 0 {
				t.Error("nothing went over the mended wire")
			}
		})
	}
}

// redialled is a new client over w: the old one takes a second to believe that
// it may connect again.
func redialled(t *testing.T, w *Wire) (*redis.Client, int) {
	t.Helper()
	w.Reset()
	c := client(t, w.URL())
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	return c, w.RoundTrips()
}

func TestWireRefusesAndKeepsWhatIsOpen(t *testing.T) {
	w, c, prefix := wiredRedis(t)
	w.Refuse()
	if err := c.Set(t.Context(), prefix+"k", "1", 0).Err(); err != nil {
		t.Error(err)
	}
}
