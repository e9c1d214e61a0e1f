package devstack

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestNotInstalled(t *testing.T) {
	empty := t.TempDir()
	_, err := StartPostgres(t.Context(), PostgresConfig{BinDir: empty})
	if !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), empty) || !strings.Contains(err.Error(), "install") {
		t.Errorf("postgres: %v", err)
	}
	_, err = StartRedis(t.Context(), RedisConfig{Path: filepath.Join(empty, "redis-server")})
	if !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), empty) {
		t.Errorf("redis: %v", err)
	}
}

func TestNotFoundAnywhere(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Cleanup(func(globs, dirs []string) func() {
		return func() { postgresGlobs, redisDirs = globs, dirs }
	}(postgresGlobs, redisDirs))
	postgresGlobs, redisDirs = []string{"/no-such/*/bin"}, []string{"/no-such"}
	if _, err := findPostgres(t.Context(), ""); !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "/no-such/*/bin") {
		t.Errorf("postgres: %v", err)
	}
	if _, err := findRedis(""); !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "/no-such") {
		t.Errorf("redis: %v", err)
	}
}

func TestFoundOffPath(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if dir, err := findPostgres(t.Context(), ""); err != nil || !hasPostgres(dir) {
		t.Skipf("PostgreSQL is only on PATH here: %v", err)
	}
}

func TestNewestFirst(t *testing.T) {
	base := t.TempDir()
	for _, version := range []string{"9.6", "17", "latest", "10", "16"} {
		must(t, os.MkdirAll(filepath.Join(base, "pg", version, "bin"), 0o755))
	}
	var order []string
	for _, dir := range newestFirst([]string{filepath.Join(base, "pg", "*", "bin")}) {
		order = append(order, filepath.Base(filepath.Dir(dir)))
	}
	if want := []string{"17", "16", "10", "9.6", "latest"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}
