package client_test

import (
	"context"
	"errors"
	"testing"

	"github.com/fencegate/fencegate/client"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestWithLock(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	c := newClient(t, g.URL)
	free := func(t *testing.T, key string) {
		t.Helper()
		release(t, acquire(t, c, key), true)
	}
	failed := errors.New("the work failed")
	for name, c := range map[string]struct {
		does  func(*client.Lease) error
		kinds []error
		not   []error
	}{
		"GivesTheLockBack":            {does: func(l *client.Lease) error { return nil }},
		"ReturnsTheWorksError":        {does: func(*client.Lease) error { return failed }, kinds: []error{failed}, not: []error{client.ErrLost}},
		"TellsALossThatTheWorkDidNot": {does: func(l *client.Lease) error { giveAway(t, g, l); l.Renew(t.Context()); return nil }, kinds: []error{client.ErrLost, client.ErrStale}},
		"TellsBoth":                   {does: func(l *client.Lease) error { giveAway(t, g, l); l.Renew(t.Context()); return failed }, kinds: []error{client.ErrLost, failed}},
		"TellsALossThatOnlyEndShowed": {does: func(l *client.Lease) error { expel(t, g, l); return nil }, kinds: []error{client.ErrLost}, not: []error{client.ErrStale}},
		"AllowsAReleaseByTheWork":     {does: func(l *client.Lease) error { _, err := l.Release(t.Context()); return err }, not: []error{client.ErrLost}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := "order:" + name
			err := newClient(t, g.URL).WithLock(t.Context(), key, func(ctx context.Context, l *client.Lease) error {
				if ctx.Err() != nil {
					t.Error(ctx.Err())
				}
				return c.does(l)
			}, client.TTL(long))
			if len(c.kinds) == 0 && err != nil {
				t.Error(err)
			}
			is(t, err, c.kinds...)
			isNot(t, err, c.not...)
			free(t, key)
		})
	}
	t.Run("GivesTheLockBackAfterAPanic", func(t *testing.T) {
		t.Parallel()
		defer func() {
			if recover() != failed {
				t.Error("the panic did not go on")
			}
			free(t, "order:panic")
		}()
		c.WithLock(t.Context(), "order:panic", func(context.Context, *client.Lease) error { panic(failed) }, client.TTL(long))
	})
}

// expel has the lock granted to somebody else, who gives it back, without the
// lease's hearing of it.
func expel(t *testing.T, g *testenv.Gateway, l *client.Lease) {
	t.Helper()
	giveAway(t, g, l)
	other := g.Acquire(t, l.Key(), 0)
	g.Release(t, other)
}
