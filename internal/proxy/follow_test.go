package proxy_test

import (
	"net/http"
	"syscall"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestTablesThatChangeAreFollowed(t *testing.T) {
	t.Parallel()
	g := startKinds(t, "")
	l := g.Acquire(t, "kind:K", 300_000)
	write := func(t *testing.T, body string) testenv.Response {
		t.Helper()
		return g.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/kinds?id=eq.K&select=id", Header: l.Header(), Body: body})
	}

	t.Run("AColumnThatWasAdded", func(t *testing.T) {
		g.Database.Exec(t, `ALTER TABLE shop.kinds ADD COLUMN added integer`)
		if answer := write(t, `{"added":7}`); answer.Status != http.StatusNoContent {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
		if answer := g.Do(t, testenv.Request{Path: "/rest/kinds?added=eq.7&select=added&order=added"}); answer.Body != `[{"added":7}]` {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})

	t.Run("AColumnThatWasDropped", func(t *testing.T) {
		g.Database.Exec(t, `ALTER TABLE shop.kinds DROP COLUMN added`)
		w := watch(t, g)
		w.refused(t, g, testenv.Request{Method: http.MethodPatch, Path: "/rest/kinds?id=eq.K", Header: l.Header(), Body: `{"added":8}`},
			want{status: 422, slug: "unknown_column"})
	})

	t.Run("AColumnThatIsNotThereStaysUnknown", func(t *testing.T) {
		for range 3 {
			mustRefuse(t, write(t, `{"nosuch":1}`), want{status: 422, slug: "unknown_column"})
		}
	})

	t.Run("AHangUpReadsTheTablesAnew", func(t *testing.T) {
		g.Database.Exec(t, `ALTER TABLE shop.kinds ALTER COLUMN note TYPE varchar(5) USING NULL`)
		g.Signal(t, syscall.SIGHUP)
		g.AwaitLog(t, "the configuration was read anew")
		mustRefuse(t, write(t, `{"note":"too long"}`), want{status: 422, slug: "invalid_value"})
	})

	t.Run("ATableThatIsGoneLeavesTheOthersWorking", func(t *testing.T) {
		g.Database.Exec(t, `DROP TABLE shop.lines`)
		g.Signal(t, syscall.SIGHUP)
		g.AwaitLog(t, "the configuration could not be read anew; the gateway goes on with the one it has")
		if answer := write(t, `{"note":"short"}`); answer.Status != http.StatusNoContent {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
		mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/lines"}), want{status: 404, slug: "unknown_table"})
	})
}
