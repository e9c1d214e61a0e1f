package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/lease"
)

// Two workers take the steps of a grant and of a write, in every order there
// is: read mark, take lease, raise mark × admit, write, commit. Taking a lease
// that the other still has means that it ran out just then. Whenever a step
// waits for a lock the other worker goes on.

// play runs one schedule, a sequence of worker numbers, and returns what it
// broke.
func (st *theatre) play(schedule []int) (violations []string) {
	st.begin()
	for _, n := range schedule {
		st.advance(st.actors[n])
	}
	for st.pending() {
		for _, a := range st.actors {
			st.advance(a)
		}
	}
	return st.judge()
}

func TestInterleavings(t *testing.T) {
	t.Parallel()
	for name, prior := range map[string]bool{"OfTheFirstGrant": false, "AfterAnEarlierGrant": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, newWorld(t), prior)
			schedules := interleavings(len(honest))
			if len(schedules) != 924 {
				t.Fatalf("%d schedules, expected 12 over 6", len(schedules))
			}
			for _, schedule := range schedules {
				if violations := st.play(schedule); len(violations) > 0 {
					t.Fatalf("%s\nschedule %v:\n%s", strings.Join(violations, "\n"), schedule, strings.Join(st.story, "\n"))
				}
			}
			if st.refused == 0 || st.waited == 0 {
				t.Fatalf("%d refusals and %d waits: the schedules never met", st.refused, st.waited)
			}
		})
	}
}

// TestInterleavingsNoticeAMissingRule plays the same schedules with one rule
// taken out: each must break something.
func TestInterleavingsNoticeAMissingRule(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]struct {
		function, rule, instead string
		steps                   []step
		breaks                  string
	}{
		"TheFenceTakesNoLock":          {"admit", "FOR NO KEY UPDATE", "", honest, "I4"},
		"TheFenceLockIsTooWeak":        {"admit", "FOR NO KEY UPDATE", "FOR KEY SHARE", honest, "I4"},
		"TheRaiseIsUnconditional":      {"raise_mark", "AND marks.token = p_seen\n           AND NOT", "AND NOT", honest, "ORDER"},
		"TheLeaseIsTakenBeforeReading": {"", "", "", []step{takeLease, readMark, raiseMark, admitWrite, write, commit}, "ORDER"},
		"TheTokenIsNotCompared":        {"admit", "AND token = p_tokens[i]\n                AND holder = p_holders[i]", "", honest, "I4"},
		"NothingIsEverAdmitted":        {"admit", "AND state = 'held'", "AND state = 'none'", honest, "I9"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if m.function != "" {
				w.mutate(t, m.function, m.rule, m.instead)
			}
			st := newStage(t, w, true)
			st.steps = m.steps
			for _, schedule := range interleavings(len(m.steps)) {
				for _, violation := range st.play(schedule) {
					if strings.HasPrefix(violation, m.breaks) {
						return
					}
				}
			}
			t.Fatalf("no schedule broke %s", m.breaks)
		})
	}
}

// interleavings returns every order of two workers with n steps each.
func interleavings(n int) (all [][]int) {
	var extend func(schedule []int, first, second int)
	extend = func(schedule []int, first, second int) {
		if first+second == 0 {
			all = append(all, slices.Clone(schedule))
			return
		}
		if first > 0 {
			extend(append(schedule, 0), first-1, second)
		}
		if second > 0 {
			extend(append(schedule, 1), first, second-1)
		}
	}
	extend(nil, n, n)
	return all
}

// step is one step of a worker; it returns how it came out, and whether the
// worker goes on.
type step func(*actor) (outcome string, goesOn bool)

var honest = []step{readMark, takeLease, raiseMark, admitWrite, write, commit}

// theatre is where two actors play.
type theatre struct {
	*testing.T
	world   *world
	steps   []step
	actors  [2]*actor
	prior   bool
	round   int
	key     lease.Key
	story   []string
	grants  []lease.Token // in the order in which they were returned
	commits []lease.Token // in commit order
	broken  []string
	ended   int // steps after which the actor had no transaction open
	refused int
	waited  int
}

