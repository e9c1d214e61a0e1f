package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fencegate/fencegate/internal/api"
	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/lockclient"
	"github.com/fencegate/fencegate/internal/statement"
)

// refusedHeader tells the worker that its token is dead: stop, acquire again,
// never resend. A 412 without it is another precondition.
const refusedHeader = "Fencing-Refused"

// fault is an error on its way out. It also is what this package itself finds
// wrong with a request. Only status, slug and detail are always set.
type fault struct {
	status     int
	slug       string
	code       string // what clients switch on; slug if ""
	detail     string
	hint       string
	pointer    string
	parameter  string
	column     string
	constraint string
	sqlState   string
	lockKey    string
	operation  *int               // of a transaction
	outcome    api.ProblemOutcome // not_applied if ""
	headers    map[string]string
	retryAfter time.Duration // > 0: the same request may be sent again
	refused    *gate.Refused
}

func (f *fault) Error() string { return f.slug + ": " + f.detail }

var (
	errInternal     = &fault{status: http.StatusInternalServerError, slug: "internal", detail: "the gateway met an error it does not know; its log has it under this request id", outcome: api.Unknown}
	errPrecondition = &fault{status: http.StatusPreconditionFailed, slug: "precondition_failed", parameter: "If-Match",
		detail: "there is no such row with this ETag any more: read it again and decide"}
	errTooManyWaiting  = &fault{status: http.StatusServiceUnavailable, slug: "overloaded", detail: "too many acquires wait for a lock", retryAfter: 5 * time.Second}
	errTooManyInFlight = &fault{status: http.StatusServiceUnavailable, slug: "overloaded", detail: "too many requests are in flight", retryAfter: time.Second}
)

// faultOf is the one table from error to status and code.
func faultOf(err error) *fault {
	var own *fault
	var refused *gate.Refused
	var held *gate.Held
	var wrong *statement.Fault
	var db *gate.DatabaseError
	var part *gate.PartError
	var key *auth.KeyDenied
	var role *gate.RoleError
	switch {
	case errors.As(err, &part) && !errors.As(err, &refused):
		f := *faultOf(part.Err)
		f.operation, f.parameter, f.pointer = &part.Part, "", fmt.Sprintf("/operations/%d%s", part.Part, f.pointer)
		return &f
	case errors.As(err, &own):
		return own
	case errors.As(err, &refused):
		return refusedFault(refused)
	case errors.As(err, &held):
		return &fault{status: http.StatusLocked, slug: "lock_held", lockKey: held.Key.Wire(), detail: held.Reason, retryAfter: max(held.Wait, time.Second)}
	case errors.As(err, &wrong):
		return statementFault(wrong)
	case errors.As(err, &db):
		return databaseFault(db)
	case errors.As(err, &role):
		return rolledBack()
	case errors.Is(err, catalog.ErrUnknownTable):
		return &fault{status: http.StatusNotFound, slug: "unknown_table", code: "PGRST205", detail: "there is no such table"}
	case errors.Is(err, catalog.ErrUnknownRoutine):
		return &fault{status: http.StatusNotFound, slug: "unknown_routine", code: "PGRST202", detail: "there is no such registered statement or exposed function"}
	case errors.Is(err, audit.ErrNotFound):
		return &fault{status: http.StatusNotFound, slug: "not_found", detail: "there is no such record"}
	case errors.Is(err, fence.ErrNeverGranted):
		return &fault{status: http.StatusNotFound, slug: "not_found", pointer: "/key", detail: "the lock key was never granted: there is nobody to cut off"}
	case errors.As(err, &key):
		return &fault{status: http.StatusForbidden, slug: "lock_not_allowed", lockKey: key.Key.Wire(), detail: "you may not hold, nor look at, this lock key"}
	case errors.Is(err, auth.ErrDenied):
		return &fault{status: http.StatusForbidden, slug: "forbidden", code: "42501", detail: err.Error()}
	case errors.Is(err, gate.ErrTTL):
		return &fault{status: http.StatusUnprocessableEntity, slug: "ttl_out_of_range", pointer: "/ttl_ms", detail: err.Error()}
	case errors.Is(err, gate.ErrKeyReused):
		return &fault{status: http.StatusUnprocessableEntity, slug: "idempotency_key_reused", parameter: "Idempotency-Key", detail: err.Error()}
	case errors.Is(err, gate.ErrKeyBusy):
		return &fault{status: http.StatusConflict, slug: "idempotency_in_progress", parameter: "Idempotency-Key", detail: err.Error(), retryAfter: time.Second}
	case errors.Is(err, fence.ErrBusy):
		return unavailable("row_locked", "another write under this lock key is still in flight", time.Second)
	case errors.Is(err, lockclient.ErrUnavailable):
		return unavailable("lock_service_unavailable", "the lock service can't be reached; nothing was written", time.Second)
	case errors.Is(err, gate.ErrOutcomeUnknown):
		return &fault{status: http.StatusGatewayTimeout, slug: "outcome_unknown", outcome: api.Unknown,
			detail: "the connection to the database was lost before it confirmed; the request may or may not have been applied; sent again with the same Idempotency-Key, it tells"}
	case errors.Is(err, gate.ErrUnconfirmed):
		f := unavailable("database_unavailable", "the database did not confirm; no row was written, and asking again is safe", time.Second)
		f.outcome = api.Unknown
		return f
	case errors.Is(err, gate.ErrDatabaseUnavailable):
		return unavailable("database_unavailable", "the database can't be reached; nothing was written", time.Second)
	case errors.Is(err, gate.ErrOverloaded), errors.Is(err, context.DeadlineExceeded):
		return unavailable("overloaded", "the request did not get its turn in time; nothing was written", time.Second)
	}
	return errInternal
}

