package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fencegate/fencegate/internal/api"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/lease"
)

const (
	maxClient = 200 // characters of the name that a worker gives itself
	maxWait   = time.Minute
)

// AcquireLease answers POST /v1/leases.
func (s *Server) AcquireLease(w http.ResponseWriter, r *http.Request, _ api.AcquireLeaseParams) {
	a, several, err := s.decodeAcquire(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if a.Wait > 0 {
		giveBack, ok := s.share(a.Principal, waiting)
		if !ok {
			s.fail(w, r, errShareTaken)
			return
		}
		defer giveBack()
		if !s.busy.waiters.take(1, int64(s.Limits.Waiting)) {
			s.fail(w, r, errTooManyWaiting)
			return
		}
		defer s.busy.waiters.leave(1)
	}
	granted, err := s.Gate.Acquire(s.patient(w, r, &a), a)
	if err == nil && granted.Replayed {
		w.Header().Set("Idempotency-Replayed", "true")
		visitOf(r).Replayed = true
	}
	if err == nil && several {
		s.respondLeases(w, granted)
		return
	}
	s.respondLease(w, r, http.StatusCreated, append(granted.Leases, gate.Lease{})[0], err)
}

func (s *Server) respondLeases(w http.ResponseWriter, granted gate.Granted) {
	answer := api.LeaseSet{Leases: make([]api.Lease, len(granted.Leases))}
	for i, l := range granted.Leases {
		answer.Leases[i] = s.apiLease(l)
	}
	respondJSON(w, http.StatusCreated, answer)
}

// decodeAcquire also tells whether the keys came as an array.
func (s *Server) decodeAcquire(r *http.Request) (a gate.Acquisition, several bool, err error) {
	var body api.AcquireRequest
	once, err := idempotencyKey(r.Header)
	if err := cmp.Or(err, checkQuery(r), decodeObject(r, &body), checkClient(body.Client)); err != nil {
		return a, false, err
	}
	if a.Keys, err = acquireKeys(body); err != nil {
		return a, false, err
	}
	if a.TTL, err = parseTTL(body.TtlMs); err != nil {
		return a, false, err
	}
	if body.WaitMs != nil {
		if a.Wait, err = parseMS("/wait_ms", *body.WaitMs, maxWait); err != nil {
			return a, false, err
		}
	}
	a.Principal, a.From = principal(r), origin(r)
	a.To = fence.Grantee{Client: valueOf(body.Client), Principal: a.Principal.Name}
	if once.Key != "" {
		a.Once = fence.Once{Principal: a.Principal.Name, Key: once.Key, Fingerprint: acquireFingerprint(a), Keep: s.Gate.KeepAnswers}
	}
	return a, body.Keys != nil, nil
}

func acquireKeys(body api.AcquireRequest) ([]lease.Key, error) {
	if (body.Key == nil) == (body.Keys == nil) {
		return nil, malformedMember("/key", errors.New("exactly one of key and keys is needed"))
	}
	if body.Key != nil {
		key, err := lease.ParseKey(*body.Key)
		if err != nil {
			return nil, malformedMember("/key", err)
		}
		return []lease.Key{key}, nil
	}
	switch n := len(*body.Keys); {
	case n == 0:
		return nil, malformedMember("/keys", errors.New("it is empty"))
	case n > maxLocks:
		return nil, &fault{status: http.StatusBadRequest, slug: "too_many_locks", pointer: "/keys", detail: fmt.Sprintf("%d keys; at most %d are allowed", n, maxLocks)}
	}
	keys := make([]lease.Key, len(*body.Keys))
	for i, text := range *body.Keys {
		at := fmt.Sprintf("/keys/%d", i)
		var err error
		if keys[i], err = lease.ParseKey(text); err != nil {
			return nil, malformedMember(at, err)
		}
		if slices.Contains(keys[:i], keys[i]) {
			return nil, malformedMember(at, errors.New("the lock key is given twice"))
		}
	}
	return keys, nil
}

// acquireFingerprint is of what is granted, and to whom: two workers that make up
// the same key must not both believe that they hold the lock. How long the caller
// waits may differ from one attempt to the next.
func acquireFingerprint(a gate.Acquisition) string {
	var text strings.Builder
	fmt.Fprintf(&text, "acquire %d %q", a.TTL.Milliseconds(), a.To.Client)
	for _, key := range a.Keys {
		fmt.Fprintf(&text, ",%s", key.Wire()) // a key in this form has no comma
	}
	return digestOf([]byte(text.String()))
}

func checkClient(client *string) error {
	if client == nil || utf8.RuneCountInString(*client) <= maxClient {
		return nil
	}
	return &fault{status: http.StatusBadRequest, slug: "malformed_json", pointer: "/client", detail: fmt.Sprintf("client is longer than %d characters", maxClient)}
}

// patient gives an acquire that waits the time for it, on top of each attempt's,
// and frees its slot meanwhile, and what its body took, which has been read: those who
// wait keep nobody out.
func (s *Server) patient(w http.ResponseWriter, r *http.Request, a *gate.Acquisition) context.Context {
	if a.Wait == 0 {
		return r.Context()
	}
	stay := r.Context().Value(stayKey).(*stay)
	stay.room.leave()
	a.Each, a.Pause = s.Limits.Request, stay.pause
	connection := http.NewResponseController(w)
	end := time.Now().Add(a.Wait + s.Limits.Request)
	if err := connection.SetWriteDeadline(end.Add(s.Limits.Request)); err != nil {
		s.Log.Warn("a connection's deadline can't be moved, it may be cut off while it waits", "error", err, "request_id", requestID(r))
	}
	return stay.whole
}
