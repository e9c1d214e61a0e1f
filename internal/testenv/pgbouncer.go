package testenv

import (
	"context"
	"testing"

	"github.com/fencegate/fencegate/internal/devstack"
)

// PgBouncer starts a PgBouncer in transaction mode for this test alone, in front
// of the server that postgresURL names, with size connections to each of its
// databases. It stops at the test's end.
func PgBouncer(t testing.TB, postgresURL string, size int, settings map[string]string) *devstack.PgBouncer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	server, err := devstack.StartPgBouncer(ctx, devstack.PgBouncerConfig{Postgres: postgresURL, PoolSize: size, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}
