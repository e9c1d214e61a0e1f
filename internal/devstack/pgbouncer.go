package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	pgbouncerPort  = "6432" // names the socket; there is no TCP port
	pgbouncerReady = "process up:"
)

// PgBouncerConfig says what StartPgBouncer starts.
type PgBouncerConfig struct {
	Postgres string            // URL of the server behind it; its user is PgBouncer's own
	PoolSize int               // server connections for each database; 0 is PgBouncer's default
	Settings map[string]string // of [pgbouncer], over this package's
	Log      io.Writer         // what it prints; nil keeps it until Stop
}

// PgBouncer is a running PgBouncer that lends its connections out for a
// transaction at a time. The zero value is not usable; see StartPgBouncer.
type PgBouncer struct {
	*Server
	user string
}

// StartPgBouncer starts a PgBouncer in transaction mode in front of config.Postgres
// and returns when it takes connections. ctx bounds the start only. The error
// wraps ErrNotInstalled if there is no program to run, and quotes its last lines
// if it did not come up.
func StartPgBouncer(ctx context.Context, config PgBouncerConfig) (*PgBouncer, error) {
	b, err := startPgBouncer(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("starting PgBouncer: %w", err)
	}
	return b, nil
}

func startPgBouncer(ctx context.Context, config PgBouncerConfig) (*PgBouncer, error) {
	program, err := findPgBouncer()
	if err != nil {
		return nil, err
	}
	behind, err := pgconn.ParseConfig(config.Postgres)
	if err != nil {
		return nil, err
	}
	as, err := accountFor("")
	if err != nil {
		return nil, err
	}
	s, err := newServer("PgBouncer", config.Log, as)
	if err != nil {
		return nil, err
	}
	if err := s.bootPgBouncer(ctx, program, config, behind); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return &PgBouncer{Server: s, user: behind.User}, nil
}

func (s *Server) bootPgBouncer(ctx context.Context, program string, config PgBouncerConfig, behind *pgconn.Config) error {
	file, users := filepath.Join(s.dir.join("data"), "pgbouncer.ini"), filepath.Join(s.dir.join("data"), "userlist.txt")
	settings := map[string]string{
		"pool_mode":          "transaction",
		"auth_type":          "trust",
		"server_login_retry": "1", // seconds before it turns to a server that was down
		"max_client_conn":    "500",
	}
	if config.PoolSize != 0 {
		settings["default_pool_size"] = fmt.Sprint(config.PoolSize)
	}
	maps.Copy(settings, config.Settings)
	maps.Copy(settings, map[string]string{
		"listen_addr": "", "listen_port": pgbouncerPort, "unix_socket_dir": s.dir.join("run"), "auth_file": users,
	})
	for path, text := range map[string]string{
		users: fmt.Sprintf("%q \"\"\n", behind.User),
		file:  pgbouncerINI(behind, settings),
	} {
		if err := s.handOver(path, text); err != nil {
			return err
		}
	}
	locks := []*os.File{s.dir.lock}
	s.command = func() *exec.Cmd { return s.newCmd(locks, program, file) }
	s.socket = filepath.Join(s.dir.join("run"), ".s.PGSQL."+pgbouncerPort)
	s.ready = pgbouncerReady
	s.onDeath = syscall.SIGTERM // at once; SIGINT would wait for the clients
	return s.start(ctx)
}

// handOver writes a file for the server's user.
func (s *Server) handOver(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return s.as.chown(path)
}

func pgbouncerINI(behind *pgconn.Config, settings map[string]string) string {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	var b strings.Builder
	fmt.Fprintf(&b, "[databases]\n* = host=%s port=%d user=%s", quote(behind.Host), behind.Port, quote(behind.User))
	if behind.Password != "" {
		fmt.Fprintf(&b, " password=%s", quote(behind.Password))
	}
	b.WriteString("\n[pgbouncer]\n")
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&b, "%s = %s\n", name, settings[name])
	}
	return b.String()
}

// URL returns the address of a database behind it, as pgx and libpq take it. It
// stays the same over a Restart.
func (b *PgBouncer) URL(database string) string {
	query := url.Values{
		"host":    {filepath.Dir(b.socket)},
		"port":    {pgbouncerPort},
		"sslmode": {"disable"},
	}
	address := url.URL{Scheme: "postgres", User: url.User(b.user), Path: "/" + database, RawQuery: query.Encode()}
	return address.String()
}
