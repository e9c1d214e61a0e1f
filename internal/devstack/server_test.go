package devstack

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func startTestPostgres(t *testing.T, config PostgresConfig) *Postgres {
	t.Helper()
	p, err := StartPostgres(t.Context(), config)
	must(t, err)
	t.Cleanup(func() { must(t, p.Stop()) })
	return p
}

func startTestRedis(t *testing.T, config RedisConfig) *Redis {
	t.Helper()
	r, err := StartRedis(t.Context(), config)
	must(t, err)
	t.Cleanup(func() { must(t, r.Stop()) })
	return r
}

func TestPostgresLeavesNothing(t *testing.T) {
	temp := useTempDir(t)
	p := startTestPostgres(t, PostgresConfig{Settings: map[string]string{"work_mem": "5MB"}})
	for setting, want := range map[string]string{
		"work_mem": "5MB", "fsync": "off", "synchronous_commit": "on", "max_connections": "300",
	} {
		if got := query[string](t, p.URL("postgres"), "SHOW "+setting); got != want {
			t.Errorf("%s = %s, want %s", setting, got, want)
		}
	}
	must(t, p.Stop())
	must(t, p.Stop())
	<-p.Done()
	if err := p.Err(); err != nil {
		t.Errorf("after Stop: %v", err)
	}
	wantEmpty(t, temp)
	if err := p.Restart(t.Context()); !errors.Is(err, errStopped) {
		t.Errorf("Restart after Stop: %v", err)
	}
}

func TestPostgresKilled(t *testing.T) {
	temp := useTempDir(t)
	p := startTestPostgres(t, PostgresConfig{})
	url := p.URL("postgres")
	execute(t, url, "CREATE TABLE kept AS SELECT 7 AS n")
	failed := spin(t, url)
	must(t, p.Kill())
	if err := <-failed; err == nil {
		t.Error("the backend's client saw no error")
	}
	select {
	case <-p.Done():
	default:
		t.Error("not done after Kill")
	}
	must(t, p.Restart(t.Context()))
	if n := query[int](t, url, "SELECT n FROM kept"); n != 7 {
		t.Errorf("n = %d", n)
	}
	must(t, p.Halt())
	must(t, p.Restart(t.Context()))
	must(t, p.Kill())
	must(t, p.Stop())
	wantEmpty(t, temp)
}

// spin keeps a backend too busy to notice that its postmaster has gone, and
// returns, once it is, what its client will be told.
func spin(t *testing.T, url string) <-chan error {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	must(t, err)
	spinning, failed := make(chan struct{}), make(chan error, 1)
	config.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) { close(spinning) }
	conn, err := pgx.ConnectConfig(t.Context(), config)
	must(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	go func() {
		_, err := conn.Exec(context.Background(), "DO $$ BEGIN RAISE NOTICE 'go'; LOOP END LOOP; END $$")
		failed <- err
	}()
	<-spinning
	return failed
}

func TestPostgresDiesByItself(t *testing.T) {
	useTempDir(t)
	p := startTestPostgres(t, PostgresConfig{})
	process, err := os.FindProcess(p.PID())
	must(t, err)
	must(t, process.Signal(os.Interrupt))
	<-p.Done()
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "database system is shut down") {
		t.Errorf("Err() = %v", err)
	}
}

func TestPostgresKeepsDataDir(t *testing.T) {
	useTempDir(t)
	data := filepath.Join(openDir(t), "a", "b")
	var log bytes.Buffer
	p := startTestPostgres(t, PostgresConfig{DataDir: data, Log: &log})
	execute(t, p.URL("postgres"), "CREATE TABLE kept AS SELECT 7 AS n")
	if got := query[string](t, p.URL("postgres"), "SHOW fsync"); got != "on" {
		t.Errorf("fsync = %s", got)
	}
	if _, err := StartPostgres(t.Context(), PostgresConfig{DataDir: data}); err == nil || !strings.Contains(err.Error(), "postmaster.pid") {
		t.Errorf("a second server on the same directory: %v", err)
	}
	must(t, p.Stop())
	if !strings.Contains(log.String(), "database system is shut down") {
		t.Errorf("log: %s", &log)
	}
	p = startTestPostgres(t, PostgresConfig{DataDir: data})
	if n := query[int](t, p.URL("postgres"), "SELECT n FROM kept"); n != 7 {
		t.Errorf("n = %d", n)
	}
}

func TestPostgresStartErrors(t *testing.T) {
	temp := useTempDir(t)
	_, err := StartPostgres(t.Context(), PostgresConfig{Settings: map[string]string{"work_mem": "many"}})
	if err == nil || !strings.Contains(err.Error(), `invalid value for parameter "work_mem"`) {
		t.Errorf("bad setting: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := StartPostgres(ctx, PostgresConfig{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	wantEmpty(t, temp)
}

func TestPostgresPaused(t *testing.T) {
	useTempDir(t)
	p := startTestPostgres(t, PostgresConfig{})
	conn, err := pgx.Connect(t.Context(), p.URL("postgres"))
	must(t, err)
	defer conn.Close(t.Context())
	must(t, p.Pause())
	answer := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.WithoutCancel(t.Context()), "SELECT 1")
		answer <- err
	}()
	must(t, p.Resume())
	must(t, <-answer)
	must(t, p.Pause())
	must(t, p.Stop())
	if err := p.Pause(); err == nil {
		t.Error("paused after Stop")
	}
}

func TestRedis(t *testing.T) {
	temp := useTempDir(t)
	r := startTestRedis(t, RedisConfig{Args: []string{"--maxmemory", "64mb"}})
	client := redisClient(t, r.URL())
	must(t, client.Set(t.Context(), "k", "v", 0).Err())
	if got := client.ConfigGet(t.Context(), "max*").Val(); got["maxmemory"] != "67108864" || got["maxmemory-policy"] != "noeviction" {
		t.Errorf("config: %v", got)
	}
	must(t, r.Kill())
	must(t, r.Restart(t.Context()))
	if n := client.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys survived in memory", n)
	}
	must(t, r.Stop())
	must(t, r.Stop())
	wantEmpty(t, temp)
}

func TestRedisKeepsDataDir(t *testing.T) {
	useTempDir(t)
	data := filepath.Join(openDir(t), "redis")
	r := startTestRedis(t, RedisConfig{DataDir: data})
	client := redisClient(t, r.URL())
	must(t, client.Set(t.Context(), "k", "v", 0).Err())
	must(t, r.Kill())
	must(t, r.Restart(t.Context()))
	if got := client.Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("after a kill: %q", got)
	}
	if _, err := StartRedis(t.Context(), RedisConfig{DataDir: data}); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("a second server on the same directory: %v", err)
	}
	must(t, r.Stop())
	r = startTestRedis(t, RedisConfig{DataDir: data})
	if got := redisClient(t, r.URL()).Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("after a stop: %q", got)
	}
}

func TestRedisPort(t *testing.T) {
	useTempDir(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	port := listener.Addr().(*net.TCPAddr).Port
	if _, err := StartRedis(t.Context(), RedisConfig{Port: port}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a taken port: %v", err)
	}
	must(t, listener.Close())
	r := startTestRedis(t, RedisConfig{Port: port})
	must(t, redisClient(t, r.URL()).Ping(t.Context()).Err())
}
