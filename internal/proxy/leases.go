package proxy

import (
	"cmp"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fencegate/fencegate/internal/api"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/lease"
)

// maxClient bounds the name that a worker gives itself, in characters.
const maxClient = 200

// AcquireLease answers POST /v1/leases.
func (s *Server) AcquireLease(w http.ResponseWriter, r *http.Request) {
	key, ttl, grantee, err := decodeAcquire(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	granted, err := s.Gate.Acquire(r.Context(), key, ttl, grantee)
	s.respondLease(w, r, http.StatusCreated, granted, err)
}

func decodeAcquire(r *http.Request) (key lease.Key, ttl time.Duration, grantee fence.Grantee, err error) {
	var body api.AcquireRequest
	if key, err = decodeKeyed(r, &body, &body.Key); err != nil {
		return key, ttl, grantee, err
	}
	if err := cmp.Or(checkClient(body.Client), refuseIdempotencyKey(r.Header)); err != nil {
		return key, ttl, grantee, err
	}
	ttl, err = parseTTL(body.TtlMs)
	return key, ttl, fence.Grantee{Client: valueOf(body.Client), Principal: principal(r).Name}, err
}

// RenewLease answers POST /v1/leases/renew.
func (s *Server) RenewLease(w http.ResponseWriter, r *http.Request) {
	var body api.RenewRequest
	claim, err := decodeClaim(r, &body, &body.Key, &body.Holder, &body.Token)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	ttl, err := parseTTL(body.TtlMs)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	renewed, err := s.Gate.Renew(r.Context(), claim, ttl, origin(r))
	s.respondLease(w, r, http.StatusOK, renewed, err)
}

// ReleaseLease answers POST /v1/leases/release.
func (s *Server) ReleaseLease(w http.ResponseWriter, r *http.Request) {
	var body api.ReleaseRequest
	claim, err := decodeClaim(r, &body, &body.Key, &body.Holder, &body.Token)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	released, err := s.Gate.Release(r.Context(), claim, origin(r))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	respondJSON(w, http.StatusOK, api.Release{Released: released.Done, Reason: optional(released.Reason)})
}

// ReadLease answers GET /v1/leases?key=.
func (s *Server) ReadLease(w http.ResponseWriter, r *http.Request, params api.ReadLeaseParams) {
	if err := checkQuery(r, "key"); err != nil {
		s.fail(w, r, err)
		return
	}
	key, err := lease.ParseKey(params.Key)
	if err != nil {
		s.fail(w, r, malformedFencing("key", err))
		return
	}
	state, err := s.Gate.Look(r.Context(), key)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	answer := api.LeaseState{Key: key.Wire(), Live: state.Live}
	if state.Live {
		answer.RemainingMs = new(state.Left.Milliseconds())
	}
	if state.Mark.Token != 0 {
		answer.Mark = new(apiMark(state.Mark))
		answer.MarkHoldsLease = &state.OfMark
	}
	respondJSON(w, http.StatusOK, answer)
}

func (s *Server) respondLease(w http.ResponseWriter, r *http.Request, status int, l gate.Lease, err error) {
	if err != nil {
		s.fail(w, r, err)
		return
	}
	headers := map[string]string{
		"Lock-Key":      l.Claim.Key.Header(),
		"Lock-Holder":   l.Claim.Holder.Header(),
		"Fencing-Token": l.Claim.Token.String(),
	}
	for name, value := range headers {
		w.Header().Set(name, value) // where a shell can cut them out
	}
	respondJSON(w, status, api.Lease{
		Key:           l.Claim.Key.Wire(),
		Holder:        l.Claim.Holder.Wire(),
		Token:         l.Claim.Token.String(),
		TtlMs:         l.Remaining.Milliseconds(),
		ExpiresAt:     time.Now().Add(l.Remaining).UTC(),
		RenewAfterMs:  (l.Remaining / 3).Milliseconds(),
		MaxLifetimeMs: s.Gate.Terms.Lifetime.Milliseconds(),
		Headers:       headers,
	})
}

// decodeKeyed decodes a body into body, whose member key points into it.
func decodeKeyed(r *http.Request, body any, key *string) (lease.Key, error) {
	if err := checkQuery(r); err != nil {
		return "", err
	}
	if err := decodeObject(r, body); err != nil {
		return "", err
	}
	parsed, err := lease.ParseKey(*key)
	if err != nil {
		return "", malformedMember("/key", err)
	}
	return parsed, nil
}

// decodeClaim decodes a body into body, whose members key, holder and token
// point into it.
func decodeClaim(r *http.Request, body any, key, holder, token *string) (claim lease.Claim, err error) {
	if err := cmp.Or(checkQuery(r), decodeObject(r, body)); err != nil {
		return claim, err
	}
	return claimOf("", api.Claim{Key: *key, Holder: *holder, Token: *token})
}

// claimOf reads the claim that stands at pointer in a body.
func claimOf(pointer string, given api.Claim) (claim lease.Claim, err error) {
	if claim.Key, err = lease.ParseKey(given.Key); err != nil {
		return claim, malformedMember(pointer+"/key", err)
	}
	if claim.Holder, err = lease.ParseHolder(given.Holder); err != nil {
		return claim, malformedMember(pointer+"/holder", err)
	}
	if claim.Token, err = lease.ParseToken(given.Token); err != nil {
		return claim, malformedMember(pointer+"/token", err)
	}
	return claim, nil
}

func malformedMember(pointer string, err error) error {
	name := pointer[strings.LastIndexByte(pointer, '/')+1:]
	return &fault{status: http.StatusBadRequest, slug: "fencing_malformed", pointer: pointer, detail: name + ": " + err.Error()}
}

// parseTTL returns 0 for an absent member: the default.
func parseTTL(ms *int64) (time.Duration, error) {
	if ms == nil {
		return 0, nil
	}
	// Past this the multiplication would overflow into something that passes.
	if *ms < 1 || *ms > int64(time.Duration(1<<63-1)/time.Millisecond) {
		return 0, &fault{status: http.StatusUnprocessableEntity, slug: "ttl_out_of_range", pointer: "/ttl_ms",
			detail: "ttl_ms must be at least 1 and within the configured terms"}
	}
	return time.Duration(*ms) * time.Millisecond, nil
}

func checkClient(client *string) error {
	if client == nil || utf8.RuneCountInString(*client) <= maxClient {
		return nil
	}
	return &fault{status: http.StatusBadRequest, slug: "malformed_json", pointer: "/client", detail: "client is longer than 200 characters"}
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func valueOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
