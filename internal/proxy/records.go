package proxy

import (
	"cmp"
	"net/http"
	"strconv"

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
	state, err := s.Gate.Look(r.Context(), principal(r), key)
	return apiState(r, key, state), err
}

func (s *Server) leasePage(r *http.Request, params api.ReadLeaseParams) (api.LeasePage, error) {
	page := api.LeasePage{Leases: []api.LeaseState{}}
	limit, err := pageLimit(params.Limit)
	after, malformed := cursorKey(params.Cursor)
	if err := cmp.Or(checkQuery(r, "prefix", "limit", "cursor"), err, malformed); err != nil {
		return page, err
	}
	live, last, err := s.Gate.ListLeases(r.Context(), principal(r), fence.Selection{Prefix: valueOf(params.Prefix), After: after, Limit: limit})
	for _, state := range live {
		page.Leases = append(page.Leases, apiState(r, state.Mark.Key, state))
	}
	if last != "" {
		page.NextCursor = new(last.Wire())
	}
	return page, err
}

// apiState has the mark for administrators only: its token is another's.
func apiState(r *http.Request, key lease.Key, state gate.State) api.LeaseState {
	answer := api.LeaseState{Key: key.Wire(), Live: state.Live}
	if state.Live {
		answer.RemainingMs = new(state.Left.Milliseconds())
	}
	if state.Mark.Token != 0 {
		answer.MarkHoldsLease = &state.OfMark
		if principal(r).Admin {
			answer.Mark = new(apiMark(state.Mark))
		}
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
		mark, err := s.Gate.Mark(r.Context(), principal(r), key)
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
	marks, err := s.Gate.ListMarks(r.Context(), principal(r), fence.Selection{Prefix: valueOf(params.Prefix), After: after, Limit: limit + 1})
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

// ListGrants answers GET /v1/grants.
func (s *Server) ListGrants(w http.ResponseWriter, r *http.Request, params api.ListGrantsParams) {
	page, err := s.grantPage(r, params)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	respondJSON(w, http.StatusOK, page)
}

func (s *Server) grantPage(r *http.Request, params api.ListGrantsParams) (api.GrantPage, error) {
	page := api.GrantPage{Grants: []api.Grant{}}
	limit, err := pageLimit(params.Limit)
	if err := cmp.Or(checkQuery(r, "key", "limit", "cursor"), err); err != nil {
		return page, err
	}
	key, err := lease.ParseKey(params.Key)
	if err != nil {
		return page, malformedFencing("key", err)
	}
	var before int64
	if params.Cursor != nil {
		if before, err = parseID("cursor", *params.Cursor); err != nil {
			return page, err
		}
	}
	grants, err := s.Gate.ListGrants(r.Context(), principal(r), key, before, limit+1)
	if len(grants) > limit {
		grants = grants[:limit]
		page.NextCursor = new(strconv.FormatInt(grants[limit-1].ID, 10))
	}
	for _, grant := range grants {
		page.Grants = append(page.Grants, apiGrant(grant))
	}
	return page, err
}

func apiGrant(g audit.Grant) api.Grant {
	return api.Grant{
		Id:           strconv.FormatInt(g.ID, 10),
		Event:        api.GrantEvent(g.Event),
		Key:          g.Key.Wire(),
		Token:        g.Token.String(),
		HolderDigest: g.HolderDigest,
		Client:       g.Client,
		Principal:    g.Principal,
		Reason:       optional(g.Reason),
		OccurredAt:   g.OccurredAt.UTC(),
	}
}
