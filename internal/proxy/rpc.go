package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fencegate/fencegate/internal/api"
	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/statement"
)

// CallRoutine answers POST /rest/rpc/{name}.
func (s *Server) CallRoutine(w http.ResponseWriter, r *http.Request, name string, _ api.CallRoutineParams) {
	s.write(w, r, s.call(name))
}

// ReadRoutine answers GET /rest/rpc/{name}: a call that only reads.
func (s *Server) ReadRoutine(w http.ResponseWriter, r *http.Request, name string, _ api.ReadRoutineParams) {
	var d decodedRead
	var rows gate.Rows
	err := s.following(r, func(tables *catalog.Snapshot) (err error) {
		if d, err = s.decodeReadingCall(r, tables, name); err != nil {
			return err
		}
		rows, err = s.Gate.Read(r.Context(), principal(r), d.Query, d.prefer.settings())
		return err
	})
	var db *gate.DatabaseError
	switch {
	case errors.As(err, &db) && db.SQLState == stateReadOnly:
		err = &fault{status: http.StatusMethodNotAllowed, slug: "routine_writes", code: db.SQLState, sqlState: db.SQLState, detail: "it writes: call it by POST, under its lock"}
	case err == nil && d.singular && rows.Affected != 1:
		err = notSingular(fmt.Sprintf("%d rows, or more", rows.Affected))
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	d.prefer.writeApplied(w.Header())
	w.Header().Set("Content-Range", contentRange(0, rows))
	respondReturned(w, d.Routine, rows, d.singular)
}

// stateReadOnly is read_only_sql_transaction.
const stateReadOnly = "25006"

// decodeReadingCall takes the parameters from the query string, as text.
func (s *Server) decodeReadingCall(r *http.Request, tables *catalog.Snapshot, name string) (d decodedRead, err error) {
	if d.Routine, err = routineOf(tables, r.Header, "Accept-Profile", name); err != nil {
		return d, err
	}
	if d.prefer, err = parsePrefer(r.Header); err != nil {
		return d, err
	}
	if d.singular, err = parseAccept(r.Header); err != nil {
		return d, err
	}
	if err := errors.Join(d.prefer.forNoInsert(), noRange(r.Header)); err != nil {
		return d, err
	}
	d.Limit, d.MaxBytes = int64(s.Limits.Rows), s.Limits.AnswerBytes
	if d.singular {
		d.Limit = 2 // one too many is enough to know
	}
	d.Params, err = paramsOf(r, d.Routine)
	return d, err
}

// paramsOf reads the parameters as what PostgreSQL reads of a text; only JSON is
// already what it is.
func paramsOf(r *http.Request, routine *catalog.Routine) (row statement.Row, err error) {
	pairs, err := splitQuery(r.URL.RawQuery)
	if err != nil {
		return row, err
	}
	params := make(map[string]jsontext.Value, len(pairs))
	for _, pair := range pairs {
		name, value := pair[0], pair[1]
		if slices.Contains(row.Names, name) {
			return row, badParameter(name, "%s is given twice", name)
		}
		row.Names = append(row.Names, name)
		params[name] = jsontext.Value(value)
		if p, _ := routine.Column(name); p.KeyType != "json" && p.KeyType != "jsonb" || !params[name].IsValid() {
			params[name], _ = jsontext.AppendQuote(nil, value) // splitQuery has seen that it is UTF-8
		}
	}
	row.JSON, err = json.Marshal(params)
	return row, err
}

// call decodes a call: named parameters in one object.
func (s *Server) call(name string) decoding {
	return func(r *http.Request, tables *catalog.Snapshot) (decodedWrite, error) {
		m := statement.Mutation{Op: catalog.Call}
		var unknown error
		m.Routine, unknown = routineOf(tables, r.Header, "Content-Profile", name)
		return s.decodeWrite(r, m, unknown, func(d *decodedWrite, m *statement.Mutation) (body []byte, err error) {
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

func routineOf(tables *catalog.Snapshot, h http.Header, profile, name string) (*catalog.Routine, error) {
	schema := h.Get(profile)
	if err := knownSchema(tables, profile, schema); err != nil {
		return nil, err
	}
	return tables.Routine(schema, name)
}

// respondCall answers as PostgREST does: what a function returns by itself, and
// rows as an array.
func respondCall(w http.ResponseWriter, d decodedWrite, rows gate.Rows) {
	if d.prefer.returning == "minimal" || d.prefer.returning == "headers-only" {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	respondReturned(w, d.Mutations[0].Routine, rows, d.singular)
}

func respondReturned(w http.ResponseWriter, routine *catalog.Routine, rows gate.Rows, singular bool) {
	switch {
	case routine.ReturnsVoid:
		w.WriteHeader(http.StatusNoContent)
	case routine.IsStatement() || routine.ReturnsSet:
		respondRows(w, http.StatusOK, rows.JSON, singular)
	default:
		respondText(w, http.StatusOK, "application/json", rows.JSON)
	}
}
