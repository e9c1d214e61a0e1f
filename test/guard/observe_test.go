package guard_test

import (
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/catalog"
)

func (p *place) guards(t *testing.T) []catalog.Guard {
	t.Helper()
	guards, err := catalog.LoadGuards(t.Context(), p.Pool(t))
	if err != nil {
		t.Fatal(err)
	}
	return guards
}

const records = `
SELECT coalesce(string_agg(concat_ws(' ', code, disposition, operation, table_name, lock_key, client, remote_address, instance), '; ' ORDER BY id), '')
  FROM fencegate.refusals`

func TestAnObservingGuardRecordsOncePerTransaction(t *testing.T) {
	t.Parallel()
	p := newPlace(t, stock, "stock stock:{sku} observe", "part part:{id} observe")
	p.grant(t, "stock:a", "h")
	script := `SET application_name = 'night job'
BEGIN
SELECT fencegate.admit('stock:a', 1, 'h')
UPDATE shop.stock SET n = 2 WHERE sku = 'a'
COMMIT
BEGIN
SAVEPOINT s
UPDATE shop.stock SET n = 3 WHERE sku = 'b'
ROLLBACK TO s
COMMIT
BEGIN
SELECT fencegate.admit('stock:a', 1, 'h')
UPDATE shop.stock SET n = 4
INSERT INTO shop.stock VALUES ('c'), ('d')
UPDATE shop.part SET n = 4
COMMIT
BEGIN
DELETE FROM shop.stock WHERE sku = 'd'
ROLLBACK
BEGIN ISOLATION LEVEL SERIALIZABLE
DELETE FROM shop.stock WHERE sku = 'd'
COMMIT
TRUNCATE shop.part`
	if state := run(t, p.as(t), script); state != "" {
		t.Fatal(state)
	}
	var from string
	if err := p.as(t).QueryRow(t.Context(), `SELECT coalesce(host(inet_client_addr()), 'local')`).Scan(&from); err != nil {
		t.Fatal(err)
	}
	of := " night job " + from + " guard"
	want := "unfenced_write admitted update shop.stock stock:b" + of + "; unfenced_write admitted update shop.part part:1" + of +
		"; unfenced_write admitted delete shop.stock stock:d" + of + "; unfenced_write admitted truncate shop.part " + of
	if got := p.look(t, records); got != want {
		t.Errorf("on record is\n%s, not\n%s", got, want)
	}
	if got := p.look(t, `SELECT DISTINCT principal FROM fencegate.refusals`); got != p.role {
		t.Errorf("%s wrote, not %s", got, p.role)
	}
	if got := p.look(t, contents); got != "a4 b4 c0 | 1:1 2:1" {
		t.Error(got)
	}
}

// A record that can't be made costs the table nothing.
func TestAnObservingGuardLetsPassWhatItCannotRecord(t *testing.T) {
	t.Parallel()
	p := newPlace(t, stock, "stock stock:{sku} observe")
	p.Exec(t, "ALTER TABLE fencegate.refusals ADD CONSTRAINT nothing CHECK (code = '') NOT VALID")
	if state := run(t, p.as(t), "UPDATE shop.stock SET n = 9"); state != "" {
		t.Fatal(state)
	}
	if got := p.look(t, contents); !strings.HasPrefix(got, "a9 b9") {
		t.Error(got)
	}
}

func TestAGuardIsReversible(t *testing.T) {
	t.Parallel()
	p := newPlace(t, stock)
	const all = `
		SELECT concat_ws(' ', (SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal), (SELECT count(*) FROM pg_proc), (SELECT count(*) FROM fencegate.guards))`
	before := p.look(t, all)
	for _, lock := range []string{"part:{id}", "parts:{id}", "part"} {
		p.protect(t, "part", lock, lock == "parts:{id}")
		p.protect(t, "part", lock, false) // the same again
		if g := p.guards(t); len(g) != 1 || g[0].Template != lock || g[0].Observe || len(g[0].Faults()) > 0 || len(g[0].Tables) != 3 {
			t.Errorf("%s: %v", lock, g)
		}
	}
	p.grant(t, "part", "h")
	if state := run(t, p.as(t), "BEGIN\nSELECT fencegate.admit('part', 1, 'h')\nTRUNCATE shop.part\nROLLBACK"); state != "" {
		t.Errorf("the lock of the whole table covers all its rows: %s", state)
	}
	g := p.guard(t, "part", "part", false)
	g.Former = p.guards(t)[0].Function
	p.Exec(t, g.Remove())
	if got := p.look(t, all); got != before {
		t.Errorf("left are %s, there were %s", got, before)
	}
	if state := run(t, p.as(t), "UPDATE shop.part SET n = 9"); state != "" {
		t.Errorf("without a guard: %s", state)
	}
}

// Whoever was admitted before a guard was there has no proof, and is not refused.
func TestMakingAGuardWaitsForThoseAdmittedBefore(t *testing.T) {
	t.Parallel()
	p := newPlace(t, stock)
	p.grant(t, "stock:a", "h")
	conn, maker := p.as(t), connect(t, p.URL)
	if state := run(t, conn, "BEGIN\nSELECT fencegate.admit('stock:a', 1, 'h')"); state != "" {
		t.Fatal(state)
	}
	install := p.guard(t, "stock", "stock:{sku}", false).Install()
	made := make(chan error, 1)
	go func() {
		_, err := maker.PgConn().Exec(t.Context(), install).ReadAll()
		made <- err
	}()
	p.awaitBlocked(t, maker)
	if state := run(t, conn, "UPDATE shop.stock SET n = 9 WHERE sku = 'a'\nCOMMIT"); state != "" {
		t.Errorf("a holder was refused: %s", state)
	}
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	if state := run(t, conn, "UPDATE shop.stock SET n = 9 WHERE sku = 'a'"); state != stateUnfenced {
		t.Errorf("unguarded: %q", state)
	}
}
