package guard_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
)

// passes are what the holder of stock:a, stock:c, part:1, part:12 and parent:2 may do.
var passes = map[string]string{
	"Insert":             "SELECT fencegate.admit('stock:c', 1, 'h')\nINSERT INTO shop.stock VALUES ('c')",
	"Update":             "SELECT fencegate.admit('stock:a', 1, 'h')\nUPDATE shop.stock SET n = 9 WHERE sku = 'a'",
	"Delete":             "SELECT fencegate.admit('stock:a', 1, 'h')\nDELETE FROM shop.stock WHERE sku = 'a'",
	"OnConflict":         "SELECT fencegate.admit('stock:a', 1, 'h')\nINSERT INTO shop.stock VALUES ('a', 5) ON CONFLICT (sku) DO UPDATE SET n = EXCLUDED.n",
	"Merge":              "SELECT fencegate.admit('stock:a', 1, 'h')\nMERGE INTO shop.stock AS s USING (VALUES ('a')) AS v(sku) ON s.sku = v.sku WHEN MATCHED THEN UPDATE SET n = 9",
	"TwoKeys":            "SELECT fencegate.admit('stock:a', 1, 'h')\nSELECT fencegate.admit('stock:c', 1, 'h')\nUPDATE shop.stock SET sku = 'c' WHERE sku = 'a'",
	"TheSameKeyAgain":    "SELECT fencegate.admit('stock:a', 1, 'h')\nSELECT fencegate.admit('stock:c', 1, 'h')\nSELECT fencegate.admit('stock:a', 1, 'h')\nUPDATE shop.stock SET sku = 'c' WHERE sku = 'a'",
	"InASavepoint":       "SAVEPOINT s\nSELECT fencegate.admit('stock:a', 1, 'h')\nRELEASE s\nSAVEPOINT s\nUPDATE shop.stock SET n = 9 WHERE sku = 'a'\nRELEASE s",
	"AfterARollback":     "SELECT fencegate.admit('stock:a', 1, 'h')\nSAVEPOINT s\nSELECT fencegate.admit('stock:c', 1, 'h')\nROLLBACK TO s\nUPDATE shop.stock SET n = 9 WHERE sku = 'a'",
	"AFunction":          "SELECT fencegate.admit('stock:a', 1, 'h')\nDO $$ BEGIN UPDATE shop.stock SET n = 9 WHERE sku = 'a'; EXCEPTION WHEN unique_violation THEN NULL; END $$",
	"APartition":         "SELECT fencegate.admit('part:1', 1, 'h')\nUPDATE shop.part_low SET n = 9 WHERE id = 1",
	"AnotherPartition":   "SELECT fencegate.admit('part:1', 1, 'h')\nSELECT fencegate.admit('part:12', 1, 'h')\nUPDATE shop.part SET id = 12 WHERE id = 1",
	"AChild":             "SELECT fencegate.admit('parent:2', 1, 'h')\nUPDATE shop.parent SET n = 9 WHERE id = 2",
	"NothingIsWritten":   "UPDATE shop.stock SET n = 9 WHERE sku = 'nothing'",
	"ATableWithoutGuard": "INSERT INTO shop.lot VALUES ('b', 1)",
	"Rows":               "SELECT fencegate.admit('stock:a', 1, 'h')\nSELECT * FROM shop.stock FOR UPDATE",
}

func TestAHolderPassesItsGuard(t *testing.T) {
	t.Parallel()
	p := newPlace(t, stock, "stock stock:{sku}", "part part:{id}", "parent parent:{id}")
	for _, key := range []string{"stock:a", "stock:c", "part:1", "part:12", "parent:2"} {
		p.grant(t, key, "h")
	}
	for name, script := range passes {
		t.Run(name, func(t *testing.T) {
			if state := run(t, p.as(t), "BEGIN\n"+script+"\nROLLBACK"); state != "" {
				t.Errorf("refused with %s", state)
			}
		})
	}
	conn := p.as(t)
	copied := func(skus ...string) error {
		return pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), `SELECT fencegate.admit('stock:c', 1, 'h')`); err != nil {
				return err
			}
			_, err := tx.CopyFrom(t.Context(), pgx.Identifier{"shop", "stock"}, []string{"sku"},
				pgx.CopyFromSlice(len(skus), func(i int) ([]any, error) { return []any{skus[i]}, nil }))
			return err
		})
	}
	if err := copied("c", "d"); err == nil || !strings.Contains(err.Error(), `not admitted for the lock key "stock:d"`) {
		t.Errorf("copying c and d: %v", err)
	}
	if err := copied("c"); err != nil {
		t.Errorf("copying c: %v", err)
	}
}

