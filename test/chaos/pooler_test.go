package chaos_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
)

// pooledPlant is a plant whose gateway reaches PostgreSQL by way of PgBouncer in
// transaction mode; the wire is between the gateway and PgBouncer.
type pooledPlant struct {
	*plant
	bouncer *devstack.PgBouncer
}

// throughPooler has short timeouts, and nothing of them in the session.
const throughPooler = `
database: {url: '%s', pooler: transaction, lock_timeout: 400ms, statement_timeout: 800ms}
limits: {request_timeout: 2s}
`

// buildPooled starts PgBouncer with size connections to the database, which it
// reaches at behind, the database's own address if "".
func buildPooled(t *testing.T, size int, db *testenv.Database, behind string, setup string) *pooledPlant {
	t.Helper()
	if behind == "" {
		behind = db.URL
	}
	bouncer := testenv.PgBouncer(t, behind, size, nil)
	p := build(t, options{
		GatewayOptions: testenv.GatewayOptions{Database: db, DatabaseURL: bouncer.URL(db.Name), Config: throughPooler},
		setup:          setup,
	})
	return &pooledPlant{p, bouncer}
}

func TestManyWorkersShareFewConnectionsOfAPooler(t *testing.T) {
	t.Parallel()
	p := buildPooled(t, 2, testenv.Postgres(t), "", "")
	second := testenv.StartGateway(t, testenv.GatewayOptions{
		Database: p.db, RedisURL: p.redisURL, KeyPrefix: p.leasesName,
		Config: strings.Replace(throughPooler, "%s", p.bouncer.URL(p.db.Name), 1),
	})
	var working sync.WaitGroup
	for n := range 8 {
		sku, key := p.item(t, fmt.Sprint("W", n))
		g := []*testenv.Gateway{p.Gateway, second}[n%2]
		working.Go(func() { work(t, g, sku, key) })
	}
	working.Wait()
	for n := range 8 {
		p.wantRow(t, fmt.Sprint("W", n), 2*rounds, 2*rounds)
	}
	wantOrderedGrants(t, p.sql)
}

const rounds = 12

// work is one worker's life: it writes once a round by PATCH and once in a
// transaction, and reads, renews and is late in between.
func work(t *testing.T, g *testenv.Gateway, sku, key string) {
	want := func(q testenv.Request, status int, body string) testenv.Response {
		answer, err := g.Try(t, t.Context(), q)
		if err != nil || answer.Status != status || body != "" && answer.Body != body {
			t.Errorf("%s %s: %d %s, %v; want %d %s", q.Method, q.Path, answer.Status, answer.Body, err, status, body)
		}
		return answer
	}
	acquire := func() (l testenv.Lease) {
		json.Unmarshal([]byte(want(acquireRequest(key, 60000), 201, "").Body), &l)
		return l
	}
	old := acquire()
	want(releaseRequest(old), 200, "")
	l := acquire()
	for n := 1; n < 2*rounds; n += 2 {
		q := setRequest(l, sku, n)
		q.Header.Set("Idempotency-Key", fmt.Sprint(sku, n))
		q.Header.Set("Prefer", "timezone=Asia/Tokyo")
		want(q, 204, "")
		if again := want(q, 204, ""); again.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s %d: it was not replayed", sku, n)
		}
		want(testenv.Request{Path: "/rest/inventory?select=available&sku=eq." + sku}, 200, fmt.Sprintf(`[{"available":%d}]`, n))
		want(setRequest(old, sku, 999), 412, "")
		want(renewRequest(l), 200, "")
		body := fmt.Sprintf(`{"locks":[{"key":%q,"holder":%q,"token":%q}],
			"operations":[{"op":"update","table":"inventory","where":{"sku":%q},"increment":{"available":1}}]}`, l.Key, l.Holder, l.Token, "eq."+sku)
		want(testenv.Request{Method: http.MethodPost, Path: "/v1/transactions", Body: body}, 200, "")
	}
}

