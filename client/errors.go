package client

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// What errors.Is tells of an error of this package. One error can be several of
// them.
var (
	// ErrLost: the lease can't be relied upon any more. Stop, and take the lock
	// anew if the work is still to be done.
	ErrLost = errors.New("the lease is lost")
	// ErrStale: the fence has refused the token; it is dead. Always ErrLost too.
	ErrStale = errors.New("the fence refused the token")
	// ErrReleased: the lease has been given back by this process.
	ErrReleased = errors.New("the lease has been released")
	// ErrHeld: somebody else has the lock. Wait.
	ErrHeld = errors.New("the lock is held by somebody else")
	// ErrUnavailable: no answer, one that can't be the gateway's, or one that says
	// to come again later or that the gateway has failed.
	ErrUnavailable = errors.New("the gateway is not available")
	// ErrOutcomeUnknown: the write may or may not have been applied; sent again
	// under Error.IdempotencyKey (see Once) it is applied once, and tells.
	ErrOutcomeUnknown = errors.New("whether it was applied is not known")
	// ErrConflict: the data is not as expected: a constraint, a guard, If-Match.
	// Look at the data and decide; the lease lives.
	ErrConflict = errors.New("the data does not allow it")
	// ErrRefused: the gateway will not do this however often it is asked; Code and
	// Detail say why. The lease lives.
	ErrRefused = errors.New("the gateway refused the request")
)

// What Error.Outcome says of a write.
const (
	OutcomeNotApplied = "not_applied"
	OutcomeApplied    = "applied"
	OutcomeUnknown    = "unknown"
)

// Error is an answer that is not a success of the gateway's, or the absence of
// any (Status 0).
type Error struct {
	Status         int    // HTTP status; 0: there was no answer
	Code           string // the SQLSTATE where PostgreSQL raised one, otherwise the gateway's code
	Detail         string
	Outcome        string // one of the Outcome constants; "": it was no write
	Refused        string // the header Fencing-Refused: the fence's code; "": not the fence
	RequestID      string
	Retryable      bool          // the same request may be sent again as it is
	RetryAfter     time.Duration // 0: not told
	AuditID        string        // the refusal's record
	LockKey        string
	PresentedToken string
	HighWaterToken string
	Operation      *int // of a transaction: which of its operations, from 0
	IdempotencyKey string

	cause   error
	refused []refusedLock
}

// refusedLock is one of several locks that a transaction was refused for.
type refusedLock struct {
	LockKey string `json:"lock_key"`
}

// Error tells status, code and detail, and the request id to look for in the
// gateway's log.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Status == 0 {
		fmt.Fprintf(&b, "no answer from the gateway: %v", e.cause)
	} else {
		fmt.Fprintf(&b, "gateway: %d %s: %s", e.Status, e.Code, e.Detail)
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, " (request %s)", e.RequestID)
	}
	return b.String()
}

// Unwrap returns what kept the answer away, or from being read.
func (e *Error) Unwrap() error { return e.cause }

// Is makes errors.Is tell the kinds of this package apart. The header
// Fencing-Refused, the status and the code decide, never a text.
func (e *Error) Is(kind error) bool {
	switch kind {
	case ErrStale, ErrLost:
		return e.Refused != ""
	case ErrHeld:
		return e.Status == http.StatusLocked
	case ErrUnavailable:
		return e.comeAgain() || e.Status >= 500
	case ErrOutcomeUnknown:
		return e.Outcome == OutcomeUnknown
	case ErrConflict:
		return e.Refused == "" && !e.Retryable && (e.Status == http.StatusConflict || e.Status == http.StatusPreconditionFailed)
	case ErrRefused:
		return e.Refused == "" && e.Status >= 300 && e.Status < 500 && e.Status != http.StatusLocked && !e.comeAgain() && !e.Is(ErrConflict)
	}
	return false
}

// comeAgain reports whether another try may meet another answer. Who else holds
// the lock is not of this kind.
func (e *Error) comeAgain() bool {
	switch e.Status {
	case http.StatusLocked:
		return false
	case 0, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return e.Retryable
}
