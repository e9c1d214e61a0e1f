package proxy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fencegate/fencegate/internal/api"
	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/lease"
)

// ListRefusals answers GET /v1/refusals.
func (s *Server) ListRefusals(w http.ResponseWriter, r *http.Request, params api.ListRefusalsParams) {
	if format := exportFormat(r.Header); format != nil {
		s.exportRefusals(w, r, params, format)
		return
	}
	limit, filter, err := decodeRefusalQuery(r, params)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	records, err := s.Gate.ListRefusals(r.Context(), principal(r), filter, limit+1) // one more tells whether there is a next page
	if err != nil {
		s.fail(w, r, err)
		return
	}
	page := api.RefusalPage{Refusals: []api.Refusal{}}
	if len(records) > limit {
		records = records[:limit]
		page.NextCursor = new(cursorOf(records[limit-1].Place()))
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
	known := checkQuery(r, "disposition", "key", "code", "table", "principal", "since", "until", "limit", "cursor")
	_, acceptable := parseAccept(r.Header)
	if err := cmp.Or(known, acceptable); err != nil {
		return limit, f, err
	}
	f, err = refusalFilter(params)
	return limit, f, err
}

func refusalFilter(params api.ListRefusalsParams) (f audit.Filter, err error) {
	if d := valueOf(params.Disposition); d != "" {
		if !api.RefusalDisposition(d).Valid() {
			return f, badParameter("disposition", "disposition is refused, admitted or event")
		}
		f.Disposition = audit.Disposition(d)
	}
	if params.Key != nil {
		if f.Key, err = lease.ParseKey(*params.Key); err != nil {
			return f, malformedFencing("key", err)
		}
	}
	if params.Cursor != nil {
		if f.Before, err = parsePlace("cursor", *params.Cursor); err != nil {
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

// cursorOf is a place as a cursor carries it.
func cursorOf(p audit.Place) string { return fmt.Sprintf("%d-%d", p.OccurredAt.UnixMicro(), p.ID) }

func parsePlace(name, text string) (audit.Place, error) {
	before, after, found := strings.Cut(text, "-")
	micros, err := parseID(name, before)
	id, malformed := parseID(name, after)
	if err := cmp.Or(err, malformed); err != nil || !found {
		return audit.Place{}, cmp.Or(err, error(badParameter(name, "%s is not one that this gateway has given", name)))
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
	story, err := s.Gate.Refusal(r.Context(), principal(r), number)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	respondJSON(w, http.StatusOK, apiStory(story))
}

func apiRefusal(r audit.Record) api.Refusal {
	answer := api.Refusal{
		Id:             strconv.FormatInt(r.ID, 10),
		OccurredAt:     r.OccurredAt.UTC(),
		Code:           r.Code,
		Disposition:    api.RefusalDisposition(r.Disposition),
		Operation:      r.Operation,
		Table:          optional(r.Table),
		HolderDigest:   optional(r.HolderDigest),
		Client:         optional(r.Client),
		Principal:      r.Origin.Principal,
		RequestId:      r.Origin.RequestID,
		RemoteAddress:  r.Origin.RemoteAddress,
		PayloadSha256:  optional(r.Origin.PayloadSHA256),
		IdempotencyKey: optional(r.Origin.IdempotencyKey),
		Instance:       r.Instance,
	}
	if r.Claim.Key != "" {
		answer.Key = new(r.Claim.Key.Wire())
	}
	if r.Claim.Token != 0 {
		answer.PresentedToken = new(r.Claim.Token.String())
	}
	if r.Mark != 0 {
		answer.MarkToken = new(r.Mark.String())
	}
	return answer
}

func apiStory(story gate.Story) api.Refusal {
	answer := apiRefusal(story.Record)
	if story.Payload != "" {
		answer.Payload = new(json.RawMessage(story.Payload))
	}
	history := make([]api.Grant, len(story.History))
	for i, grant := range story.History {
		history[i] = apiGrant(grant)
		if answer.SupersededBy == nil && grant.Event == "granted" && grant.Token > story.Claim.Token {
			answer.SupersededBy = &history[i]
		}
	}
	answer.History = &history
	return answer
}