// notSingular: one object was asked for.
func notSingular(found string) error {
	return &fault{status: http.StatusNotAcceptable, slug: "not_singular", code: "PGRST116", parameter: "Accept",
		detail: "one object was asked for, and there is not exactly one row: " + found}
}

func unavailable(slug, detail string, retryAfter time.Duration) *fault {
	return &fault{status: http.StatusServiceUnavailable, slug: slug, detail: detail, retryAfter: retryAfter}
}

func refusedFault(r *gate.Refused) *fault {
	f := &fault{status: http.StatusPreconditionFailed, slug: string(r.Code), detail: r.Detail, refused: r}
	if r.Code == gate.LockScope {
		f.status = http.StatusForbidden
		var wrong *statement.Fault
		if errors.As(r, &wrong) {
			f.column, f.parameter = wrong.Column, wrong.Parameter
		}
		var part *gate.PartError
		if errors.As(r, &part) {
			f.operation, f.parameter, f.pointer = &part.Part, "", fmt.Sprintf("/operations/%d", part.Part)
		}
	}
	return f
}

func statementFault(wrong *statement.Fault) *fault {
	f := &fault{status: http.StatusBadRequest, slug: string(wrong.Code), detail: wrong.Detail,
		column: wrong.Column, parameter: wrong.Parameter, pointer: wrong.Pointer}
	switch wrong.Code {
	case statement.NotJSON, statement.NoConflictKey, statement.NotInColumns, statement.MixedRows, statement.FenceColumn, statement.NotALiteral, statement.TooLarge:
		f.status = http.StatusUnprocessableEntity
	case statement.NotAllowed:
		f.status, f.code = http.StatusForbidden, "42501"
	case statement.UnknownParam, statement.MissingParam:
		f.status, f.code = http.StatusNotFound, "PGRST202" // as PostgREST, to which it is another function
	case statement.UnknownColumn:
		f.status, f.code = http.StatusUnprocessableEntity, "PGRST204"
		if wrong.Parameter != "" {
			f.code = "42703"
		}
	}
	return f
}

// fail answers with err as problem+json and logs what only the operator may see.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	f := faultOf(err)
	visitOf(r).Code = f.slug
	if f.status >= http.StatusInternalServerError && errors.Is(r.Context().Err(), context.Canceled) {
		s.Log.InfoContext(r.Context(), "request given up by its caller", "code", f.slug, "request_id", requestID(r), "error", err)
	} else if f.status >= http.StatusInternalServerError {
		s.Log.ErrorContext(r.Context(), "request failed", "code", f.slug, "request_id", requestID(r), "error", err)
	} else if db := (*gate.DatabaseError)(nil); errors.As(err, &db) {
		s.Log.InfoContext(r.Context(), "the database refused", "sqlstate", db.SQLState, "message", shorten(db.Message), "detail", shorten(db.Detail), "request_id", requestID(r))
	}
	h := w.Header()
	for name, value := range f.headers {
		h.Set(name, value)
	}
	if f.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(f.retryAfter.Seconds()))))
	}
	if f.status == http.StatusPreconditionFailed && f.refused != nil {
		h.Set(refusedHeader, f.slug) // not for lock_scope: that token lives
	}
	// The request's own bytes may be quoted in it, and need not be UTF-8.
	body, err := json.Marshal(f.problem(requestID(r)), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(f.status)
	w.Write(body)
}