func TestAPooledTransactionCostsOneRoundTrip(t *testing.T) {
	t.Parallel()
	p := buildPooled(t, 2, testenv.Postgres(t), "", "")
	sku, key := p.item(t, "A")
	l := p.Acquire(t, key, 60000)
	n := 0
	for name, act := range map[string]struct {
		status, postgres int
		do               func() testenv.Response
	}{
		"patch":   {204, 1, func() testenv.Response { n++; return set(t, p.Gateway, l, sku, n) }},
		"read":    {200, 1, func() testenv.Response { return p.Do(t, testenv.Request{Path: "/rest/inventory"}) }},
		"acquire": {201, 2, func() testenv.Response { n++; return p.TryAcquire(t, fmt.Sprint("inventory:B", n), 60000) }},
		"renew":   {200, 1, func() testenv.Response { return p.Do(t, renewRequest(l)) }},
		"marks":   {200, 1, func() testenv.Response { return p.Do(t, testenv.Request{Path: "/v1/marks"}) }},
	} {
		if postgres, _ := p.cost(t, act.status, act.do); postgres != act.postgres {
			t.Errorf("%s: %d round trips to PostgreSQL, not %d", name, postgres, act.postgres)
		}
	}
}

func TestWhatAPooledTransactionSetsStaysWithIt(t *testing.T) {
	t.Parallel()
	p := buildPooled(t, 1, testenv.Postgres(t), "", "")
	sku, key := p.item(t, "A")
	l := p.Acquire(t, key, 60000)
	stranger, err := pgx.Connect(t.Context(), p.bouncer.URL(p.db.Name)+"&default_query_exec_mode=exec")
	must(t, err)
	t.Cleanup(func() { stranger.Close(t.Context()) })
	const settings = `SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings WHERE name IN
		('statement_timeout', 'lock_timeout', 'TimeZone', 'transaction_read_only', 'client_encoding') AND $1 = ''`
	untouched := one[string](t, p.sql, settings, "")
	same := func(after string) {
		t.Helper()
		var now string
		must(t, stranger.QueryRow(t.Context(), settings, "").Scan(&now))
		if now != untouched {
			t.Errorf("after %s the session has %s; one that nobody touched has %s", after, now, untouched)
		}
	}
	same("a grant")

	lock := p.lockRow(t, sku)
	began := time.Now()
	wantProblem(t, set(t, p.Gateway, l, sku, 1), 503, "row_locked")
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("it waited %s for the row", took)
	}
	lock.free()
	same("a lock_timeout")

	wantProblem(t, p.Patch(t, l, "inventory?sku=eq."+sku, `{"available":1,"description":"slow"}`), 504, "statement_timeout")
	same("a statement_timeout")

	tx, err := p.sql.Begin(t.Context())
	must(t, err)
	defer tx.Rollback(t.Context())
	_, err = tx.Exec(t.Context(), `SELECT FROM fencegate.marks FOR UPDATE`)
	must(t, err)
	wantProblem(t, p.Do(t, releaseRequest(l)), 503, "row_locked")
	must(t, tx.Rollback(t.Context()))
	same("a release that waited")

	zoned := func(zone string) string {
		q := testenv.Request{Path: "/rest/inventory?select=updated_at&sku=eq." + sku, Header: http.Header{}}
		if zone != "" {
			q.Header.Set("Prefer", "timezone="+zone)
		}
		answer := p.Do(t, q)
		wantStatus(t, answer, 200)
		return answer.Body
	}
	plain, tokyo := zoned(""), zoned("Asia/Tokyo")
	if !strings.Contains(tokyo, "+09:00") || strings.Contains(plain, "+09:00") || zoned("") != plain {
		t.Errorf("in Tokyo %s, else %s and %s", tokyo, plain, zoned(""))
	}
	same("reads")

	wantStatus(t, set(t, p.Gateway, l, sku, 5), 204)
	same("a write")
	p.wantRow(t, sku, 5, 1)
}

func TestALateWriteThroughAPoolerIsRefusedAndOnRecord(t *testing.T) {
	t.Parallel()
	p := buildPooled(t, 1, testenv.Postgres(t), "", "")
	sku, key := p.item(t, "A")
	old := p.stale(t, key)
	wantProblem(t, set(t, p.Gateway, old, sku, 9), 412, "stale_token")
	p.wantRow(t, sku, 0, 0)
	var page struct {
		Refusals []struct {
			Code       string
			OccurredAt time.Time `json:"occurred_at"`
		}
	}
	since := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	p.Do(t, testenv.Request{Path: "/v1/refusals?since=" + since}).JSON(t, &page)
	if len(page.Refusals) != 1 || page.Refusals[0].Code != "stale_token" || time.Since(page.Refusals[0].OccurredAt).Abs() > time.Minute {
		t.Errorf("%+v", page)
	}
}

