package proxy

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fencegate/fencegate/internal/api"
	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/lease"
)

const (
	defaultPage = 100
	maxPage     = 1000
)

// ListRefusals answers GET /v1/refusals.
func (s *Server) ListRefusals(w http.ResponseWriter, r *http.Request, params api.ListRefusalsParams) {
	limit, filter, err := decodeRefusalQuery(r, params)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	records, err := s.Gate.ListRefusals(r.Context(), filter, limit+1) // one more tells whether there is a next page
	if err != nil {
		s.fail(w, r, err)
		return
	}
	page := api.RefusalPage{Refusals: []api.Refusal{}}
	if len(records) > limit {
		records = records[:limit]
		page.NextCursor = new(cursorOf(records[limit-1]))
	}
	for _, record := range records {
		page.Refusals = append(page.Refusals, apiRefusal(record))
	}
	respondJSON(w, http.StatusOK, page)
}

func decodeRefusalQuery(r *http.Request, params api.ListRefusalsParams) (limit int, f audit.Filter, err error) {
	if limit, err = pageLimit(params.Limit); err != nil {
		return limit, f, err
	}
	known := checkQuery(r, "key", "code", "table", "principal", "since", "until", "limit", "cursor")
	_, acceptable := parseAccept(r.Header)
	if err := cmp.Or(known, acceptable); err != nil {
		return limit, f, err
	}
	f, err = refusalFilter(params)
	return limit, f, err
}

func refusalFilter(params api.ListRefusalsParams) (f audit.Filter, err error) {
	if params.Key != nil {
		if f.Key, err = lease.ParseKey(*params.Key); err != nil {
			return f, malformedFencing("key", err)
		}
	}
	if params.Cursor != nil {
		if f.Before, err = parsePlace(*params.Cursor); err != nil {
			return f, err
		}
	}
	f.Code, f.Table, f.Principal = valueOf(params.Code), valueOf(params.Table), valueOf(params.Principal)
	if params.Since != nil {
		f.Since = *params.Since
	}
	if params.Until != nil {
		f.Until = *params.Until
	}
	return f, nil
}

// cursorOf is the place of a record as a cursor carries it.
func cursorOf(r audit.Record) string { return fmt.Sprintf("%d-%d", r.OccurredAt.UnixMicro(), r.ID) }

func parsePlace(text string) (audit.Place, error) {
	before, after, found := strings.Cut(text, "-")
	micros, err := parseID("cursor", before)
	id, malformed := parseID("cursor", after)
	if err := cmp.Or(err, malformed); err != nil || !found {
		return audit.Place{}, cmp.Or(err, error(badParameter("cursor", "cursor is not one that this gateway has given")))
	}
	return audit.Place{OccurredAt: time.UnixMicro(micros), ID: id}, nil
}

// ReadRefusal answers GET /v1/refusals/{id}.
func (s *Server) ReadRefusal(w http.ResponseWriter, r *http.Request, id string) {
	number, err := parseID("id", id)
	if err := cmp.Or(err, checkQuery(r)); err != nil {
		s.fail(w, r, err)
		return
	}
	record, err := s.Gate.Refusal(r.Context(), number)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	respondJSON(w, http.StatusOK, apiRefusal(record))
}

