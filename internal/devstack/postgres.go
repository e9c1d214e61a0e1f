package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	postgresPort  = "5432" // names the socket; there is no TCP port
	postgresReady = "database system is ready to accept connections"
)

// PostgresConfig says what StartPostgres starts. The zero value: the newest
// PostgreSQL found, on a data directory that is removed by Stop.
type PostgresConfig struct {
	BinDir   string            // holds initdb and postgres; "" searches
	DataDir  string            // kept, and initialised if empty; "" is temporary and not crash-safe
	Settings map[string]string // server settings, over this package's defaults
	Log      io.Writer         // what the server prints; nil keeps it until Stop
}

// Postgres is a running PostgreSQL. The zero value is not usable; see
// StartPostgres.
type Postgres struct {
	*Server
}

// StartPostgres starts a PostgreSQL whose superuser is postgres, without a
// password, and returns when it takes connections. ctx bounds the start only.
// The error wraps ErrNotInstalled if there are no programs to run, and quotes
// the server's last lines if it did not come up.
func StartPostgres(ctx context.Context, config PostgresConfig) (*Postgres, error) {
	p, err := startPostgres(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("starting PostgreSQL: %w", err)
	}
	return p, nil
}

func startPostgres(ctx context.Context, config PostgresConfig) (*Postgres, error) {
	bin, err := findPostgres(ctx, config.BinDir)
	if err != nil {
		return nil, err
	}
	as, err := accountFor(config.DataDir)
	if err != nil {
		return nil, err
	}
	if err := as.checkReach(bin); err != nil {
		return nil, err
	}
	s, err := newServer("PostgreSQL", config.Log, as)
	if err != nil {
		return nil, err
	}
	if err := s.bootPostgres(ctx, bin, config); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return &Postgres{Server: s}, nil
}

func (s *Server) bootPostgres(ctx context.Context, bin string, config PostgresConfig) error {
	data, settings := s.dir.join("data"), temporarySettings()
	if config.DataDir != "" {
		var err error
		if data, err = prepareDataDir(config.DataDir, s.as); err != nil {
			return fmt.Errorf("preparing the data directory: %w", err)
		}
		settings = map[string]string{}
	}
	settings["max_connections"] = "300"
	maps.Copy(settings, config.Settings)
	maps.Copy(settings, s.fixedSettings())
	args := []string{"-D", data}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	locks := []*os.File{s.dir.lock}
	s.command = func() *exec.Cmd { return s.newCmd(locks, filepath.Join(bin, "postgres"), args...) }
	s.socket = filepath.Join(s.dir.join("run"), ".s.PGSQL."+postgresPort)
	s.ready = postgresReady
	s.onDeath = syscall.SIGTERM // makes an unfinished initdb remove its files
	if err := s.initData(ctx, locks, filepath.Join(bin, "initdb"), data); err != nil {
		return err
	}
	s.onDeath = syscall.SIGINT // fast shutdown; SIGTERM would wait for the clients
	return s.start(ctx)
}

// temporarySettings trade safety on a crash of the machine, which would take the
// directory's owner with it, for speed. A killed server still loses nothing.
func temporarySettings() map[string]string {
	return map[string]string{
		"fsync":              "off",
		"full_page_writes":   "off",
		"synchronous_commit": "on",
		// In the data directory, so that a killed server leaves nothing in /dev/shm.
		"dynamic_shared_memory_type": "mmap",
	}
}

// fixedSettings are those that this package relies on.
func (s *Server) fixedSettings() map[string]string {
	run := strings.ReplaceAll(s.dir.join("run"), `"`, `""`)
	return map[string]string{
		"listen_addresses":        "",
		"port":                    postgresPort,
		"unix_socket_directories": `"` + run + `"`, // a list, hence the quotes
		"unix_socket_permissions": "0700",
		"log_destination":         "stderr",
		"logging_collector":       "off",
		"lc_messages":             "C",
	}
}

// initData runs initdb unless the directory has been initialised.
func (s *Server) initData(ctx context.Context, locks []*os.File, initdb, data string) error {
	_, err := os.Stat(filepath.Join(data, "PG_VERSION"))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	cmd := s.newCmd(locks, initdb, "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync")
	p, err := startProcess(cmd, newOutput(s.log, ""))
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		<-p.done
		return context.Cause(ctx)
	}
	if p.err == nil {
		return nil
	}
	tail := p.out.Tail()
	if strings.Contains(tail, "could not look up effective user ID") {
		return fmt.Errorf("user id %d has no name on this system, and PostgreSQL's initdb needs one: add it to /etc/passwd, or start as another user", os.Geteuid())
	}
	return fmt.Errorf("initdb ended (%s); its last lines:\n%s", p.cmd.ProcessState, tail)
}

// URL returns the address of a database for the superuser, as pgx and libpq
// take it. It stays the same over a Restart.
func (p *Postgres) URL(database string) string {
	query := url.Values{
		"host":    {filepath.Dir(p.socket)},
		"port":    {postgresPort},
		"sslmode": {"disable"},
	}
	address := url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/" + database, RawQuery: query.Encode()}
	return address.String()
}