// The story of a paused worker, as it goes for those who connect directly.
func TestALateWriterIsRefusedAtItsAdmission(t *testing.T) {
	t.Parallel()
	p := newPlace(t, stock, "stock stock:{sku}")
	p.grant(t, "stock:a", "A")
	a, granting := p.as(t), connect(t, p.URL)
	if state := run(t, a, "BEGIN\nSELECT fencegate.admit('stock:a', 1, 'A')\nUPDATE shop.stock SET n = n + 1 WHERE sku = 'a'"); state != "" {
		t.Fatal(state)
	}
	granted := make(chan error, 1)
	go func() {
		_, err := granting.Exec(context.Background(), `SELECT fencegate.raise_mark('stock:a', 'B', 1, 0, 'test', 'test')`)
		granted <- err
	}()
	p.awaitBlocked(t, granting)
	if state := run(t, a, "COMMIT"); state != "" {
		t.Fatal(state)
	}
	if err := <-granted; err != nil {
		t.Fatal(err)
	}
	if state := run(t, a, "BEGIN\nSELECT fencegate.admit('stock:a', 1, 'A')"); state != stateRefused {
		t.Errorf("A was admitted after B's grant: %q", state)
	}
	if state := run(t, a, "ROLLBACK\nBEGIN\nUPDATE shop.stock SET n = 7 WHERE sku = 'a'"); state != stateUnfenced {
		t.Errorf("A wrote without being admitted: %q", state)
	}
	if state := run(t, a, "ROLLBACK\nBEGIN\nSELECT fencegate.admit('stock:a', 2, 'B')\nUPDATE shop.stock SET n = n + 1 WHERE sku = 'a'\nCOMMIT"); state != "" {
		t.Error(state)
	}
	if got := p.look(t, contents); !strings.HasPrefix(got, "a3 b1") {
		t.Error(got)
	}
}

