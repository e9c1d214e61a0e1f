package proxy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/fencegate/fencegate/internal/api"
	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/lease"
)

// Bounds of one transaction.
const (
	maxLocks      = 32
	maxOperations = 100
)

// RunTransaction answers POST /v1/transactions.
func (s *Server) RunTransaction(w http.ResponseWriter, r *http.Request, _ api.RunTransactionParams) {
	var write gate.Write
	var result gate.Result
	prefer, err := parsePrefer(r.Header)
	if err := cmp.Or(err, prefer.forTransaction()); err != nil {
		s.fail(w, r, err)
		return
	}
	err = s.following(r, func(tables *catalog.Snapshot) (err error) {
		if write, err = s.decodeTransaction(r, tables, prefer); err != nil {
			return err
		}
		visitOf(r).aims(write.Mutations...)
		result, err = s.Gate.Write(r.Context(), write)
		return err
	})
	if err != nil {
		s.fail(w, r, explainPart(write, err))
		return
	}
	visitOf(r).Replayed = result.Replayed
	prefer.writeApplied(w.Header())
	writeClaims(w.Header(), write, result)
	respondTransaction(w, write, result)
}

func (s *Server) decodeTransaction(r *http.Request, tables *catalog.Snapshot, prefer preferences) (write gate.Write, err error) {
	if _, err := parseAccept(r.Header); err != nil {
		return write, err
	}
	once, err := idempotencyKey(r.Header)
	if err := errors.Join(err, checkQuery(r), noLockHeaders(r.Header), noIfMatch(r.Header)); err != nil {
		return write, err
	}
	var body api.TransactionRequest
	raw, err := readBody(r)
	if err != nil {
		return write, err
	}
	if err := unmarshalObject(raw, &body); err != nil {
		return write, err
	}
	o := operations{server: s, tables: tables, schema: r.Header.Get("Content-Profile"), rows: s.Limits.Rows}
	if write.Claims, err = claimsOf(valueOf(body.Locks)); err != nil {
		if write.Unclaimed = unclaimed(err, lease.Claim{}); write.Unclaimed == nil || !o.observed(body.Operations) {
			return write, err
		}
		write.Claims = nil
	}
	if write.Mutations, err = o.decode(body.Operations); err != nil {
		return write, err
	}
	write.Principal, write.Numbered = principal(r), true
	write.Trial = prefer.trial || body.DryRun != nil && *body.DryRun
	write.Settings = prefer.settings()
	once.Fingerprint = fingerprint(r, operationsDigest(body.Operations))
	write.Once, write.Origin = once, origin(r)
	write.Origin.PayloadSHA256, write.Origin.IdempotencyKey = digestOf(raw), once.Key
	return write, nil
}

// operationsDigest leaves the locks out: a retry may come under newer grants.
func operationsDigest(operations []api.Operation) string {
	text, err := json.Marshal(operations)
	if err != nil {
		panic(err) // it has just been decoded
	}
	return digestOf(text)
}

func claimsOf(locks []api.Claim) ([]lease.Claim, error) {
	if len(locks) == 0 {
		return nil, &fault{status: http.StatusPreconditionRequired, slug: "fencing_required", pointer: "/locks",
			detail: "locks is empty; acquire a lease at /v1/leases and give its key, holder and token"}
	}
	if len(locks) > maxLocks {
		return nil, &fault{status: http.StatusBadRequest, slug: "too_many_locks", pointer: "/locks",
			detail: fmt.Sprintf("%d locks; at most %d are allowed in one transaction", len(locks), maxLocks)}
	}
	claims := make([]lease.Claim, len(locks))
	for i, lock := range locks {
		at := fmt.Sprintf("/locks/%d", i)
		var err error
		if claims[i], err = claimOf(at, lock); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(claims[:i], func(c lease.Claim) bool { return c.Key == claims[i].Key }) {
			return nil, malformedMember(at+"/key", errors.New("the lock key is given twice"))
		}
	}
	return claims, nil
}

// noLockHeaders keeps a caller from believing that the headers count as well.
func noLockHeaders(h http.Header) error {
	for _, name := range []string{"Lock-Key", "Lock-Holder", "Fencing-Token"} {
		if len(h.Values(name)) > 0 {
			return &fault{status: http.StatusBadRequest, slug: "unsupported_header", parameter: name,
				detail: "a transaction takes its locks in the body, under locks"}
		}
	}
	return nil
}

// explainPart says what a row count means to an operation with if_match.
func explainPart(write gate.Write, err error) error {
	var part *gate.PartError
	var db *gate.DatabaseError
	if refused := (*gate.Refused)(nil); errors.As(err, &refused) || !errors.As(err, &part) || !errors.As(part.Err, &db) {
		return err
	}
	m := write.Mutations[part.Part]
	switch {
	case db.SQLState == stateTooFew && m.IfMatch != nil:
		return &gate.PartError{Part: part.Part, Err: errPrecondition}
	case db.SQLState == stateOverflow && db.Column == "" && m.Increment != nil && len(m.Increment.Names) == 1:
		db.Column = m.Increment.Names[0] // PostgreSQL does not name it
	}
	hintAtInsert(db, m)
	return &gate.PartError{Part: part.Part, Err: searchFault(part.Err, m.Filters)}
}

// stateOverflow is numeric_value_out_of_range.
const stateOverflow = "22003"

// respondTransaction puts the rows into the answer as PostgreSQL made them: what
// it keeps as json can be more than a JSON encoder lets pass, and the write is
// done.
func respondTransaction(w http.ResponseWriter, write gate.Write, result gate.Result) {
	pieces := []string{fmt.Sprintf(`{"dry_run":%t,"operations":[`, write.Trial)}
	for i, part := range result.Parts {
		if i > 0 {
			pieces = append(pieces, ",")
		}
		pieces = append(pieces, fmt.Sprintf(`{"affected":%d`, part.Affected))
		if write.Mutations[i].Return.Any() {
			pieces = append(pieces, `,"rows":[`, part.JSON, "]")
		}
		pieces = append(pieces, "}")
	}
	pieces = append(pieces, "]")
	if !result.Replayed {
		pieces = append(pieces, `,"locks":`, locksOf(result.Checks))
	}
	respondText(w, http.StatusOK, "application/json", append(pieces, "}")...)
}

func locksOf(checks []gate.Check) string {
	locks := make([]api.CheckedLock, len(checks))
	for i, check := range checks {
		locks[i] = api.CheckedLock{Key: check.Key.Wire(), LeaseChecked: api.CheckedLockLeaseChecked(check.Verdict)}
		if check.Verdict == gate.Live {
			locks[i].LeaseRemainingMs = new(check.Remaining.Milliseconds())
		}
	}
	text, err := json.Marshal(locks)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return string(text)
}
