package devstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrNotInstalled is wrapped by the start functions when a server's programs
// are not on this machine; the error names the places searched and how to
// install them.
var ErrNotInstalled = errors.New("not installed")

// postgresGlobs are where packages put the server programs outside of PATH.
var postgresGlobs = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/usr/libexec/postgresql*",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// redisNames: Valkey takes the same arguments, and is what newer systems ship.
var redisNames = []string{"redis-server", "valkey-server"}

// redisDirs are searched after PATH, which of an ordinary user may lack sbin.
var redisDirs = []string{"/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin"}

// sbinDirs are searched after PATH, like redisDirs.
var sbinDirs = []string{"/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin"}

// findPostgres returns the directory that holds initdb and postgres.
func findPostgres(ctx context.Context, explicit string) (string, error) {
	if explicit != "" {
		if hasPostgres(explicit) {
			return filepath.Abs(explicit)
		}
		return "", notInstalled("PostgreSQL's server programs (initdb, postgres)", explicit)
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil && hasPostgres(filepath.Dir(real)) {
			return filepath.Abs(filepath.Dir(real))
		}
	}
	if dir := pgConfigDir(ctx); hasPostgres(dir) {
		return dir, nil
	}
	for _, dir := range newestFirst(postgresGlobs) {
		if hasPostgres(dir) {
			return dir, nil
		}
	}
	tried := append([]string{"PATH", "`pg_config --bindir`"}, postgresGlobs...)
	return "", notInstalled("PostgreSQL's server programs (initdb, postgres)", tried...)
}

// findRedis returns the path of the Redis server program.
func findRedis(explicit string) (string, error) {
	if explicit != "" {
		if isProgram(explicit) {
			return filepath.Abs(explicit)
		}
		return "", notInstalled("Redis's server program", explicit)
	}
	for _, name := range redisNames {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
		for _, dir := range redisDirs {
			if path := filepath.Join(dir, name); isProgram(path) {
				return path, nil
			}
		}
	}
	tried := append([]string{"PATH"}, redisDirs...)
	return "", notInstalled("Redis's server program (redis-server or valkey-server)", tried...)
}

// findPgBouncer returns the path of PgBouncer.
func findPgBouncer() (string, error) {
	return findAnywhere("pgbouncer", "PgBouncer", "its package is pgbouncer everywhere")
}

// findEtcd returns the path of etcd.
func findEtcd() (string, error) {
	return findAnywhere("etcd", "etcd", "its package is etcd-server on Debian, etcd elsewhere")
}

func findAnywhere(program, called, hint string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return filepath.Abs(path)
	}
	for _, dir := range sbinDirs {
		if path := filepath.Join(dir, program); isProgram(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s %w: looked in PATH, %s; %s", called, ErrNotInstalled, strings.Join(sbinDirs, ", "), hint)
}

func pgConfigDir(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func hasPostgres(dir string) bool {
	return dir != "" && isProgram(filepath.Join(dir, "initdb")) && isProgram(filepath.Join(dir, "postgres"))
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// newestFirst returns what the globs match, the highest version number in the
// path first: 17 before 9.6, unlike the order of the alphabet.
func newestFirst(globs []string) []string {
	var found []string
	for _, glob := range globs {
		matches, _ := filepath.Glob(glob) // the only error is a malformed pattern
		found = append(found, matches...)
	}
	slices.SortStableFunc(found, func(a, b string) int { return slices.Compare(version(b), version(a)) })
	return found
}

var digits = regexp.MustCompile(`\d+`)

func version(path string) []int {
	var numbers []int
	for _, text := range digits.FindAllString(path, -1) {
		n, _ := strconv.Atoi(text)
		numbers = append(numbers, n)
	}
	return numbers
}

func notInstalled(what string, tried ...string) error {
	return fmt.Errorf("%s %w: looked in %s; %s", what, ErrNotInstalled, strings.Join(tried, ", "), installHint())
}

// installHint is the line that installs both servers on this system.
func installHint() string {
	if runtime.GOOS == "darwin" {
		return "install with `brew install postgresql redis`"
	}
	for _, manager := range []struct{ name, packages string }{
		{"apt-get", "install postgresql redis-server"},
		{"dnf", "install postgresql-server redis"},
		{"apk", "add postgresql redis"},
		{"brew", "install postgresql redis"},
	} {
		if _, err := exec.LookPath(manager.name); err == nil {
			return fmt.Sprintf("install with `%s %s`", manager.name, manager.packages)
		}
	}
	return "install the PostgreSQL server and the Redis server"
}