type actor struct {
	*attempt
	stage      *theatre
	number     int
	session    *session
	next       int
	running    chan func() // result of the step in flight, nil if none
	waitsSince int         // stage.ended when it was last seen to wait
	tx         pgx.Tx
	granted    bool
	dead       bool // its lease has run out
	done       bool
	committed  bool
}

func newStage(t *testing.T, w *world, prior bool) *theatre {
	st := &theatre{T: t, world: w, steps: honest, prior: prior}
	w.db.Exec(t, `CREATE TABLE legacy (lock_key text PRIMARY KEY, value text NOT NULL)`)
	for i := range st.actors {
		st.actors[i] = &actor{stage: st, number: i, session: w.session(t)}
	}
	return st
}

// begin sets up a lock key and a legacy row that no schedule has used.
func (st *theatre) begin() {
	st.round++
	st.key = keyOf("item:", st.round)
	st.story, st.grants, st.commits, st.broken = nil, nil, nil, nil
	if _, err := st.world.pool.Exec(st.Context(), `INSERT INTO legacy VALUES ($1, '')`, string(st.key)); err != nil {
		st.Fatal(err)
	}
	if st.prior {
		g := st.world.bareGate(st.actors[0].session)
		claim := st.world.grant(st.T, g, st.key)
		if _, err := g.Release(st.Context(), auth.Anyone, claim, origin); err != nil {
			st.Fatal(err)
		}
	}
	for _, a := range st.actors {
		a.attempt = &attempt{
			gate:  st.world.bareGate(a.session),
			claim: lease.Claim{Key: st.key, Holder: lease.NewHolder()},
			ttl:   time.Minute,
		}
		a.next, a.granted, a.dead, a.done, a.committed = 0, false, false, false, false
	}
}

func (st *theatre) pending() bool {
	return !st.actors[0].done || !st.actors[1].done
}

// advance takes the actor's next step, or goes on waiting for the one that it
// is in, until it has come out or waits for a lock.
func (st *theatre) advance(a *actor) {
	if a.done {
		return
	}
	if a.running != nil && a.waitsSince == st.ended {
		return // nothing has happened that could have let it go on
	}
	if a.running == nil {
		a.running = make(chan func(), 1)
		step := st.steps[a.next]
		go func() {
			outcome, goesOn := step(a)
			a.running <- func() { a.finish(outcome, goesOn) }
		}()
	}
	for {
		select {
		case finish := <-a.running:
			finish()
			return
		case <-time.After(patience):
		}
		waits, err := st.world.blocked(st.Context(), a.session)
		if err != nil {
			st.Fatal(err)
		}
		if waits {
			st.waited++
			a.waitsSince = st.ended
			return
		}
	}
}

// patience is how long a step may take before the database is asked whether it
// waits for a lock; it decides nothing.
const patience = time.Millisecond

func (a *actor) finish(outcome string, goesOn bool) {
	a.stage.story = append(a.stage.story, fmt.Sprintf("%c: %s", 'A'+a.number, outcome))
	a.running = nil
	a.next++
	a.done = !goesOn || a.next == len(a.stage.steps)
	if a.done && a.tx != nil {
		a.tx.Rollback(context.Background())
		a.tx = nil
	}
	if a.tx == nil {
		a.stage.ended++
	}
}

func (a *actor) other() *actor { return a.stage.actors[1-a.number] }

func readMark(a *actor) (string, bool) {
	if err := a.readMark(context.Background()); err != nil {
		return "read mark: " + err.Error(), false
	}
	return "read mark " + a.claim.Token.String(), true
}

func takeLease(a *actor) (string, bool) {
	ctx := context.Background()
	err := a.takeLease(ctx)
	if held := (*Held)(nil); errors.As(err, &held) {
		a.other().dead = true
		a.stage.world.store.Drop(ctx, a.stage.key, a.other().claim.Holder)
		err = a.takeLease(ctx)
	}
	if err != nil {
		return "take lease: " + err.Error(), false
	}
	return "took the lease", true
}

