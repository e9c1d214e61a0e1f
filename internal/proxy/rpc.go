package proxy

import (
	"errors"
	"net/http"

	"github.com/fencegate/fencegate/internal/api"
	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/statement"
)

// CallRoutine answers POST /rest/rpc/{name}.
func (s *Server) CallRoutine(w http.ResponseWriter, r *http.Request, name string, _ api.CallRoutineParams) {
	s.write(w, r, s.call(name))
}

// call decodes a call: named parameters in one object.
func (s *Server) call(name string) decoding {
	return func(r *http.Request, tables *catalog.Snapshot) (decodedWrite, error) {
		return s.decodeWrite(r, func(d *decodedWrite, m *statement.Mutation) (body []byte, err error) {
			m.Op = catalog.Call
			if m.Routine, err = routineOf(tables, r.Header, name); err != nil {
				return nil, err
			}
			if err := errors.Join(checkQuery(r), d.prefer.forNoInsert(), noIfMatch(r.Header)); err != nil {
				return nil, err
			}
			body, array, err := s.decodeBody(r, m)
			if array {
				return nil, &fault{status: http.StatusBadRequest, slug: "malformed_json", detail: "a call takes one object of named parameters, not an array"}
			}
			return body, err
		})
	}
}

func routineOf(tables *catalog.Snapshot, h http.Header, name string) (*catalog.Routine, error) {
	schema := h.Get("Content-Profile")
	if err := knownSchema(tables, "Content-Profile", schema); err != nil {
		return nil, err
	}
	return tables.Routine(schema, name)
}

// respondCall answers as PostgREST does: what a function returns by itself, and
// rows as an array.
func respondCall(w http.ResponseWriter, d decodedWrite, rows gate.Rows) {
	routine := d.Mutations[0].Routine
	switch {
	case routine.ReturnsVoid || d.prefer.returning == "minimal" || d.prefer.returning == "headers-only":
		w.WriteHeader(http.StatusNoContent)
	case routine.IsStatement() || routine.ReturnsSet:
		respondRows(w, http.StatusOK, rows.JSON, d.singular)
	default:
		respondText(w, http.StatusOK, "application/json", rows.JSON)
	}
}
