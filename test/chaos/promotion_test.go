package chaos_test

import (
	"bytes"
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestAPromotionThatLostTheLastGrantsFencesWhatWasGrantedBefore(t *testing.T) {
	t.Parallel()
	primary := testenv.OwnPostgres(t)
	db := testenv.OwnDatabase(t, primary)
	p := build(t, options{GatewayOptions: testenv.GatewayOptions{Database: db}})
	replication := testenv.NewWire(t, primary.URL("postgres"))
	standby := startStandby(t, p.sql, replication.URL(), db.Name)

	_, keptKey := p.item(t, "kept")
	_, movedKey := p.item(t, "moved")
	_, lostKey := p.item(t, "lost")
	kept, moved := p.Acquire(t, keptKey, 60000), p.Acquire(t, movedKey, 60000)
	wantStatus(t, set(t, p.Gateway, kept, "kept", 1), 204)
	standby.awaitReplay(t, p.sql)

	// From here on the standby misses everything.
	replication.Down()
	release(t, p.Gateway, moved)
	release(t, p.Gateway, p.Acquire(t, movedKey, 60000))
	movedAgain, lost := p.Acquire(t, movedKey, 2000), p.Acquire(t, lostKey, 2000)
	wantStatus(t, set(t, p.Gateway, kept, "kept", 2), 204)
	wantStatus(t, set(t, p.Gateway, lost, "lost", 2), 204)

	must(t, primary.Kill())
	p.pg.Lead(t, standby.url)
	try(t, p.Gateway, testenv.Request{Path: "/rest/inventory"}, 503)
	wantProblem(t, set(t, p.Gateway, kept, "kept", 3), 503, "database_unavailable") // a standby takes no writes
	standby.promote(t)
	p.sql = standby.sql

	try(t, p.Gateway, testenv.Request{Path: "/rest/inventory"}, 200)
	p.wantRow(t, "kept", 1, 1)
	for _, c := range []struct {
		claim testenv.Lease
		sku   string
		code  string
	}{
		{kept, "kept", "epoch_changed"},
		{moved, "moved", "epoch_changed"}, // its release went with the tail
		{movedAgain, "moved", "token_not_granted"},
		{lost, "lost", "token_not_granted"},
	} {
		wantProblem(t, set(t, p.Gateway, c.claim, c.sku, 9), 412, c.code)
	}
	release(t, p.Gateway, kept)
	leases := p.leases(t)
	for _, c := range []struct {
		highest testenv.Lease
		sku     string
	}{{kept, "kept"}, {movedAgain, "moved"}, {lost, "lost"}} {
		next, err := leases.takeOver(t, p.Gateway, c.highest.Key, 60000)
		must(t, err)
		if token(t, next) <= token(t, c.highest) {
			t.Errorf("%s: token %s follows %s", c.sku, next.Token, c.highest.Token)
		}
		wantProblem(t, set(t, p.Gateway, c.highest, c.sku, 9), 412, "stale_token")
		wantStatus(t, set(t, p.Gateway, next, c.sku, 4), 204)
		again := p.release(t, next)
		if token(t, again) != token(t, next)+1 {
			t.Errorf("%s: within the new epoch token %s follows %s", c.sku, again.Token, next.Token)
		}
	}
	p.wantRow(t, "kept", 4, 2)
	p.wantRow(t, "moved", 4, 1)
	p.wantRow(t, "lost", 4, 1)
	wantOrderedGrants(t, p.sql)
}

// release gives l back and takes its key anew.
func (p *plant) release(t *testing.T, l testenv.Lease) testenv.Lease {
	t.Helper()
	release(t, p.Gateway, l)
	return p.Acquire(t, l.Key, 60000)
}

// standby is a physical copy of a primary that follows it.
type standby struct {
	url     string
	sql     *pgxpool.Pool
	started chan error // once it has been promoted
}

// startStandby copies the primary and starts the copy, which follows it by way
// of primaryURL.
func startStandby(t *testing.T, primary *pgxpool.Pool, primaryURL, database string) *standby {
	t.Helper()
	base, err := os.MkdirTemp("", "standby-") // t.TempDir is closed to other users
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(base) })
	must(t, os.Chmod(base, 0o755))
	data := filepath.Join(base, "data")
	must(t, os.Mkdir(data, 0o700))
	copyPrimary(t, primary, primaryURL, data)

	s := &standby{started: make(chan error, 1)}
	log := &lineWatch{line: "ready to accept read-only connections", seen: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// It returns when the server takes writes.
		server, err := devstack.StartPostgres(ctx, devstack.PostgresConfig{DataDir: data, Log: log})
		s.started <- err
		if err == nil {
			<-ctx.Done()
			server.Stop()
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	select {
	case <-log.seen:
	case err := <-s.started:
		t.Fatalf("the standby did not start: %v\n%s", err, log)
	}
	s.url = socketURL(t, data, database)
	s.sql, err = pgxpool.New(t.Context(), s.url)
	must(t, err)
	t.Cleanup(s.sql.Close)
	return s
}

// copyPrimary runs pg_basebackup as the user that the primary runs as.
func copyPrimary(t *testing.T, primary *pgxpool.Pool, primaryURL, data string) {
	t.Helper()
	bin := one[string](t, primary, `SELECT setting FROM pg_config WHERE name = 'BINDIR'`)
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "pg_basebackup"),
		"-D", data, "-d", primaryURL, "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync")
	cmd.Dir = "/"
	if os.Geteuid() == 0 {
		socket := one[string](t, primary, `SELECT current_setting('unix_socket_directories')`)
		info, err := os.Stat(strings.Trim(socket, `"`))
		must(t, err)
		owner := info.Sys().(*syscall.Stat_t)
		must(t, os.Chown(data, int(owner.Uid), int(owner.Gid)))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("pg_basebackup: %v\n%s", err, out)
	}
}

// socketURL finds the running server's socket by its pid file.
func socketURL(t *testing.T, data, database string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	must(t, err)
	lines := strings.Split(string(text), "\n")
	if len(lines) < 5 {
		t.Fatalf("postmaster.pid: %q", text)
	}
	query := url.Values{"host": {lines[4]}, "port": {lines[3]}, "sslmode": {"disable"}}
	return (&url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/" + database, RawQuery: query.Encode()}).String()
}

// awaitReplay returns once the standby has what the primary has now.
func (s *standby) awaitReplay(t *testing.T, primary *pgxpool.Pool) {
	t.Helper()
	position := one[string](t, primary, `SELECT pg_current_wal_flush_lsn()::text`)
	for !one[bool](t, s.sql, `SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn`, position) {
	}
}

func (s *standby) promote(t *testing.T) {
	t.Helper()
	if !one[bool](t, s.sql, `SELECT pg_promote(true, 60)`) {
		t.Fatal("the standby was not promoted")
	}
	select {
	case err := <-s.started:
		must(t, err)
	case <-time.After(time.Minute):
		t.Fatal("the promoted standby is not ready")
	}
}

// lineWatch keeps what is written and says when a line has come.
type lineWatch struct {
	line string
	seen chan struct{}

	mu   sync.Mutex
	text bytes.Buffer
	once sync.Once
}

func (l *lineWatch) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	if strings.Contains(l.text.String(), l.line) {
		l.once.Do(func() { close(l.seen) })
	}
	return len(p), nil
}

func (l *lineWatch) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