// raiseMark starts again after a lost race, as run does.
func raiseMark(a *actor) (string, bool) {
	ctx := context.Background()
	err := a.raiseMark(ctx)
	for errors.Is(err, fence.ErrLostRace) {
		if err = a.readMark(ctx); err == nil {
			err = a.takeLease(ctx)
		}
		if err == nil {
			err = a.raiseMark(ctx)
		}
	}
	if err != nil {
		return "raise mark: " + err.Error(), false
	}
	a.granted = true
	a.stage.grants = append(a.stage.grants, a.claim.Token)
	return "granted " + a.claim.Token.String(), true
}

func admitWrite(a *actor) (string, bool) {
	ctx := context.Background()
	tx, err := a.session.pool.Begin(ctx)
	if err != nil {
		return "begin: " + err.Error(), false
	}
	a.tx = tx
	if err := admit(ctx, tx, a.claim); err != nil {
		if !errors.Is(err, fence.ErrRefused) {
			a.stage.Errorf("the fence failed: %v", err)
		}
		a.stage.refused++
		if !a.dead && a.claim.Token == slices.Max(a.stage.grants) {
			a.stage.broken = append(a.stage.broken, "I9: the live holder of the newest token was refused")
		}
		return err.Error(), false
	}
	return "admitted", true
}

func write(a *actor) (string, bool) {
	_, err := a.tx.Exec(context.Background(), `UPDATE legacy SET value = $2 WHERE lock_key = $1`, string(a.stage.key), a.claim.Token.String())
	if err != nil {
		a.stage.Errorf("writing: %v", err)
	}
	return "wrote", err == nil
}

func commit(a *actor) (string, bool) {
	newest := slices.Max(a.stage.grants)
	if err := a.tx.Commit(context.Background()); err != nil {
		a.stage.Errorf("committing: %v", err)
	}
	a.tx = nil
	a.committed = true
	if a.claim.Token < newest {
		a.stage.broken = append(a.stage.broken, fmt.Sprintf("I4: token %s committed after %s was granted", a.claim.Token, newest))
	}
	a.stage.commits = append(a.stage.commits, a.claim.Token)
	return "committed " + a.claim.Token.String(), true
}

// judge holds what happened against the invariants.
func (st *theatre) judge() []string {
	broken := st.broken
	note := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	for i := 1; i < len(st.grants); i++ {
		if st.grants[i] <= st.grants[i-1] {
			note("I1: grants %v don't rise", st.grants)
		}
	}
	if !slices.IsSorted(st.commits) {
		note("I3: commits %v fall", st.commits)
	}
	var mark lease.Token
	var value string
	err := st.world.pool.QueryRow(st.Context(),
		`SELECT m.token, l.value FROM fencegate.marks AS m JOIN legacy AS l USING (lock_key) WHERE lock_key = $1`,
		string(st.key)).Scan(&mark, &value)
	if err != nil {
		st.Fatal(err)
	}
	if len(st.grants) > 0 && mark != slices.Max(st.grants) {
		note("I5: the mark is %s after grants %v", mark, st.grants)
	}
	if len(st.commits) > 0 && value != st.commits[len(st.commits)-1].String() {
		note("I6: the row holds %q after commits %v", value, st.commits)
	}
	for _, a := range st.actors {
		live := a.taken && !a.dead
		if live && a.granted && a.claim.Token != slices.Max(st.grants) {
			note("ORDER: the live holder's token %s is below %s", a.claim.Token, slices.Max(st.grants))
		}
		if live && !a.granted {
			note("I9: the live holder was not granted")
		}
	}
	return broken
}

// bareGate is a gate on one session, for the protocol's steps alone.
func (w *world) bareGate(s *session) *Gate {
	return &Gate{Config: Config{
		Writes: s.pool, Tables: w.tables, Store: w.store, Marks: fence.New(s.pool, s.pool),
		Terms: Terms{Min: time.Millisecond, Default: time.Minute, Max: time.Minute, Lifetime: time.Hour},
	}, waiting: newWaiting(), movers: newFair(1)}
}
