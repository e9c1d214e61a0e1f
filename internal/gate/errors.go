package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/lease"
)

// What the gate refuses for beyond the marks' own codes.
const (
	LeaseExpired fence.Code = "lease_expired" // the lock service has no live lease
	LeaseLost    fence.Code = "lease_lost"    // it has somebody else's
	LockScope    fence.Code = "lock_scope"    // a row is not covered by the lock key
)

// Refused is a write, renewal or release that was turned away for good, with
// the record that was made of it.
type Refused struct {
	Code     fence.Code
	Claim    lease.Claim
	Mark     lease.Token // 0: never granted, or not read
	Detail   string
	AuditID  int64 // 0: not recorded, and AuditErr says why
	AuditErr error
	Others   []*Refused // of a write under several lock keys; each has its own record
	cause    error
}

func (r *Refused) Error() string { return fmt.Sprintf("%s: %s", r.Code, r.Detail) }

// Unwrap gives what the refusal was made of, such as a *statement.Fault.
func (r *Refused) Unwrap() error { return r.cause }

// Held says that somebody else has the lock key.
type Held struct {
	Key    lease.Key
	Wait   time.Duration // until it may be free; 0: not known
	Reason string
}

func (h *Held) Error() string { return fmt.Sprintf("%q is taken: %s", h.Key, h.Reason) }

// What may pass if the same request is sent again later, or not at all.
var (
	// ErrDatabaseUnavailable: nothing was sent to the database.
	ErrDatabaseUnavailable = errors.New("database unavailable")
	// ErrOverloaded: no connection, or no lease time, was left in time.
	ErrOverloaded = errors.New("overloaded")
	// ErrOutcomeUnknown: the connection died while the transaction was on its
	// way; it may have been committed.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrUnconfirmed: the connection died while a grant or release was on its
	// way. It may have happened; asking again is safe.
	ErrUnconfirmed = errors.New("unconfirmed")
	// ErrUnclaimed: a write that must have a lock had none.
	ErrUnclaimed = errors.New("the write has no lock")
	// ErrTTL: the asked lease time is outside the configured terms.
	ErrTTL = errors.New("ttl out of range")
)

// DatabaseError is an error that PostgreSQL raised about the request's data;
// the transaction was rolled back.
type DatabaseError struct {
	SQLState   string
	Message    string
	Hint       string
	Constraint string
	Column     string
	Detail     string // may carry row values: for the log only
	Position   int32  // in the text of the statement; 0: it is not the statement that is wrong
	Routine    string // of PostgreSQL's source that raised it
}

func (e *DatabaseError) Error() string { return fmt.Sprintf("%s (SQLSTATE %s)", e.Message, e.SQLState) }

// stage says how far a batch had got when it failed.
type stage int

const (
	reaching   stage = iota // getting a connection
	executing               // statements are on their way, COMMIT not answered
	committing              // all statements answered, COMMIT not
)

// classify stops pgx errors at this room's wall and tells what is known about
// the transaction. While executing, an error that PostgreSQL sent means rolled
// back; a silent connection means unknown, since COMMIT had been sent along.
// While committing, a FATAL proves nothing either: a server that is told to
// stop can end a session right after its commit. Nor does ever what a pooler says
// in the server's stead, which is told by its lack of an unlocalized severity.
func classify(at stage, err error) error {
	if part := (*PartError)(nil); errors.As(err, &part) {
		return &PartError{Part: part.Part, Err: classify(at, part.Err)}
	}
	if refused := (*Refused)(nil); errors.As(err, &refused) {
		return err
	}
	if role := (*RoleError)(nil); errors.As(err, &role) {
		return err
	}
	if err == nil || errors.Is(err, ErrOverloaded) || errors.Is(err, fence.ErrRefused) || errors.Is(err, fence.ErrBusy) ||
		errors.Is(err, ErrKeyReused) || errors.Is(err, ErrKeyBusy) || errors.Is(err, errApplied) {
		return err
	}
	var pg *pgconn.PgError
	fromServer := errors.As(err, &pg)
	rolledBack := fromServer && pg.SeverityUnlocalized == "ERROR"
	fatal := fromServer && !rolledBack && pg.SeverityUnlocalized != ""
	switch {
	case at == reaching && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: no database connection became free in time: %w", ErrOverloaded, err)
	case at == reaching, pgconn.SafeToRetry(err), fatal && at == executing, errors.Is(err, fence.ErrStandby):
		return fmt.Errorf("%w: %w", ErrDatabaseUnavailable, err)
	case rolledBack:
		return &DatabaseError{
			SQLState: pg.Code, Message: pg.Message, Hint: pg.Hint, Detail: pg.Detail,
			Constraint: pg.ConstraintName, Column: pg.ColumnName, Position: pg.Position, Routine: pg.Routine,
		}
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}

// harmless turns an unknown outcome into one that may simply be asked for
// again: a grant that nobody received skips a number, a release may be repeated.
func harmless(err error) error {
	if errors.Is(err, ErrOutcomeUnknown) {
		return fmt.Errorf("%w: %v", ErrUnconfirmed, err)
	}
	return err
}
