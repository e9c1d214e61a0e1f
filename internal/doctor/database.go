package doctor

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/config"
)

// examineDatabase runs every check that needs the database.
func (v *visit) examineDatabase(ctx context.Context) {
	connecting, cancel := context.WithTimeout(ctx, v.Timeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(connecting, v.Plain)
	if err != nil {
		v.blind("the database", fmt.Errorf("connecting: %w", err))
		return
	}
	defer conn.Close(context.WithoutCancel(ctx))
	v.examineWire(conn)
	v.examineSession(ctx, conn)
	for _, c := range v.checks(ctx, conn) {
		v.run(ctx, conn, c)
	}
}

// checks leaves out what would only repeat that the schema is not there.
func (v *visit) checks(ctx context.Context, conn *pgx.Conn) []check {
	all := []check{
		{"the server's settings", (*visit).checkServer},
		{"the role's settings", (*visit).checkDefaults},
		{"the standbys", (*visit).checkStandbys},
		{"the number of connections", (*visit).checkConnections},
		{"the clocks", (*visit).checkClock},
		{"the gateway's role", (*visit).checkOwnRole},
		{"the superusers", (*visit).checkSuperusers},
		{"the database roles", (*visit).checkDatabaseRoles},
		{"who may write the tables", (*visit).checkTableWriters},
		{"the rights on the tables", (*visit).checkTableRights},
		{"the rights on the functions", (*visit).checkFunctionRights},
		{"the tables", (*visit).checkServable},
		{"the tables' keys", (*visit).checkKeys},
		{"the lock templates' columns", (*visit).checkTemplates},
		{"the rows without a lock key", (*visit).checkUncovered},
		{"the triggers", (*visit).checkTriggers},
		{"row-level security", (*visit).checkRowSecurity},
		{"the foreign keys", (*visit).checkCascades},
		{"the fence columns", (*visit).checkFenceColumns},
	}
	if !v.examineSchema(ctx, conn) {
		return all
	}
	return append(all,
		check{"who may write the marks", (*visit).checkMarkWriters},
		check{"who may create in schema fencegate", (*visit).checkSchemaCreators},
		check{"the triggers of schema fencegate", (*visit).checkFenceTriggers},
		check{"the guards", (*visit).checkGuards},
		check{"who runs without triggers", (*visit).checkReplicationRole},
		check{"the functions of schema fencegate", (*visit).checkFenceFunctions},
		check{"the rights on schema fencegate", (*visit).checkFenceRights},
		check{"the partitions of the refusals", (*visit).checkPartitions},
	)
}

func (v *visit) examineWire(conn *pgx.Conn) {
	c := conn.PgConn().Conn()
	host := v.Plain.Host
	if _, encrypted := c.(*tls.Conn); encrypted || isLoopback(host) {
		return
	}
	if remote, ok := c.RemoteAddr().(*net.TCPAddr); ok && remote.IP.IsLoopback() {
		return
	}
	v.find("database_plaintext", host, "the connection is not encrypted", "sslmode=verify-full in database.url, and sslrootcert if the authority is your own")
}

// examineSession connects as serve does and looks whether the session is what was
// asked for.
func (v *visit) examineSession(ctx context.Context, plain *pgx.Conn) {
	ctx, cancel := context.WithTimeout(ctx, v.Timeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, v.Serve)
	if err != nil {
		v.find("pooler_untold", "database.pooler", "connecting with a session's settings fails: "+err.Error(), poolerFix)
		return
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var pid uint32
	var timeout int64
	const query = `SELECT pg_backend_pid(), setting::bigint FROM pg_catalog.pg_settings WHERE name = 'lock_timeout'`
	if err := conn.QueryRow(ctx, query).Scan(&pid, &timeout); err != nil {
		v.blind("the session's settings", err)
		return
	}
	direct := pid == conn.PgConn().PID() // a pooler makes up a number of its own
	v.judgeSession(direct, time.Duration(timeout)*time.Millisecond)
}

const poolerFix = "database.pooler: transaction, or the address of the server itself, or a pooler in session mode"

func (v *visit) judgeSession(direct bool, lockTimeout time.Duration) {
	d := v.Config.Database
	switch {
	case d.Pooler == config.PoolerTransaction && direct:
		v.find("pooler_not_there", "database.pooler", "pooler is transaction, and the connection leads to the server itself",
			"database.pooler: none")
	case d.Pooler == config.PoolerTransaction:
	case lockTimeout != d.LockTimeout:
		v.find("pooler_untold", "database.pooler", fmt.Sprintf("the session's lock_timeout is %s, not the %s that it was started with", lockTimeout, d.LockTimeout), poolerFix)
	case !direct:
		v.find("pooler_in_between", "database.pooler", "pooler is none, and a pooler is in between",
			"Nothing in session mode. In transaction mode: database.pooler: transaction")
	}
}

// oldest is the oldest major version whose fixes still come.
const oldest = 14

func (v *visit) checkServer(ctx context.Context, tx pgx.Tx) error {
	type settings struct {
		Standby                 bool
		Version                 int
		Fsync, FullPages, Shown string
	}
	all, err := read[settings](ctx, tx, "the server's settings", `
		SELECT pg_is_in_recovery(),
		       current_setting('server_version_num')::integer,
		       current_setting('fsync'),
		       current_setting('full_page_writes'),
		       current_setting('server_version')`)
	if err != nil {
		return err
	}
	s := all[0]
	if s.Standby {
		v.find("database_is_standby", v.Plain.Host, "the server is in recovery", "Name the primary in database.url; with several hosts, add target_session_attrs=read-write.")
	}
	if s.Version/10000 < oldest {
		v.find("postgres_old", v.Plain.Host, "it is PostgreSQL "+s.Shown, fmt.Sprintf("Upgrade to %d or newer.", oldest))
	}
	if s.Fsync == "off" {
		v.find("fsync_off", v.Plain.Host, "fsync is off", "ALTER SYSTEM SET fsync = on;\nSELECT pg_reload_conf();")
	}
	if s.FullPages == "off" {
		v.find("full_page_writes_off", v.Plain.Host, "full_page_writes is off", "ALTER SYSTEM SET full_page_writes = on;\nSELECT pg_reload_conf();")
	}
	return nil
}

// checkDefaults looks at what the role and the database set, before any session
// sets something else.
func (v *visit) checkDefaults(ctx context.Context, tx pgx.Tx) error {
	type defaults struct {
		Role, Sync, Standbys, Isolation, ReadOnly, SearchPath string
		TransactionTimeout                                    int64
	}
	all, err := read[defaults](ctx, tx, "the role's settings", `
		SELECT quote_ident(current_user),
		       max(reset_val) FILTER (WHERE name = 'synchronous_commit'),
		       max(reset_val) FILTER (WHERE name = 'synchronous_standby_names'),
		       max(reset_val) FILTER (WHERE name = 'default_transaction_isolation'),
		       max(reset_val) FILTER (WHERE name = 'default_transaction_read_only'),
		       max(reset_val) FILTER (WHERE name = 'search_path'),
		       coalesce(max(reset_val) FILTER (WHERE name = 'transaction_timeout'), '0')::bigint
		  FROM pg_catalog.pg_settings`)
	if err != nil {
		return err
	}
	d := all[0]
	set := func(name, value string) string { return "ALTER ROLE " + d.Role + " SET " + name + " = " + value + ";" }
	switch weak := d.Sync == "local" || d.Sync == "remote_write"; {
	case d.Sync == "off":
		v.find("synchronous_commit_off", d.Role, "synchronous_commit is off", set("synchronous_commit", "on"))
	case weak && d.Standbys != "":
		v.find("synchronous_commit_weak", d.Role, "synchronous_commit is "+d.Sync+", and there are synchronous standbys", set("synchronous_commit", "on"))
	}
	if v.Config.Database.Pooler == config.PoolerTransaction && d.Isolation != "read committed" {
		v.find("isolation_default", d.Role, "default_transaction_isolation is "+d.Isolation, set("default_transaction_isolation", "'read committed'"))
	}
	if d.ReadOnly == "on" {
		v.find("read_only_default", d.Role, "default_transaction_read_only is on", set("default_transaction_read_only", "off"))
	}
	if before, _, named := strings.Cut(d.SearchPath, "pg_catalog"); named && strings.TrimSpace(before) != "" {
		v.find("search_path_hides_catalog", d.Role, "search_path is "+d.SearchPath, set("search_path", "public"))
	}
	if most := time.Duration(d.TransactionTimeout) * time.Millisecond; most > 0 && most < v.Config.Database.StatementTimeout {
		v.find("transaction_timeout_short", d.Role, fmt.Sprintf("transaction_timeout is %s, statement_timeout %s", most, v.Config.Database.StatementTimeout),
			set("transaction_timeout", "0"))
	}
	return nil
}

func (v *visit) checkStandbys(ctx context.Context, tx pgx.Tx) error {
	type standbys struct{ All, Hidden, Synchronous int }
	all, err := read[standbys](ctx, tx, "the standbys", `
		SELECT count(*),
		       count(*) FILTER (WHERE state IS NULL),
		       count(*) FILTER (WHERE sync_state IN ('sync', 'quorum'))
		  FROM pg_catalog.pg_stat_replication`)
	if err != nil {
		return err
	}
	s := all[0]
	if s.Hidden > 0 {
		v.hidden("whether the standbys are synchronous", "it takes the role pg_monitor: GRANT pg_monitor TO the gateway's role, or run doctor as another one")
		return nil
	}
	if s.All > 0 && s.Synchronous == 0 {
		v.find("standbys_not_synchronous", v.Plain.Host, plural(s.All, "standby connection")+", none synchronous",
			"ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)';\nSELECT pg_reload_conf();")
	}
	return nil
}

// Connections of a gateway beside its two configured pools, as docs/operations.md
// counts them.
const (
	otherConnections = 20
	leaseConnections = 8
)

func (v *visit) checkConnections(ctx context.Context, tx pgx.Tx) error {
	if v.Config.Database.Pooler == config.PoolerTransaction {
		return nil // the pooler has a number of its own
	}
	need := v.Config.Database.PoolSize + v.Config.Database.ReadPoolSize + otherConnections
	if v.Config.Leases.Backend == config.BackendPostgres {
		need += leaseConnections
	}
	type limit struct {
		Name string
		Most int
		Fix  string
	}
	limits, err := read[limit](ctx, tx, "the number of connections", `
		SELECT 'max_connections, less those that are reserved',
		       current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
		         - coalesce(current_setting('reserved_connections', true), '0')::integer,
		       'ALTER SYSTEM SET max_connections = …; and restart the server'
		 UNION ALL
		SELECT 'the connection limit of role ' || quote_ident(rolname), rolconnlimit,
		       format('ALTER ROLE %I CONNECTION LIMIT -1;', rolname)
		  FROM pg_catalog.pg_roles
		 WHERE rolname = current_user AND rolconnlimit >= 0
		 UNION ALL
		SELECT 'the connection limit of database ' || quote_ident(datname), datconnlimit,
		       format('ALTER DATABASE %I CONNECTION LIMIT -1;', datname)
		  FROM pg_catalog.pg_database
		 WHERE datname = current_database() AND datconnlimit >= 0`)
	for _, l := range limits {
		if l.Most < need {
			v.find("connections_too_few", "database.pool_size", fmt.Sprintf("one gateway takes up to %d connections, and %s allows %d", need, l.Name, l.Most),
				l.Fix+"\nor a smaller database.pool_size and read_pool_size")
		}
	}
	return err
}

// clockApart is what nobody would call the same time any more.
const clockApart = 5 * time.Second

func (v *visit) checkClock(ctx context.Context, tx pgx.Tx) error {
	sent := time.Now()
	all, err := read[struct{ Now time.Time }](ctx, tx, "the database's clock", `SELECT clock_timestamp()`)
	if err != nil {
		return err
	}
	v.judgeClocks(all[0].Now.Sub(sent.Add(time.Since(sent) / 2)))
	return nil
}

func (v *visit) judgeClocks(ahead time.Duration) {
	if ahead.Abs() > clockApart {
		v.find("clocks_apart", "this machine", fmt.Sprintf("the database's clock is %s away from the one here", ahead.Abs().Round(time.Second)),
			"Run an NTP client on both machines.")
	}
}
