package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/statement"
)

// Write is one write as its door decoded it: mutations that are applied
// together, in order, or not at all.
type Write struct {
	Principal auth.Principal
	Claims    []lease.Claim // one or more, each key once; none with Unclaimed
	// Unclaimed is why there are no Claims, which is refused unless all of Mutations
	// are in observe mode. Nil: there are some.
	Unclaimed *Unclaimed
	Mutations []statement.Mutation
	Origin    audit.Origin
	Once      Once
	Settings  Settings
	Numbered  bool // errors tell which mutation they are about, as a *PartError
	// Trial takes everything back at the end, once it has been seen to work.
	// Sequences stay advanced. Once is not used up.
	Trial bool

	sighting *sighting // of a write in observe mode; nil: it is enforced
}

// Settings are the caller's own for one transaction. The zero value sets nothing.
type Settings struct {
	TimeZone string
}

// Result is a committed write.
type Result struct {
	Parts    []Rows  // of each mutation
	Checks   []Check // of each claim
	Replayed bool    // answered from an earlier attempt under the same idempotency key
	// Observed is what the write would have been refused for, had one of its
	// mutations been enforced.
	Observed []*Refused
}

// Rows is what statements touched.
type Rows struct {
	Affected int64
	JSON     string // objects separated by commas, "" if none were asked for
	Total    *int64 // rows that match without limit, nil unless asked for
	ETag     string // of the one row, "" unless asked for
}

// PartError is an error of one mutation of a Numbered write.
type PartError struct {
	Part int // its place, from 0
	Err  error
}

func (e *PartError) Error() string { return fmt.Sprintf("operation %d: %s", e.Part, e.Err) }

// Unwrap returns the error itself.
func (e *PartError) Unwrap() error { return e.Err }

// Write authorises, checks the leases, builds, and commits behind the fence. It
// is the only way into a protected table. Errors: auth.ErrDenied, *Refused
// (recorded), *statement.Fault, *DatabaseError, and the passing ones of this
// package. After any error but ErrOutcomeUnknown nothing was applied.
func (g *Gate) Write(ctx context.Context, w Write) (Result, error) {
	w.Claims = slices.Clone(w.Claims)
	slices.SortFunc(w.Claims, func(a, b lease.Claim) int { return cmp.Compare(a.Key, b.Key) })
	if w.Trial {
		w.Once = Once{}
	}
	if err := w.allow(); err != nil {
		return Result{}, err
	}
	if len(w.Claims) == 0 && (w.Unclaimed == nil || !w.observed()) {
		return Result{}, w.unclaimed()
	}
	earlier, end := g.attempts.begin(w)
	defer end()
	result, err := g.write(ctx, w)
	if refused := refusals(err); len(refused) > 0 && w.Once.Key != "" {
		err = cmp.Or(g.refuseKey(ctx, w, refused, earlier), err)
	}
	if errors.Is(err, errApplied) {
		return g.replay(ctx, w)
	}
	if err != nil {
		return Result{}, g.recorded(ctx, g.record(w, err), err)
	}
	return result, nil
}

// allow also narrows the tables to what the principal may do with them, for
// statement.Build to hold each column against.
func (w *Write) allow() error {
	w.Mutations = slices.Clone(w.Mutations)
	for i := range w.Mutations {
		if err := allow(w.Principal, &w.Mutations[i]); err != nil {
			return w.at(i, err)
		}
		w.Once.shows(w.Mutations[i])
	}
	for _, claim := range w.Claims {
		if err := auth.AllowKey(w.Principal, claim.Key); err != nil {
			return err
		}
	}
	if u := w.Unclaimed; u != nil && u.Claim.Key != "" {
		return auth.AllowKey(w.Principal, u.Claim.Key) // a record names it
	}
	return nil
}

