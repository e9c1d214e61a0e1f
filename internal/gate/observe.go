package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient"
	"github.com/fencegate/fencegate/internal/statement"
)

// What only writes in observe mode are recorded for: under enforcement these are
// answered before the fence, or by 503, and have no record.
const (
	FencingRequired        fence.Code = "fencing_required"
	FencingMalformed       fence.Code = "fencing_malformed"
	LockServiceUnavailable fence.Code = "lock_service_unavailable"
)

// Unclaimed is a write without a lock.
type Unclaimed struct {
	Code  fence.Code  // FencingRequired or FencingMalformed
	Claim lease.Claim // what there was of it
	Fault error       // what it is answered with where it is not let through; nil: ErrUnclaimed
}

// sighting is what a write in observe mode would have been refused for: one attempt
// to apply it begins with what is known before, and finds the rest.
type sighting struct {
	claims []lease.Claim // the write's, or what there was of one
	codes  []fence.Code  // of each, by its lease or its form; "": the mark decides
	marks  []lease.Token
	found  []finding
}

// finding is one of the answer of fencegate.record_admitted.
type finding struct {
	Claim     int         `json:"claim"`
	Code      fence.Code  `json:"code"`
	Mark      lease.Token `json:"mark,string"`
	Operation *int        `json:"operation"` // nil: the whole write
	ID        int64       `json:"id,string"` // 0: it is not recorded
	Error     string      `json:"error"`
}

// observed reports whether all that w touches is in observe mode: one enforced table
// enforces all of it. For a principal who may not hold every key of a lock there is no
// such mode, since its keys bound what it may write.
func (w Write) observed() bool {
	return len(w.Mutations) > 0 && !slices.ContainsFunc(w.Mutations, func(m statement.Mutation) bool {
		return !m.Observed() || !auth.MayHoldAll(w.Principal, m.Lock())
	})
}

// unclaimed is why w, which has no claims, is not let through.
func (w Write) unclaimed() error {
	if w.Unclaimed == nil || w.Unclaimed.Fault == nil {
		return ErrUnclaimed
	}
	return w.Unclaimed.Fault
}

// sight turns the faults of the lease checks into a sighting, but for those that say
// nothing about the lock.
func (w Write) sight(faults []error) (*sighting, error) {
	if w.Unclaimed != nil {
		return &sighting{claims: []lease.Claim{w.Unclaimed.Claim}, codes: []fence.Code{w.Unclaimed.Code}, marks: []lease.Token{0}}, nil
	}
	s := &sighting{claims: w.Claims, codes: make([]fence.Code, len(w.Claims)), marks: make([]lease.Token, len(w.Claims))}
	for i, err := range faults {
		refused := asRefused(err)
		switch {
		case refused != nil:
			s.codes[i], s.marks[i] = refused.Code, refused.Mark
		case errors.Is(err, lockclient.ErrUnavailable):
			s.codes[i] = LockServiceUnavailable
		case err != nil:
			return nil, err
		}
	}
	return s, nil
}

// passing are the claims that the fence is asked about. Those that have failed
// already wait for no mark, and keep nobody waiting for theirs.
func (w Write) passing() []lease.Claim {
	if w.sighting == nil {
		return w.Claims
	}
	var claims []lease.Claim
	for i, claim := range w.Claims {
		if w.sighting.codes[i] == "" {
			claims = append(claims, claim)
		}
	}
	return claims
}

func (w Write) admit(batch *pgx.Batch) {
	if w.sighting != nil {
		fence.AdmitObserved(batch, w.passing())
		return
	}
	fence.Admit(batch, w.Claims)
}

// passed are the checks that found a lease.
func passed(checks []Check) []Check {
	return slices.DeleteFunc(checks, func(c Check) bool { return c.Verdict == "" })
}

// deed is what an operation does, and to what.
type deed struct {
	Operation string `json:"operation"`
	Table     string `json:"table"`
}

