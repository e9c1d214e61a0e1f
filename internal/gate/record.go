package gate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/statement"
)

// The private SQLSTATE of fencegate.check_rows for a row outside the lock key.
const stateOutOfScope = "FG002"

// recordTimeout bounds the wait for a refusal's record.
const recordTimeout = 8 * time.Second

// recorded turns err into a *Refused with its record if it is a refusal, and
// returns any other error as it is. A write under several lock keys can be
// refused for each of them. The records are committed before the caller can
// answer; if that fails the refusal stands all the same.
func (g *Gate) recorded(ctx context.Context, r audit.Record, err error) error {
	all := refusals(err)
	if len(all) == 0 {
		return err
	}
	// Its own time: a request that is refused late is recorded all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	var records sync.WaitGroup
	for _, refused := range all {
		if refused.Claim.Key == "" {
			refused.Claim = r.Claim
		}
		records.Go(func() { g.recordOne(ctx, r, refused) })
	}
	records.Wait()
	all[0].Others = all[1:]
	return all[0]
}

func (g *Gate) recordOne(ctx context.Context, r audit.Record, refused *Refused) {
	r.Claim, r.Code, r.Mark = refused.Claim, string(refused.Code), refused.Mark
	ctx, end := g.enter(ctx, Step{Kind: Recording, Operation: r.Operation, Target: r.Table, Code: r.Code})
	began := time.Now()
	refused.AuditID, refused.AuditErr = g.Audit.Record(ctx, r)
	g.Observer.recorded(r, began, refused.AuditErr)
	end(outcomeOf(refused.AuditErr))
	if refused.AuditErr != nil {
		g.Log.Error("a refusal could not be recorded", "code", r.Code, "lock_key", r.Claim.Key.Wire(),
			"token", r.Claim.Token.String(), "operation", r.Operation, "table", r.Table,
			"request_id", r.Origin.RequestID, "error", refused.AuditErr)
	}
}

// refusals finds every refusal that is joined in err.
func refusals(err error) (all []*Refused) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			all = append(all, refusals(one)...)
		}
		return all
	}
	if refused := asRefused(err); refused != nil {
		all = append(all, refused)
	}
	return all
}

// asRefused returns nil for errors that are not the fence's, the lease's or the
// scope's doing.
func asRefused(err error) *Refused {
	var refused *Refused
	var mark *fence.Refusal
	var fault *statement.Fault
	var db *DatabaseError
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &mark):
		return &Refused{Code: mark.Code, Claim: mark.Claim, Mark: mark.Mark, Detail: describe(mark), cause: err}
	case errors.As(err, &fault) && fault.Code == statement.ScopeNotPinned:
		return &Refused{Code: LockScope, Detail: fault.Detail, cause: err}
	case errors.As(err, &db) && db.SQLState == stateOutOfScope:
		return &Refused{Code: LockScope, Detail: "a row that the request names, or would make, is not covered by the lock key", cause: err}
	}
	return nil
}

func describe(r *fence.Refusal) string {
	if r.Mark == 0 && r.Code != fence.TokenNotGranted {
		return "the request was refused before, under the same idempotency key"
	}
	switch r.Code {
	case fence.StaleToken:
		return fmt.Sprintf("token %s is older than %s, the newest granted for this lock key", r.Claim.Token, r.Mark)
	case fence.HolderMismatch:
		return "the token was granted to another holder"
	case fence.TokenNotGranted:
		return fmt.Sprintf("token %s was never granted for this lock key", r.Claim.Token)
	case fence.LeaseReleased:
		return "the holder has released this lock"
	case fence.LeaseRevoked:
		return "an operator has revoked this lock"
	case fence.EpochChanged:
		return "the token was granted before the database failed over or was restored"
	}
	return string(r.Code)
}
