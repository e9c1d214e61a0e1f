package gate

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient"
	"github.com/fencegate/fencegate/internal/statement"
)

func remembering(c *Config) { c.KeepAnswers = time.Hour }

// append adds to the row's value, so that applying it twice shows.
func (s *shelf) append(claim lease.Claim, once Once) (Result, error) {
	return s.gate.Write(s.Context(), s.appending(claim, once))
}

func (s *shelf) appending(claim lease.Claim, once Once) Write {
	return Write{
		Principal: auth.Anyone, Claims: []lease.Claim{claim}, Origin: origin, Once: once,
		Mutations: []statement.Mutation{{
			Op: catalog.Update, Table: s.table, MaxAffected: -1, Return: statement.Columns{Names: []string{"value"}}, MaxBytes: 1 << 20,
			Rows:    []statement.Row{{Names: []string{"value"}, JSON: []byte(`{"value":"+"}`)}},
			Filters: []statement.Filter{{Column: "id", Op: statement.Eq, Values: []string{"a"}}},
		}},
	}
}

// newCounter is a shelf whose row counts how often it was written.
func newCounter(t *testing.T, options ...func(*Config)) *shelf {
	t.Helper()
	s := newShelf(t, append(options, remembering)...)
	s.db.Exec(t, `
		CREATE FUNCTION count_write() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF NEW.value = 'refuse' THEN RAISE EXCEPTION 'as told'; END IF;
			NEW.value := OLD.value || NEW.value;
			RETURN NEW;
		END $$`)
	s.db.Exec(t, `CREATE TRIGGER count_write BEFORE UPDATE ON item FOR EACH ROW EXECUTE FUNCTION count_write()`)
	return s
}

const written = "before+" // the row after one application