// postgrestCodes are what applications that were written against PostgREST look
// for.
var postgrestCodes = map[string]string{
	"malformed_query":       "PGRST100",
	"malformed_json":        "PGRST102",
	"invalid_preference":    "PGRST122",
	"max_affected_exceeded": "PGRST124",
}

func (f *fault) problem(requestID string) api.Problem {
	detail := cut(f.detail, maxDetail)
	p := api.Problem{
		Type:       "urn:fencegate:problem:" + f.slug,
		Title:      title(f.slug),
		Status:     f.status,
		Detail:     detail,
		Code:       cmp.Or(f.code, postgrestCodes[f.slug], f.slug),
		Retryable:  f.retryAfter > 0,
		Outcome:    cmp.Or(f.outcome, api.NotApplied),
		RequestId:  requestID,
		Message:    detail,
		Hint:       optional(f.hint),
		Pointer:    optional(shorten(f.pointer)),
		Parameter:  optional(shorten(f.parameter)),
		Column:     optional(shorten(f.column)),
		Constraint: optional(f.constraint),
		Sqlstate:   optional(f.sqlState),
		LockKey:    optional(f.lockKey),
		Operation:  f.operation,
	}
	if f.refused != nil {
		describeRefusal(&p, f.refused)
	}
	return p
}

// describeRefusal tells the caller's own claim and the mark it ran into. The
// mark's number helps nobody to write: that takes its holder as well.
func describeRefusal(p *api.Problem, r *gate.Refused) {
	p.LockKey = new(r.Claim.Key.Wire())
	p.PresentedToken = new(r.Claim.Token.String())
	if r.Mark != 0 {
		p.HighWaterToken = new(r.Mark.String())
	}
	if r.AuditID != 0 {
		p.AuditId = new(strconv.FormatInt(r.AuditID, 10))
	}
	if r.AuditErr != nil {
		p.AuditFailed = new(true)
	}
	if len(r.Others) > 0 {
		p.Refusals = &[]api.RefusedLock{refusedLock(r)}
		for _, other := range r.Others {
			*p.Refusals = append(*p.Refusals, refusedLock(other))
		}
	}
}

func refusedLock(r *gate.Refused) api.RefusedLock {
	var p api.Problem
	describeRefusal(&p, &gate.Refused{Claim: r.Claim, Mark: r.Mark, AuditID: r.AuditID, AuditErr: r.AuditErr})
	return api.RefusedLock{
		Code: string(r.Code), LockKey: *p.LockKey, PresentedToken: *p.PresentedToken,
		HighWaterToken: p.HighWaterToken, AuditId: p.AuditId, AuditFailed: p.AuditFailed,
	}
}

func title(slug string) string {
	words := strings.ReplaceAll(slug, "_", " ")
	return strings.ToUpper(words[:1]) + words[1:]
}

// failBinding answers for the generated router, which found a parameter wrong.
func (s *Server) failBinding(w http.ResponseWriter, r *http.Request, err error) {
	var many *api.TooManyValuesForParamError
	var format *api.InvalidParamFormatError
	var required *api.RequiredParamError
	switch {
	case errors.As(err, &many) && isClaimHeader(many.ParamName):
		err = malformedFencing(many.ParamName, errors.New("it is given more than once"))
	case errors.As(err, &many):
		err = badParameter(many.ParamName, "%s is given more than once", many.ParamName)
	case errors.As(err, &format):
		err = badParameter(format.ParamName, "%s can't be read", format.ParamName)
	case errors.As(err, &required):
		err = badParameter(required.ParamName, "%s is missing", required.ParamName)
	default:
		err = badParameter("", "a parameter can't be read")
	}
	s.fail(w, r, err)
}

func isClaimHeader(name string) bool {
	return name == "Lock-Key" || name == "Lock-Holder" || name == "Fencing-Token"
}
