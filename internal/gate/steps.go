package gate

import (
	"context"

	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/statement"
)

// Step is a part of a request's way, as it begins. Nothing in it is made of keys,
// holders, tokens or values.
type Step struct {
	Kind      StepKind
	Operation string // of Sending and Recording; "transaction" of several
	Target    string // of these: the table or routine, or a list of them
	Code      string // of Recording: what the write was refused for
}

// StepKind is a kind of step.
type StepKind string

// The kinds of steps.
const (
	Checking  StepKind = "check leases"   // ask the lock service, and the mark if need be
	Queueing  StepKind = "wait for turn"  // behind other writes under the lock key
	Sharing   StepKind = "wait for share" // of a connection, which principals have in turn
	Waiting   StepKind = "wait for lock"  // until the first in line may try again
	Sending   StepKind = "send"           // goes on until the request ends: says what its transactions are for
	Recording StepKind = "record refusal" // until it is on record
)

// What becomes of a step, beside the verdicts of Checking.
const (
	Done       = "done"
	TurnedAway = "refused" // and nothing failed
	Failed     = "failed"
)

func (g *Gate) enter(ctx context.Context, s Step) (context.Context, func(outcome string)) {
	if g.Enter == nil {
		return ctx, untold
	}
	return g.Enter(ctx, s)
}

func untold(string) {}

// sending says what the transactions under the returned context are for.
func (g *Gate) sending(ctx context.Context, w Write) context.Context {
	if g.Enter == nil {
		return ctx
	}
	s := Step{Kind: Sending, Operation: "transaction", Target: w.targets()}
	if len(w.Mutations) == 1 {
		s.Operation = string(w.Mutations[0].Op)
	}
	ctx, _ = g.Enter(ctx, s)
	return ctx
}

// asking is sending for a read.
func (g *Gate) asking(ctx context.Context, q statement.Query) context.Context {
	if g.Enter == nil {
		return ctx
	}
	s := Step{Kind: Sending, Operation: "select"}
	if q.Routine != nil {
		s.Operation, s.Target = "call", q.Routine.QualifiedName()
	} else {
		s.Target = q.Table.QualifiedName()
	}
	ctx, _ = g.Enter(ctx, s)
	return ctx
}

// shared waits for a place among the principals who share a pool.
func (g *Gate) shared(ctx context.Context, among *fair, principal string) (leave func(), err error) {
	ctx, end := g.enter(ctx, Step{Kind: Sharing})
	leave, err = among.take(ctx, principal)
	end(outcomeOf(err))
	return leave, err
}

// looking reads records on a place that is p's.
func (g *Gate) looking(ctx context.Context, p auth.Principal, look func() error) error {
	leave, err := g.shared(ctx, g.readers, p.Name)
	if err != nil {
		return err
	}
	defer leave()
	return classify(reaching, look())
}

// moving moves a mark, which may wait for a write in flight, on a place that is the
// principal's: whoever moves many that wait waits behind itself.
func (g *Gate) moving(ctx context.Context, principal string, move func() error) error {
	leave, err := g.shared(ctx, g.movers, principal)
	if err != nil {
		return err
	}
	defer leave()
	return move()
}

func outcomeOf(err error) string {
	switch {
	case err == nil:
		return Done
	case len(refusals(err)) > 0:
		return TurnedAway
	}
	return Failed
}

// checkedAs is the least that was found of all claims.
func checkedAs(checks []Check, err error) string {
	if err != nil {
		return outcomeOf(err)
	}
	least := Live
	for _, c := range checks {
		if c.Verdict != Live {
			least = c.Verdict
		}
	}
	return string(least)
}