func TestIdempotency(t *testing.T) {
	t.Parallel()
	once := Once{Key: "request", Fingerprint: "f"}

	t.Run("I6/ARepeatIsAnsweredAsBeforeAndNotApplied", func(t *testing.T) {
		t.Parallel()
		s := newCounter(t)
		claim := s.grant(t, s.gate, shelfKey)
		for i := range 3 {
			result, err := s.append(claim, once)
			if err != nil || result.Replayed != (i > 0) || result.Parts[0].Affected != 1 || result.Parts[0].JSON != `{"value":"before+"}` {
				t.Fatalf("attempt %d: %+v, %v", i, result, err)
			}
		}
		if s.value() != written {
			t.Errorf("the row holds %q", s.value())
		}
	})

	t.Run("I6/ReplayBeatsRefusal", func(t *testing.T) {
		t.Parallel()
		s := newCounter(t)
		claim := s.grant(t, s.gate, shelfKey)
		if _, err := s.append(claim, once); err != nil {
			t.Fatal(err)
		}
		s.expire(t, claim)
		s.grant(t, s.gate, shelfKey)
		result, err := s.append(claim, once)
		if err != nil || !result.Replayed || s.value() != written {
			t.Errorf("%+v, %v, the row holds %q", result, err, s.value())
		}
		if code(second(s.append(claim, Once{Key: "other", Fingerprint: "f"}))) != fence.StaleToken {
			t.Error("the late holder's new request is not stale")
		}
		s.gate.Store = unreachable{s.gate.Store}
		if result, err := s.append(claim, once); err != nil || !result.Replayed {
			t.Errorf("with the lock service down: %+v, %v", result, err)
		}
		if _, err := s.append(claim, Once{Key: "third", Fingerprint: "f"}); !errors.Is(err, lockclient.ErrUnavailable) && code(err) != fence.StaleToken {
			t.Errorf("a new request with the lock service down: %v", err)
		}
	})

	t.Run("AnotherRequestUnderTheSameKeyIsAnError", func(t *testing.T) {
		t.Parallel()
		s := newCounter(t)
		claim := s.grant(t, s.gate, shelfKey)
		if _, err := s.append(claim, once); err != nil {
			t.Fatal(err)
		}
		if _, err := s.append(claim, Once{Key: once.Key, Fingerprint: "another"}); !errors.Is(err, ErrKeyReused) || s.value() != written {
			t.Errorf("%v, the row holds %q", err, s.value())
		}
	})

	t.Run("AnotherPrincipalsKeyIsAnotherKey", func(t *testing.T) {
		t.Parallel()
		s := newCounter(t)
		claim := s.grant(t, s.gate, shelfKey)
		for _, name := range []string{"one", "two"} {
			w := s.appending(claim, once)
			w.Principal = auth.Unrestricted(name)
			if result, err := s.gate.Write(t.Context(), w); err != nil || result.Replayed {
				t.Fatalf("%s: %+v, %v", name, result, err)
			}
		}
	})

	t.Run("I6/ConcurrentRepeatsAreAppliedOnce", func(t *testing.T) {
		t.Parallel()
		s := newCounter(t)
		claim := s.grant(t, s.gate, shelfKey)
		var repeats sync.WaitGroup
		var mu sync.Mutex
		fresh := 0
		for range 20 {
			repeats.Go(func() {
				result, err := s.append(claim, once)
				if err != nil || result.Parts[0].JSON != `{"value":"before+"}` {
					t.Errorf("%+v, %v", result, err)
				}
				mu.Lock()
				defer mu.Unlock()
				if !result.Replayed {
					fresh++
				}
			})
		}
		repeats.Wait()
		if fresh != 1 || s.value() != written {
			t.Errorf("%d were applied, the row holds %q", fresh, s.value())
		}
	})

	t.Run("ARolledBackAttemptDoesNotUseUpTheKey", func(t *testing.T) {
		t.Parallel()
		s := newCounter(t)
		claim := s.grant(t, s.gate, shelfKey)
		w := s.appending(claim, once)
		w.Mutations[0].Rows[0].JSON = []byte(`{"value":"refuse"}`)
		var db *DatabaseError
		if _, err := s.gate.Write(t.Context(), w); !errors.As(err, &db) {
			t.Fatal(err)
		}
		if result, err := s.append(claim, once); err != nil || result.Replayed || s.value() != written {
			t.Errorf("%+v, %v, the row holds %q", result, err, s.value())
		}
	})

	t.Run("I6/ARefusedRequestStaysRefusedUntilANewGrant", func(t *testing.T) {
		t.Parallel()
		s := newCounter(t)
		old := s.grant(t, s.gate, shelfKey)
		s.expire(t, old)
		if got := code(second(s.append(old, once))); got != LeaseExpired {
			t.Fatalf("refused with %q", got)
		}
		// The earlier attempt, held up on its way past the lease check, now reaches
		// the database: its grant is still the newest one.
		plan, err := s.appending(old, once).plan()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.gate.commit(t.Context(), s.appending(old, once), plan, false); !errors.Is(err, fence.ErrRefused) || s.value() != "before" {
			t.Fatalf("the delayed attempt: %v, the row holds %q", err, s.value())
		}
		current := s.grant(t, s.gate, shelfKey)
		if result, err := s.append(current, once); err != nil || result.Replayed || s.value() != written {
			t.Errorf("under the new grant: %+v, %v, the row holds %q", result, err, s.value())
		}
	})

	t.Run("I6/ARefusalWaitsForTheAttemptInFlightAndReplaysIt", func(t *testing.T) {
		t.Parallel()
		s := newCounter(t)
		claim := s.grant(t, s.gate, shelfKey)
		attempt := s.session(t)
		tx, err := attempt.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var batch pgx.Batch
		w := s.appending(claim, once)
		plan, err := w.plan()
		if err != nil {
			t.Fatal(err)
		}
		s.gate.claimAnswer(&batch, w)
		fence.Admit(&batch, w.Claims)
		queue(&batch, plan[0].Statement)
		if err := tx.SendBatch(t.Context(), &batch).Close(); err != nil {
			t.Fatal(err)
		}
		s.expire(t, claim)
		refuser := s.session(t)
		gate := *s.gate
		gate.Writes = refuser.pool
		answered := make(chan error, 1)
		go func() {
			answered <- gate.refuseAnswer(context.Background(), w, []*Refused{{Code: LeaseExpired, Claim: claim}}, nil)
		}()
		for waits := false; !waits; {
			select {
			case err := <-answered:
				t.Fatalf("the refusal did not wait for the attempt in flight: %v", err)
			default:
			}
			if waits, err = s.blocked(t.Context(), refuser); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-answered; !errors.Is(err, errApplied) {
			t.Fatalf("the refusal: %v", err)
		}
		if result, err := s.append(claim, once); err != nil || !result.Replayed || s.value() != written {
			t.Errorf("%+v, %v, the row holds %q", result, err, s.value())
		}
	})

	t.Run("AnExpiredKeyIsFreeAndForgotten", func(t *testing.T) {
		t.Parallel()
		s := newCounter(t)
		claim := s.grant(t, s.gate, shelfKey)
		for n := range 2 {
			if result, err := s.append(claim, once); err != nil || result.Replayed {
				t.Fatalf("attempt %d: %+v, %v", n, result, err)
			}
			s.db.Exec(t, `UPDATE fencegate.answers SET expires_at = clock_timestamp()`)
		}
		if _, err := s.append(claim, Once{Key: "kept", Fingerprint: "f"}); err != nil {
			t.Fatal(err)
		}
		if n, err := s.gate.forgetSome(t.Context()); n != 1 || err != nil {
			t.Errorf("%d forgotten, %v", n, err)
		}
		var keys string
		if err := s.pool.QueryRow(t.Context(), `SELECT string_agg(idempotency_key, ',') FROM fencegate.answers`).Scan(&keys); err != nil || keys != "kept" {
			t.Errorf("left: %q, %v", keys, err)
		}
	})

	t.Run("I6/Control", func(t *testing.T) {
		t.Parallel()
		s := newCounter(t)
		s.mutate(t, "claim_answer", "IF a.state = 'applied' THEN\n            RAISE EXCEPTION 'applied already' USING ERRCODE = 'FG006';\n        ELSIF", "IF a.state = 'applied' THEN RETURN; ELSIF")
		s.mutate(t, "keep_answer", "\n       AND xmin = pg_current_xact_id()::xid", "") // which would stop it as well
		claim := s.grant(t, s.gate, shelfKey)
		for range 2 {
			if _, err := s.append(claim, once); err != nil {
				t.Fatal(err)
			}
		}
		if s.value() == written {
			t.Fatal("applied once even without the claim: these tests can't fail")
		}
	})
}

func second(_ Result, err error) error { return err }