// ReadLease answers GET /v1/leases.
func (s *Server) ReadLease(w http.ResponseWriter, r *http.Request, params api.ReadLeaseParams) {
	var answer any
	var err error
	if params.Key != nil {
		answer, err = s.leaseState(r, *params.Key)
	} else {
		answer, err = s.leasePage(r, params)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	respondJSON(w, http.StatusOK, answer)
}

func (s *Server) leaseState(r *http.Request, text string) (api.LeaseState, error) {
	if err := checkQuery(r, "key"); err != nil {
		return api.LeaseState{}, err
	}
	key, err := lease.ParseKey(text)
	if err != nil {
		return api.LeaseState{}, malformedFencing("key", err)
	}
	state, err := s.Gate.Look(r.Context(), key)
	return apiState(key, state), err
}

func (s *Server) leasePage(r *http.Request, params api.ReadLeaseParams) (api.LeasePage, error) {
	page := api.LeasePage{Leases: []api.LeaseState{}}
	limit, err := pageLimit(params.Limit)
	after, malformed := cursorKey(params.Cursor)
	if err := cmp.Or(checkQuery(r, "prefix", "limit", "cursor"), err, malformed); err != nil {
		return page, err
	}
	live, last, err := s.Gate.ListLeases(r.Context(), fence.Selection{Prefix: valueOf(params.Prefix), After: after, Limit: limit})
	for _, state := range live {
		page.Leases = append(page.Leases, apiState(state.Mark.Key, state))
	}
	if last != "" {
		page.NextCursor = new(last.Wire())
	}
	return page, err
}

func apiState(key lease.Key, state gate.State) api.LeaseState {
	answer := api.LeaseState{Key: key.Wire(), Live: state.Live}
	if state.Live {
		answer.RemainingMs = new(state.Left.Milliseconds())
	}
	if state.Mark.Token != 0 {
		answer.Mark = new(apiMark(state.Mark))
		answer.MarkHoldsLease = &state.OfMark
	}
	return answer
}

// ListMarks answers GET /v1/marks.
func (s *Server) ListMarks(w http.ResponseWriter, r *http.Request, params api.ListMarksParams) {
	page, err := s.markPage(r, params)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	respondJSON(w, http.StatusOK, page)
}

func (s *Server) markPage(r *http.Request, params api.ListMarksParams) (api.MarkPage, error) {
	page := api.MarkPage{Marks: []api.Mark{}}
	allowed := []string{"prefix", "limit", "cursor"}
	if params.Key != nil {
		allowed = []string{"key"}
	}
	if err := checkQuery(r, allowed...); err != nil {
		return page, err
	}
	if params.Key != nil {
		key, err := lease.ParseKey(*params.Key)
		if err != nil {
			return page, malformedFencing("key", err)
		}
		mark, err := s.Gate.Mark(r.Context(), key)
		if err == nil && mark.Token != 0 {
			page.Marks = append(page.Marks, apiMark(mark))
		}
		return page, err
	}
	limit, err := pageLimit(params.Limit)
	if err != nil {
		return page, err
	}
	after, err := cursorKey(params.Cursor)
	if err != nil {
		return page, err
	}
	marks, err := s.Gate.ListMarks(r.Context(), fence.Selection{Prefix: valueOf(params.Prefix), After: after, Limit: limit + 1})
	if len(marks) > limit {
		marks = marks[:limit]
		page.NextCursor = new(marks[limit-1].Key.Wire())
	}
	for _, mark := range marks {
		page.Marks = append(page.Marks, apiMark(mark))
	}
	return page, err
}

// cursorKey reads a cursor that is a lock key.
func cursorKey(given *api.Cursor) (lease.Key, error) {
	if given == nil {
		return "", nil
	}
	key, err := lease.ParseKey(*given)
	if err != nil {
		return "", malformedFencing("cursor", err)
	}
	return key, nil
}

func pageLimit(given *api.PageLimit) (int, error) {
	if given == nil {
		return defaultPage, nil
	}
	if *given < 1 || *given > maxPage {
		return 0, badParameter("limit", "limit must be 1 to %d", maxPage)
	}
	return *given, nil
}

func parseID(name, text string) (int64, error) {
	token, err := lease.ParseToken(text) // the same form: a positive number without decoration
	if err != nil {
		return 0, badParameter(name, "%s is not one that this gateway has given", name)
	}
	return int64(token), nil
}

func apiMark(m fence.Mark) api.Mark {
	return api.Mark{
		Key:          m.Key.Wire(),
		Token:        m.Token.String(),
		State:        api.MarkState(m.State),
		Client:       m.Client,
		HolderDigest: &m.HolderDigest,
		GrantedAt:    m.GrantedAt.UTC(),
	}
}

func apiRefusal(r audit.Record) api.Refusal {
	answer := api.Refusal{
		Id:             strconv.FormatInt(r.ID, 10),
		OccurredAt:     r.OccurredAt.UTC(),
		Code:           r.Code,
		Disposition:    api.RefusalDisposition(r.Disposition),
		Operation:      r.Operation,
		Table:          optional(r.Table),
		Key:            r.Claim.Key.Wire(),
		PresentedToken: r.Claim.Token.String(),
		HolderDigest:   r.HolderDigest,
		Client:         optional(r.Client),
		Principal:      r.Origin.Principal,
		RequestId:      r.Origin.RequestID,
		RemoteAddress:  r.Origin.RemoteAddress,
		PayloadSha256:  optional(r.Origin.PayloadSHA256),
		IdempotencyKey: optional(r.Origin.IdempotencyKey),
		Instance:       r.Instance,
	}
	if r.Mark != 0 {
		answer.MarkToken = new(r.Mark.String())
	}
	return answer
}