func TestAPoolerThatIsStartedAnewIsFoundAgain(t *testing.T) {
	t.Parallel()
	p := buildPooled(t, 1, testenv.Postgres(t), "", "")
	sku, key := p.item(t, "A")
	l := p.Acquire(t, key, 60000)
	wantStatus(t, set(t, p.Gateway, l, sku, 1), 204)
	must(t, p.bouncer.Kill())
	if first := set(t, p.Gateway, l, sku, 2); first.Status != http.StatusGatewayTimeout {
		wantProblem(t, first, 503, "database_unavailable")
	}
	wantProblem(t, try(t, p.Gateway, setRequest(l, sku, 2), 503), 503, "database_unavailable")
	awaitReady(t, p.Gateway, http.StatusServiceUnavailable)
	must(t, p.bouncer.Restart(t.Context()))
	awaitReady(t, p.Gateway, http.StatusOK)
	p.wantRow(t, sku, 1, 1)
	wantStatus(t, try(t, p.Gateway, setRequest(l, sku, 3), 204), 204)
	p.wantRow(t, sku, 3, 2)
}

// The pooler tells in its own words that the server went away, which says
// nothing about the transaction that it was in.
func TestAPoolersWordThatTheServerIsGoneProvesNothing(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	behind := testenv.NewWire(t, db.URL)
	p := buildPooled(t, 1, db, behind.URL(), "")
	for n, c := range map[int]struct {
		name    string
		arm     func(hook func() bool)
		written int
	}{
		1: {"before the server had it", func(hook func() bool) { behind.OnRequest(1, hook) }, 0},
		2: {"after the server committed it", func(hook func() bool) { behind.OnReply(1, hook) }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			sku, key := p.item(t, fmt.Sprint("P", n))
			l := p.Acquire(t, key, 60000)
			wantStatus(t, set(t, p.Gateway, l, sku, 1), 204)
			q := setRequest(l, sku, 2)
			q.Header.Set("Idempotency-Key", sku)
			behind.Reset()
			c.arm(func() bool { behind.Cut(); return false })
			wantProblem(t, p.Do(t, q), 504, "outcome_unknown")
			again := try(t, p.Gateway, q, 204)
			if replayed := again.Header.Get("Idempotency-Replayed") == "true"; replayed != (c.written == 1) {
				t.Errorf("replayed: %t", replayed)
			}
			p.wantRow(t, sku, 2, 2)
		})
	}
}

func TestADatabaseThatChangedBehindAPoolerIsNoticedByTheNextWrite(t *testing.T) {
	t.Parallel()
	p := buildPooled(t, 1, testenv.Postgres(t), "", "")
	sku, key := p.item(t, "A")
	l := p.Acquire(t, key, 60000)
	wantStatus(t, set(t, p.Gateway, l, sku, 1), 204)
	// As if this had been dumped and restored here: everything is as before but
	// the cluster's identity.
	p.db.Exec(t, `UPDATE fencegate.epochs SET system_identifier = 1`)
	wantProblem(t, set(t, p.Gateway, l, sku, 2), 412, "epoch_changed")
	release(t, p.Gateway, l)
	next, err := p.leases(t).takeOver(t, p.Gateway, key, 60000)
	must(t, err)
	wantStatus(t, set(t, p.Gateway, next, sku, 3), 204)
	wantProblem(t, set(t, p.Gateway, l, sku, 4), 412, "stale_token")
	p.wantRow(t, sku, 3, 2)
}

