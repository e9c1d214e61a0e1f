package devstack

import (
	"bytes"
	"strings"
	"testing"
)

func TestPgBouncer(t *testing.T) {
	temp := useTempDir(t)
	p := startTestPostgres(t, PostgresConfig{})
	var log bytes.Buffer
	b, err := StartPgBouncer(t.Context(), PgBouncerConfig{Postgres: p.URL("postgres"), PoolSize: 1, Log: &log})
	must(t, err)
	t.Cleanup(func() { must(t, b.Stop()) })
	through := b.URL("postgres") + "&default_query_exec_mode=exec" // it keeps no prepared statements apart
	first := query[int](t, through, "SELECT pg_backend_pid()")
	if second := query[int](t, through, "SELECT pg_backend_pid()"); second != first {
		t.Errorf("a second client has server %d and not %d", second, first)
	}
	must(t, b.Kill())
	must(t, b.Restart(t.Context()))
	if got := query[int](t, through, "SELECT 7"); got != 7 {
		t.Errorf("after a kill: %d", got)
	}
	if _, err := StartPgBouncer(t.Context(), PgBouncerConfig{Postgres: p.URL("postgres"), Settings: map[string]string{"pool_mode": "none"}}); err == nil {
		t.Error("a mode that there is none of")
	}
	must(t, b.Stop())
	if !strings.Contains(log.String(), "process up") {
		t.Errorf("log: %s", &log)
	}
	must(t, p.Stop())
	wantEmpty(t, temp)
}
