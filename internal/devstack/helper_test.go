package devstack

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// helperEnv makes the test binary start both servers, print their report, and
// stop them when its standard input ends.
const helperEnv = "FENCEGATE_DEVSTACK_HELPER"

// report is what the helper prints: one line of JSON.
type report struct {
	Postgres, Redis int // process ids
	URL             string
	Error           string
}

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		helper()
		return
	}
	os.Exit(m.Run())
}

func helper() {
	ctx := context.Background()
	var r report
	p, err := StartPostgres(ctx, PostgresConfig{})
	if err != nil {
		r.Error = err.Error()
		_ = json.NewEncoder(os.Stdout).Encode(r)
		return
	}
	s, err := StartRedis(ctx, RedisConfig{})
	if err != nil {
		r.Error = err.Error()
		_ = json.NewEncoder(os.Stdout).Encode(r)
		return
	}
	r = report{Postgres: p.PID(), Redis: s.PID(), URL: p.URL("postgres")}
	_ = json.NewEncoder(os.Stdout).Encode(r)
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := s.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err := p.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// startHelper starts cmd as a helper and returns what it reports; closing the
// writer asks it to stop.
func startHelper(t *testing.T, cmd *exec.Cmd) (report, io.Closer) {
	t.Helper()
	cmd.Env = append(cmd.Environ(), helperEnv+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	must(t, err)
	var r report
	must(t, json.Unmarshal(line, &r))
	return r, stdin
}

// useTempDir points os.TempDir at a directory of this test that the servers'
// user can enter, and returns it. Its path is short: sockets go into it.
func useTempDir(t *testing.T) string {
	t.Helper()
	dir := openDir(t)
	t.Setenv("TMPDIR", dir)
	return dir
}

// openDir is t.TempDir for other users to enter.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "fgtest")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o755))
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantEmpty fails the test if dir holds anything.
func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func query[T any](t *testing.T, url, sql string) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer conn.Close(t.Context())
	var value T
	must(t, conn.QueryRow(t.Context(), sql).Scan(&value))
	return value
}

func execute(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), sql)
	must(t, err)
}

func redisClient(t *testing.T, url string) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(url)
	must(t, err)
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}
