package proxy

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fencegate/fencegate/internal/api"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/lease"
)

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
	renewed, err := s.Gate.Renew(r.Context(), principal(r), claim, ttl, origin(r))
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
	released, err := s.Gate.Release(r.Context(), principal(r), claim, origin(r))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if !released.Done {
		visitOf(r).Reason = released.Reason
	}
	respondJSON(w, http.StatusOK, api.Release{Released: released.Done, Reason: optional(released.Reason)})
}

// RevokeLease answers POST /v1/leases/revoke.
func (s *Server) RevokeLease(w http.ResponseWriter, r *http.Request) {
	revocation, err := decodeRevoke(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	closed, err := s.Gate.Revoke(r.Context(), principal(r), revocation)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	answer := api.Revocation{Key: closed.Key.Wire(), Token: closed.Token.String()}
	if revocation.Block > 0 {
		answer.BlockedUntil = new(time.Now().Add(revocation.Block).UTC())
	}
	respondJSON(w, http.StatusOK, answer)
}

func decodeRevoke(r *http.Request) (revocation fence.Revocation, err error) {
	var body api.RevokeRequest
	if revocation.Key, err = decodeKeyed(r, &body, &body.Key); err != nil {
		return revocation, err
	}
	revocation.Reason = strings.TrimSpace(body.Reason)
	if n := utf8.RuneCountInString(revocation.Reason); n == 0 || n > maxReason {
		return revocation, &fault{status: http.StatusBadRequest, slug: "malformed_json", pointer: "/reason",
			detail: fmt.Sprintf("reason says why, in 1 to %d characters", maxReason)}
	}
	if body.BlockMs != nil {
		revocation.Block, err = parseMS("/block_ms", *body.BlockMs, maxBlock)
	}
	return revocation, err
}

// maxReason bounds the reason of a revocation, in characters.
const maxReason = 500

// maxBlock bounds how long a revoked key can't be granted.
const maxBlock = 24 * time.Hour

func (s *Server) respondLease(w http.ResponseWriter, r *http.Request, status int, l gate.Lease, err error) {
	if err != nil {
		s.fail(w, r, err)
		return
	}
	answer := s.apiLease(l)
	for name, value := range answer.Headers {
		w.Header().Set(name, value) // where a shell can cut them out
	}
	respondJSON(w, status, answer)
}

func (s *Server) apiLease(l gate.Lease) api.Lease {
	return api.Lease{
		Key:           l.Claim.Key.Wire(),
		Holder:        l.Claim.Holder.Wire(),
		Token:         l.Claim.Token.String(),
		TtlMs:         l.Remaining.Milliseconds(),
		ExpiresAt:     time.Now().Add(l.Remaining).UTC(),
		RenewAfterMs:  (l.Remaining / 3).Milliseconds(),
		MaxLifetimeMs: s.Gate.TermsOf(l.Claim.Key).Lifetime.Milliseconds(),
		Headers: map[string]string{
			"Lock-Key":      l.Claim.Key.Header(),
			"Lock-Holder":   l.Claim.Holder.Header(),
			"Fencing-Token": l.Claim.Token.String(),
		},
	}
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

// parseMS reads a time at pointer of 0 to most.
func parseMS(pointer string, ms int64, most time.Duration) (time.Duration, error) {
	if ms < 0 || ms > most.Milliseconds() {
		return 0, &fault{status: http.StatusUnprocessableEntity, slug: "out_of_range", pointer: pointer,
			detail: fmt.Sprintf("%s must be 0 to %d", pointer[1:], most.Milliseconds())}
	}
	return time.Duration(ms) * time.Millisecond, nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func valueOf[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}