func (p *place) awaitBlocked(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	watch, tick := connect(t, p.URL), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for waits := false; !waits; <-tick.C {
		if err := watch.QueryRow(t.Context(), `SELECT cardinality(pg_blocking_pids($1)) > 0`, conn.PgConn().PID()).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
}

// With the setting that fires no ordinary trigger, only an owner or a superuser gets
// further.
func TestReplicationRolesAreGuardedToo(t *testing.T) {
	t.Parallel()
	p := newPlace(t, stock, "stock stock:{sku}", "part part:{id}")
	p.Exec(t, "CREATE TABLE shop.part_new PARTITION OF shop.part FOR VALUES FROM (20) TO (30)")
	for _, sql := range []string{"UPDATE shop.stock SET n = 9", "INSERT INTO shop.part_high VALUES (13)", "INSERT INTO shop.part VALUES (21)", "TRUNCATE shop.part"} {
		if state := run(t, connect(t, p.URL), "SET session_replication_role = replica\n"+sql); state != stateUnfenced {
			t.Errorf("%s: %q", sql, state)
		}
	}
	for _, g := range p.guards(t) {
		want := ""
		if g.Name == "part" {
			want = "shop.part_new has no trigger fencegate_guard_truncate"
		}
		if got := strings.Join(g.Faults(), "; "); got != want || g.NotAlways() != "" {
			t.Errorf("%s: %q, not always on %q", g.Name, got, g.NotAlways())
		}
	}
	p.protect(t, "part", "part:{id}", false)
	if state := run(t, p.as(t), "TRUNCATE shop.part_new"); state != stateDenied {
		t.Error(state) // no right on the new partition, and the guard after that
	}
	if g := p.guards(t)[0]; g.Name != "part" || len(g.Faults()) > 0 {
		t.Errorf("after protecting again: %v", g)
	}
}

// A lock key is rendered from a row as the gateway renders it, for every type.
func TestAGuardRendersKeysAsTheGatewayDoes(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	db.Exec(t, `
		CREATE SCHEMA shop;
		CREATE TYPE shop.mood AS ENUM ('Sad', 'o''k "\x"');
		CREATE DOMAIN shop.code AS varchar(9) COLLATE "C";
		CREATE TABLE shop.kinds ("a b" smallint, i int, "L" bigint, t text, v varchar(5), c char(4), u uuid, b boolean, d date, m shop.mood, code shop.code,
		       id int PRIMARY KEY, n int);
		INSERT INTO shop.kinds VALUES (-1, 2, 9223372036854775807, E'x\\y''"{}', 'é', 'p', '6F1C2A9E-0D53-4B0E-9A39-0D6F5A1C7E11', true, '0044-03-15 BC', 'o''k "\x"', 'Q', 1, 1);`)
	const lock = `k\'{{}}:{a b}:{i}:{L}:{t}:{v}:{c}:{u}:{b}:{d}:{m}:{code}`
	g := testenv.StartGateway(t, testenv.GatewayOptions{Database: db, Tables: "tables:\n  - {name: shop.kinds, lock: \"" + strings.ReplaceAll(lock, `\`, `\\`) + "\"}\n"})
	p := &place{Database: db}
	p.protect(t, "kinds", lock, false)
	l := g.Acquire(t, `k\'{}:-1:2:9223372036854775807:x\y'"{}:é:p:6f1c2a9e-0d53-4b0e-9a39-0d6f5a1c7e11:true:0044-03-15 BC:o'k "\x":Q`, 60_000)
	if state := run(t, connect(t, db.URL), "SET DateStyle = 'SQL, DMY'\nUPDATE shop.kinds SET n = 2"); state != stateUnfenced {
		t.Errorf("without admission: %q", state)
	}
	script := fmt.Sprintf("SET DateStyle = 'SQL, DMY'\nBEGIN\nSELECT fencegate.admit(%s, %s, %s)\nUPDATE shop.kinds SET n = 3\nCOMMIT", quoted(l.Key), l.Token, quoted(l.Holder))
	if state := run(t, connect(t, db.URL), script); state != "" {
		t.Errorf("directly: %s", state)
	}
}

func quoted(s string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

// What a prepared transaction was admitted for stays its own, and its backend goes on.
func TestPreparedTransactionsKeepTheirAdmission(t *testing.T) {
	t.Parallel()
	server, err := devstack.StartPostgres(t.Context(), devstack.PostgresConfig{Settings: map[string]string{"max_prepared_transactions": "5"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	p := &place{Database: testenv.OwnDatabase(t, server), role: "worker"}
	p.open(t, stock, "stock stock:{sku}")
	p.grant(t, "stock:a", "h")
	p.grant(t, "stock:b", "h")
	conn := p.as(t)
	const admitted = "BEGIN\nSELECT fencegate.admit('stock:%s', 1, 'h')\nUPDATE shop.stock SET n = n + 1 WHERE sku = '%[1]s'\n"
	if state := run(t, conn, fmt.Sprintf(admitted, "b")+"COMMIT\n"+fmt.Sprintf(admitted, "a")+"PREPARE TRANSACTION 'one'"); state != "" {
		t.Fatal(state)
	}
	if state := run(t, conn, "BEGIN\nUPDATE shop.stock SET n = 9 WHERE sku = 'b'"); state != stateUnfenced {
		t.Errorf("on another's admission: %q", state)
	}
	if state := run(t, conn, "ROLLBACK\nSET lock_timeout = '1s'\n"+fmt.Sprintf(admitted, "b")+"COMMIT"); state != "" {
		t.Errorf("beside a prepared transaction: %q", state)
	}
	if state := run(t, connect(t, p.URL), "SET lock_timeout = '50ms'\nSELECT fencegate.raise_mark('stock:a', 'B', 1, 0, 'test', 'test')"); state != "55P03" {
		t.Errorf("a grant did not wait for the prepared transaction: %q", state)
	}
	if state := run(t, conn, "COMMIT PREPARED 'one'"); state != "" {
		t.Error(state)
	}
	if got := p.look(t, contents); !strings.HasPrefix(got, "a2 b3") {
		t.Error(got)
	}
	if got := p.look(t, "SELECT count(*)::text FROM fencegate.admissions"); got != "2" {
		t.Errorf("%s rows of admissions for one backend", got)
	}
}