// about is what records say of w.
type about struct {
	deed
	Operations     []deed `json:"operations"`
	Principal      string `json:"principal"`
	RequestID      string `json:"request_id"`
	RemoteAddress  string `json:"remote_address"`
	PayloadSHA256  string `json:"payload_sha256"`
	IdempotencyKey string `json:"idempotency_key"`
	Instance       string `json:"instance"`
}

// recordAdmitted queues the record of what w would have been refused for.
func (g *Gate) recordAdmitted(batch *pgx.Batch, w Write) {
	if w.sighting == nil {
		return
	}
	s, from := w.sighting, w.Origin
	a := about{Principal: from.Principal, RequestID: from.RequestID, RemoteAddress: from.RemoteAddress,
		PayloadSHA256: from.PayloadSHA256, IdempotencyKey: from.IdempotencyKey, Instance: g.Audit.Instance()}
	a.Operation, a.Table = w.about()
	for i := range w.Mutations {
		operation, table := w.aboutPart(i)
		a.Operations = append(a.Operations, deed{operation, table})
	}
	keys, holders, codes := make([]string, len(s.claims)), make([]string, len(s.claims)), make([]string, len(s.claims))
	tokens, marks := make([]int64, len(s.claims)), make([]int64, len(s.claims))
	for i, claim := range s.claims {
		keys[i], tokens[i], codes[i], marks[i] = string(claim.Key), int64(claim.Token), string(s.codes[i]), int64(s.marks[i])
		if claim.Holder != "" {
			holders[i] = claim.Holder.Wire()
		}
	}
	resign(batch, w.Principal)
	batch.Queue(`SELECT fencegate.record_admitted($1, $2, $3, $4, $5, $6::jsonb, $7)::text`,
		keys, holders, tokens, codes, marks, asJSON(a), g.payloadOf(w))
	become(batch, w.Principal)
}

// read reads the answer to recordAdmitted.
func (s *sighting) read(results pgx.BatchResults, p auth.Principal) error {
	if s == nil {
		return nil
	}
	if err := resigned(results, p); err != nil {
		return err
	}
	var text *string
	s.found = nil
	if err := results.QueryRow().Scan(&text); err != nil {
		return err
	}
	if err := became(results, p); err != nil || text == nil {
		return err
	}
	if err := json.Unmarshal([]byte(*text), &s.found); err != nil {
		return fmt.Errorf("reading what was admitted, %q: %w", *text, err)
	}
	return nil
}

// admitted tells what w would have been refused for, once it is committed. What
// could not be recorded in its own transaction is recorded after it; if that fails
// as well, the write is there all the same.
func (g *Gate) admitted(ctx context.Context, w Write) []*Refused {
	all := make([]*Refused, len(w.sighting.found))
	for i, f := range w.sighting.found {
		all[i] = &Refused{Code: f.Code, Claim: w.sighting.claims[f.Claim], Mark: f.Mark}
		if w.Trial {
			continue // its record was taken back with it
		}
		r := audit.Record{ID: f.ID, Disposition: audit.Admitted, Code: string(f.Code), Claim: all[i].Claim, Mark: f.Mark, Origin: w.Origin}
		r.Operation, r.Table = w.about()
		if f.Operation != nil {
			r.Operation, r.Table = w.aboutPart(*f.Operation)
		}
		if f.ID == 0 {
			g.Log.Warn("an admitted write could not be recorded in its own transaction", "request_id", w.Origin.RequestID, "error", f.Error)
			g.recordLate(ctx, w, &r)
		}
		all[i].AuditID = r.ID
		g.Observer.admitted(r)
	}
	return all
}

func (g *Gate) recordLate(ctx context.Context, w Write, r *audit.Record) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	r.Payload = g.payloadOf(w)
	var err error
	if r.ID, err = g.Audit.Record(ctx, *r); err != nil {
		g.Log.Error("an admitted write could not be recorded", "code", r.Code, "lock_key", r.Claim.Key.Wire(),
			"token", r.Claim.Token.String(), "operation", r.Operation, "table", r.Table,
			"request_id", r.Origin.RequestID, "error", err)
	}
}
