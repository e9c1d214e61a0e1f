package proxy

import (
	"net/http"

	"github.com/fencegate/fencegate/internal/api"
)

// HEAD does what GET does; net/http keeps the body back.

// HeadRows answers HEAD /rest/{table}.
func (s *Server) HeadRows(w http.ResponseWriter, r *http.Request, table api.Table, params api.HeadRowsParams) {
	s.ReadRows(w, r, table, api.ReadRowsParams(params))
}

// HeadRoutine answers HEAD /rest/rpc/{name}.
func (s *Server) HeadRoutine(w http.ResponseWriter, r *http.Request, name string, params api.HeadRoutineParams) {
	s.ReadRoutine(w, r, name, api.ReadRoutineParams(params))
}

// HeadLease answers HEAD /v1/leases?key=.
func (s *Server) HeadLease(w http.ResponseWriter, r *http.Request, params api.HeadLeaseParams) {
	s.ReadLease(w, r, api.ReadLeaseParams(params))
}

// HeadRefusals answers HEAD /v1/refusals.
func (s *Server) HeadRefusals(w http.ResponseWriter, r *http.Request, params api.HeadRefusalsParams) {
	s.ListRefusals(w, r, api.ListRefusalsParams(params))
}

// HeadRefusalReport answers HEAD /v1/refusals/report.
func (s *Server) HeadRefusalReport(w http.ResponseWriter, r *http.Request, params api.HeadRefusalReportParams) {
	s.ReportRefusals(w, r, api.ReportRefusalsParams(params))
}

// HeadRefusal answers HEAD /v1/refusals/{id}.
func (s *Server) HeadRefusal(w http.ResponseWriter, r *http.Request, id string) {
	s.ReadRefusal(w, r, id)
}

// HeadRefusalStream answers HEAD /v1/refusals/stream.
func (s *Server) HeadRefusalStream(w http.ResponseWriter, r *http.Request, params api.HeadRefusalStreamParams) {
	s.StreamRefusals(w, r, api.StreamRefusalsParams(params))
}

// HeadGrants answers HEAD /v1/grants.
func (s *Server) HeadGrants(w http.ResponseWriter, r *http.Request, params api.HeadGrantsParams) {
	s.ListGrants(w, r, api.ListGrantsParams(params))
}

// HeadMarks answers HEAD /v1/marks.
func (s *Server) HeadMarks(w http.ResponseWriter, r *http.Request, params api.HeadMarksParams) {
	s.ListMarks(w, r, api.ListMarksParams(params))
}

// HeadContract answers HEAD /openapi.yaml.
func (s *Server) HeadContract(w http.ResponseWriter, r *http.Request) { s.ReadContract(w, r) }
