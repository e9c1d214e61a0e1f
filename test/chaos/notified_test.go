package chaos_test

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

const (
	listening = "listening for NOTIFY fencegate"
	notHeard  = "NOTIFY fencegate is not heard until the database can be reached again"
	reread    = "the protected tables were read anew"
)

// buildListening starts a gateway that listens by default, and returns once it does.
func buildListening(t *testing.T) *plant {
	t.Helper()
	p := build(t, options{GatewayOptions: testenv.GatewayOptions{Config: "database: {url: '%s'}\n"}})
	p.AwaitLog(t, listening)
	return p
}

// knows checks that the gateway answers with column at once, without having to
// look at its tables first.
func (p *plant) knows(t *testing.T, column string) {
	t.Helper()
	wantStatus(t, p.Do(t, testenv.Request{Path: "/rest/inventory"}), 200) // a connection that is not idle for long
	p.pg.Reset()
	wantStatus(t, p.Do(t, testenv.Request{Path: "/rest/inventory?select=" + column}), 200)
	if trips := p.pg.RoundTrips(); trips != 1 {
		t.Errorf("reading %s took %d round trips", column, trips)
	}
}

func (p *plant) add(t *testing.T, column string) {
	t.Helper()
	p.db.Exec(t, `ALTER TABLE shop.inventory ADD `+column+` integer`)
}

func TestANotificationReadsTheTablesAnew(t *testing.T) {
	t.Parallel()
	p := buildListening(t)
	for n, column := range []string{"a", "b"} {
		p.add(t, column)
		p.db.Exec(t, `NOTIFY fencegate, 'something else'`)
		p.db.Exec(t, `NOTIFY fencegate, 'reload'`)
		p.AwaitLogs(t, reread, n+1)
		p.knows(t, column)
	}
	if told := strings.Count(p.Log(), reread); told != 2 {
		t.Errorf("the tables were read anew %d times", told)
	}
}

func TestANotificationThatNobodyHeardIsMadeUpFor(t *testing.T) {
	t.Parallel()
	p := buildListening(t)

	p.add(t, "a")
	const end = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query = 'LISTEN fencegate' AND datname = current_database()`
	if n := one[int](t, p.sql, end); n != 1 {
		t.Errorf("%d connections listened", n)
	}
	p.AwaitLogs(t, listening, 2)
	p.knows(t, "a")

	p.pg.Down()
	p.AwaitLogs(t, notHeard, 2)
	awaitReady(t, p.Gateway, http.StatusServiceUnavailable)
	p.add(t, "b")
	p.db.Exec(t, `NOTIFY fencegate, 'reload'`)
	p.pg.Mend(t)
	p.AwaitLogs(t, listening, 3)
	try(t, p.Gateway, testenv.Request{Path: "/rest/inventory"}, 200)
	p.knows(t, "b")
	if told := strings.Count(p.Log(), notHeard); told != 2 {
		t.Errorf("two outages were told of %d times", told)
	}
	p.db.Exec(t, `NOTIFY fencegate, 'reload'`)
	p.AwaitLog(t, reread)
}

func TestNotificationsCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{
		"by configuration": "database: {url: '%s', reload_on_notify: false}\n",
		"by a pooler":      throughPooler,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testenv.Postgres(t)
			o := testenv.GatewayOptions{Database: db, Config: config}
			if config == throughPooler {
				o.DatabaseURL = testenv.PgBouncer(t, db.URL, 2, nil).URL(db.Name)
			}
			p := build(t, options{GatewayOptions: o})
			p.db.Exec(t, `NOTIFY fencegate, 'reload'`)
			p.Signal(t, syscall.SIGHUP)
			p.AwaitLog(t, "the configuration was read anew")
			p.Stop(t)
			if log := p.Log(); strings.Contains(log, listening) || strings.Contains(log, notHeard) || strings.Contains(log, reread) {
				t.Errorf("%s", log)
			}
		})
	}
}

func TestListeningNeverKeepsTheGatewayFromStopping(t *testing.T) {
	t.Parallel()
	for _, down := range []bool{false, true} {
		t.Run(fmt.Sprint("down is ", down), func(t *testing.T) {
			t.Parallel()
			p := buildListening(t)
			if down {
				p.pg.Down()
				p.AwaitLog(t, notHeard)
			}
			p.Signal(t, syscall.SIGTERM)
			if code := p.Wait(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}