func allow(p auth.Principal, m *statement.Mutation) (err error) {
	if m.Op == catalog.Call {
		return auth.AllowCall(p, m.Routine)
	}
	if m.Table, err = p.Narrow(m.Table); err != nil {
		return err
	}
	ops := m.Operations()
	if m.Return.Any() {
		ops = append(ops, catalog.Select)
	}
	for _, op := range ops {
		if err := auth.Allow(p, m.Table, op); err != nil {
			return err
		}
	}
	return nil
}

func (g *Gate) write(ctx context.Context, w Write) (Result, error) {
	checks, faults := g.checkAll(ctx, w.Claims)
	err := joined(faults)
	if w.observed() {
		w.sighting, err = w.sight(faults)
	}
	if err != nil {
		return Result{}, g.answered(ctx, w, err)
	}
	plan, err := w.plan()
	if err != nil {
		return Result{}, err
	}
	queueing, end := g.enter(ctx, Step{Kind: Queueing})
	giveBack, err := g.turns.take(queueing, w.passing())
	end(outcomeOf(err))
	if err != nil {
		return Result{}, err
	}
	defer giveBack()
	leave, err := g.shared(ctx, g.writers, w.Principal.Name)
	if err != nil {
		return Result{}, err
	}
	defer leave()
	parts, err := retried(g.sending(ctx, w), g, g.Writes, func(ctx context.Context, replan bool) ([]Rows, error) {
		return g.commit(ctx, w, plan, replan)
	})
	result := Result{Parts: parts, Checks: passed(checks)}
	if err == nil && w.sighting != nil {
		result.Observed = g.admitted(ctx, w)
	}
	return result, err
}

// piece is one statement and the mutation that it is part of.
type piece struct {
	part int
	statement.Statement
}

func (w Write) plan() ([]piece, error) {
	var plan []piece
	for i, m := range w.Mutations {
		if w.Once.Key != "" {
			m.Keep = statement.Keep{Principal: w.Principal.Name, Key: w.Once.Key, Operation: i}
		}
		if w.sighting != nil {
			m.Observe = &statement.Observe{Operation: i}
		}
		statements, err := statement.Build(m, w.Claims)
		if err != nil {
			return nil, w.at(i, err)
		}
		for _, s := range statements {
			plan = append(plan, piece{part: i, Statement: s})
		}
		if len(plan) > statement.MaxStatements {
			return nil, w.at(i, statement.ErrTooMany())
		}
	}
	return plan, nil
}

// at says which mutation err is about, if that is asked for.
func (w Write) at(part int, err error) error {
	if !w.Numbered {
		return err
	}
	return &PartError{Part: part, Err: err}
}

// record is what is known of a write that was refused. What one mutation is to
// blame for is recorded as that, everything else as the whole.
func (g *Gate) record(w Write, err error) audit.Record {
	r := audit.Record{Disposition: audit.Refused, Origin: w.Origin}
	if len(refusals(err)) == 0 {
		return r
	}
	r.Claim, r.Payload = w.Claims[0], g.payloadOf(w)
	r.Operation, r.Table = w.about()
	var part *PartError
	if errors.As(err, &part) {
		r.Operation, r.Table = w.aboutPart(part.Part)
	}
	return r
}

// payloadOf is w.payload for a record, which must be made all the same.
func (g *Gate) payloadOf(w Write) string {
	payload, err := w.payload()
	if err != nil {
		g.Log.Error("what a write was to write could not be recorded", "request_id", w.Origin.RequestID, "error", err)
	}
	return payload
}

// about is what the whole of w does, and to what.
func (w Write) about() (operation, table string) {
	if len(w.Mutations) == 1 {
		return w.aboutPart(0)
	}
	return "transaction", w.targets()
}

func (w Write) aboutPart(part int) (operation, table string) {
	return string(w.Mutations[part].Op), w.Mutations[part].Target()
}

// calls reports whether a routine is called.
func (w Write) calls() bool {
	return slices.ContainsFunc(w.Mutations, func(m statement.Mutation) bool { return m.Op == catalog.Call })
}

func (w Write) targets() string {
	var names []string
	for _, m := range w.Mutations {
		if name := m.Target(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}