func TestAPromotionBehindAPoolerFencesWhatWasGrantedBefore(t *testing.T) {
	t.Parallel()
	primary := testenv.OwnPostgres(t)
	db := testenv.OwnDatabase(t, primary)
	behind := testenv.NewWire(t, db.URL)
	p := buildPooled(t, 1, db, behind.URL(), "")
	replication := testenv.NewWire(t, primary.URL("postgres"))
	standby := startStandby(t, p.sql, replication.URL(), db.Name)
	sku, key := p.item(t, "A")
	l := p.Acquire(t, key, 60000)
	wantStatus(t, set(t, p.Gateway, l, sku, 1), 204)
	standby.awaitReplay(t, p.sql)

	// The gateway's connections stay as they are.
	behind.Lead(t, standby.url)
	must(t, primary.Kill())
	for name, q := range map[string]testenv.Request{
		"write": setRequest(l, sku, 2), "read": {Path: "/rest/inventory"}, "renew": renewRequest(l),
		"acquire": acquireRequest("inventory:B", 60000), "release": releaseRequest(l),
	} {
		answer := try(t, p.Gateway, q, 503)
		if p := wantProblem(t, answer, 503, "database_unavailable"); !p.Retryable {
			t.Errorf("%s: %+v", name, p)
		}
	}
	standby.promote(t)
	p.sql = standby.sql
	wantProblem(t, try(t, p.Gateway, setRequest(l, sku, 2), 412), 412, "epoch_changed")
	p.wantRow(t, sku, 1, 1)
	again := p.release(t, l)
	wantStatus(t, set(t, p.Gateway, again, sku, 3), 204)
	p.wantRow(t, sku, 3, 2)
}

func TestWhatASessionOfAPoolerKeepsIsNoReasonToRefuse(t *testing.T) {
	t.Parallel()
	p := buildPooled(t, 1, testenv.Postgres(t), "", `
		CREATE TABLE shop.other (c integer);
		INSERT INTO shop.other VALUES (1);
		CREATE FUNCTION shop.look() RETURNS trigger LANGUAGE plpgsql AS $$
		DECLARE
		    r record;
		BEGIN
		    SELECT * INTO r FROM shop.other;
		    IF r.c = 7 THEN NEW.available := NULL; END IF;
		    RETURN NEW;
		END $$;
		CREATE TRIGGER look BEFORE UPDATE ON shop.inventory FOR EACH ROW EXECUTE FUNCTION shop.look();`)
	sku, key := p.item(t, "A")
	l := p.Acquire(t, key, 60000)
	wantStatus(t, set(t, p.Gateway, l, sku, 1), 204)
	p.db.Exec(t, `ALTER TABLE shop.other ALTER c TYPE bigint; ALTER TABLE shop.inventory ALTER available TYPE bigint`)
	wantStatus(t, set(t, p.Gateway, l, sku, 2), 204)
	p.db.Exec(t, `DROP TRIGGER write_journal ON shop.inventory; ALTER TABLE shop.inventory ALTER description TYPE varchar(5) USING ''`)
	wantProblem(t, p.Patch(t, l, "inventory?sku=eq."+sku, `{"description":"too long"}`), 422, "invalid_value")
}

func TestAPoolerThatIsNotConfiguredIsNoticed(t *testing.T) {
	t.Parallel()
	db := testenv.Shop(t)
	strict := testenv.PgBouncer(t, db.URL, 1, nil)
	lenient := testenv.PgBouncer(t, db.URL, 1, map[string]string{
		"ignore_startup_parameters": "statement_timeout,lock_timeout,idle_in_transaction_session_timeout,default_transaction_isolation,extra_float_digits",
	})
	for name, c := range map[string]struct {
		url, pooler, says string
		args              []string
	}{
		"it refuses the session's settings": {strict.URL(db.Name), "none", "unsupported startup parameter", []string{"serve"}},
		"it ignores the session's settings": {lenient.URL(db.Name), "none", "Set database.pooler", []string{"serve"}},
		"it can't be migrated through":      {lenient.URL(db.Name), "transaction", "FENCEGATE_MIGRATE_URL", []string{"migrate", "up"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis, _ := testenv.Redis(t)
			config := filepath.Join(t.TempDir(), "gateway.yaml")
			text := fmt.Sprintf("listen: 127.0.0.1:0\nadmin_listen: off\nauth: none\nredis: {url: '%s'}\ndatabase: {url: '%s', pooler: %s}\n%s",
				redis, c.url, c.pooler, devstack.ShopTables)
			must(t, os.WriteFile(config, []byte(text), 0o600))
			out, err := exec.CommandContext(t.Context(), testenv.GatewayBinary(t), append(c.args, "--config", config)...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.says) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
