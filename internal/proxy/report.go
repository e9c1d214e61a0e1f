package proxy

import (
	"net/http"
	"strconv"
	"time"

	"github.com/fencegate/fencegate/internal/api"
	"github.com/fencegate/fencegate/internal/audit"
)

// reportPeriod is how far back a report looks that is not told.
const reportPeriod = 7 * 24 * time.Hour

// ReportRefusals answers GET /v1/refusals/report.
func (s *Server) ReportRefusals(w http.ResponseWriter, r *http.Request, params api.ReportRefusalsParams) {
	if err := checkQuery(r, "since"); err != nil {
		s.fail(w, r, err)
		return
	}
	since := time.Now().Add(-reportPeriod)
	if params.Since != nil {
		since = *params.Since
	}
	report, err := s.Gate.Report(r.Context(), principal(r), since)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	respondJSON(w, http.StatusOK, apiReport(report, s.Catalog.Snapshot().Observed()))
}

func apiReport(r audit.Report, observed []string) api.RefusalReport {
	answer := api.RefusalReport{
		Since: r.Since.UTC(), Until: r.Until.UTC(), Admitted: r.Records, Cut: r.Cut, MoreGroups: r.More,
		Observed: append([]string{}, observed...), Tables: []api.ObservedTable{}, Groups: []api.ObservedGroup{},
	}
	for _, t := range r.Tables {
		answer.Tables = append(answer.Tables, api.ObservedTable{Table: t.Table, Admitted: t.Records, Keys: t.Keys, First: t.First.UTC(), Last: t.Last.UTC()})
	}
	for _, g := range r.Groups {
		answer.Groups = append(answer.Groups, api.ObservedGroup{
			Table: g.Table, Code: g.Code, Principal: g.Principal, Client: optional(g.Client), RemoteAddress: g.Remote,
			HolderDigest: optional(g.Holder), Admitted: g.Records, First: g.First.UTC(), Last: g.Last.UTC(), Example: strconv.FormatInt(g.Example, 10),
		})
	}
	return answer
}
