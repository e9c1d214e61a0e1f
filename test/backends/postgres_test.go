package backends_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient"
	"github.com/fencegate/fencegate/internal/lockclient/pglock"
	"github.com/fencegate/fencegate/internal/testenv"
)

const onPostgres = "leases: {backend: postgres}\n"

func TestAGatewayWithoutRedis(t *testing.T) {
	t.Parallel()
	p := build(t, onPostgres)
	everyDay(t, p)
	resp, err := http.Get(p.AdminURL + "/readyz")
	must(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("/readyz answers %d", resp.StatusCode)
	}
	leasesLost(t, p, func(t testing.TB) {
		_, err := p.sql.Exec(t.Context(), `TRUNCATE fencegate.leases`)
		must(t, err)
	})
}

func TestADatabaseThatCrashesLosesItsLeasesAndLowersNoToken(t *testing.T) {
	t.Parallel()
	server := testenv.OwnPostgres(t)
	db := testenv.OwnDatabase(t, server)
	db.Exec(t, devstack.Shop)
	p := buildOn(t, db, onPostgres)
	crash := func(t testing.TB) {
		must(t, server.Kill())
		must(t, server.Restart(t.Context()))
		p.sql.Reset()
	}
	leasesLost(t, p, crash)
	leasesKept(t, p, func(t testing.TB) { must(t, server.Restart(t.Context())); p.sql.Reset() })
}

func TestEndedLeasesAreSweptAndOthersAreNot(t *testing.T) {
	t.Parallel()
	pool := pgxPool(t, testenv.Postgres(t).URL)
	store := pglock.New(pool)
	const insert = `
		INSERT INTO fencegate.leases (lock_key, holder, ends_at)
		SELECT 'ended:' || n, 'x', clock_timestamp() - interval '2 hours' FROM generate_series(1, 1500) AS n
		UNION ALL SELECT 'lately', 'x', clock_timestamp() - interval '1 minute'`
	_, err := pool.Exec(t.Context(), insert)
	must(t, err)
	_, _, err = store.Take(t.Context(), "alive", "me", time.Minute)
	must(t, err)
	for _, want := range []int{1000, 500, 0} {
		if n, err := store.Sweep(t.Context(), time.Hour); err != nil || n != want {
			t.Errorf("%d rows were swept, want %d: %v", n, want, err)
		}
	}
	var left int
	must(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM fencegate.leases`).Scan(&left))
	if left != 2 {
		t.Errorf("%d rows are left, want 2", left)
	}
	if dropped, err := store.Drop(t.Context(), "alive", "me"); err != nil || !dropped {
		t.Errorf("dropping: %t %v", dropped, err)
	}
	must(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM fencegate.leases WHERE lock_key = 'alive'`).Scan(&left))
	if left != 0 {
		t.Error("a dropped lease has its row still")
	}
}

// A failing take must not cost the database a write: those who wait ask often.
func TestATakeOfAHeldKeyWritesNothing(t *testing.T) {
	t.Parallel()
	pool := pgxPool(t, testenv.Postgres(t).URL)
	store := pglock.New(pool)
	_, _, err := store.Take(t.Context(), "key", "me", time.Minute)
	must(t, err)
	version := func() (v string) {
		must(t, pool.QueryRow(t.Context(), `SELECT ctid::text || xmin || xmax FROM fencegate.leases`).Scan(&v))
		return v
	}
	before := version()
	for range 3 {
		if taken, r, err := store.Take(t.Context(), "key", lease.NewHolder(), time.Minute); err != nil || taken || !r.HeldBy("me") {
			t.Fatalf("taking: %t %+v %v", taken, r, err)
		}
	}
	if after := version(); after != before {
		t.Errorf("the row was %s and is %s", before, after)
	}
}

// Two takes of one free key at the same time, held up where they meet: the one that
// comes second finds the first one's lease, and not the key as it was.
func TestASecondTakeWaitsForTheFirstAndFindsIt(t *testing.T) {
	t.Parallel()
	pool := pgxPool(t, testenv.Postgres(t).URL)
	store := pglock.New(pool)
	for name, before := range map[string]string{
		"a key never taken": `SELECT`,
		"a lease that ended": `INSERT INTO fencegate.leases (lock_key, holder, ends_at)
			VALUES ('a lease that ended', 'late', clock_timestamp() - interval '1 second')`,
	} {
		_, err := pool.Exec(t.Context(), before)
		must(t, err)
		tx, err := pool.Begin(t.Context())
		must(t, err)
		var pid int
		must(t, tx.QueryRow(t.Context(), `SELECT pg_backend_pid() FROM fencegate.take_lease($1, 'first', 60000)`, name).Scan(&pid))
		type outcome struct {
			taken bool
			r     lockclient.Reading
			err   error
		}
		second := make(chan outcome, 1)
		go func() {
			taken, r, err := store.Take(t.Context(), lease.Key(name), "second", time.Minute)
			second <- outcome{taken, r, err}
		}()
		for waiting := 0; waiting == 0; {
			must(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))`, pid).Scan(&waiting))
		}
		must(t, tx.Commit(t.Context()))
		if o := <-second; o.err != nil || o.taken || !o.r.HeldBy("first") {
			t.Errorf("%s: %+v", name, o)
		}
	}
}
