package proxy

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/fencegate/fencegate/internal/api"
	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/statement"
)

// ReadRows answers GET /rest/{table}.
func (s *Server) ReadRows(w http.ResponseWriter, r *http.Request, table api.Table, _ api.ReadRowsParams) {
	var d decodedRead
	var rows gate.Rows
	err := s.following(r, func(tables *catalog.Snapshot) (err error) {
		if d, err = s.decodeRead(r, tables, table); err != nil {
			return err
		}
		rows, err = s.Gate.Read(r.Context(), principal(r), d.Query, d.prefer.settings())
		return err
	})
	if err == nil && d.singular && rows.Affected != 1 {
		err = notSingular(fmt.Sprintf("%d rows, or more", rows.Affected))
	}
	if err != nil {
		s.fail(w, r, searchFault(readOnlyFault(err), d.Filters))
		return
	}
	d.prefer.writeApplied(w.Header())
	writeETag(w.Header(), rows)
	w.Header().Set("Content-Range", contentRange(d.Offset, rows))
	status, err := readStatus(d.Offset, rows)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	respondRows(w, status, rows.JSON, d.singular)
}

// readOnlyFault: a read that meets this would write, by a view's function, and
// sending it again does not help. Only to a write it says that the database is
// read-only now.
func readOnlyFault(err error) error {
	var db *gate.DatabaseError
	if !errors.As(err, &db) || db.SQLState != stateReadOnly {
		return err
	}
	return &fault{status: http.StatusUnprocessableEntity, slug: "not_possible_here", code: db.SQLState, sqlState: db.SQLState,
		detail: "a read changes nothing, and this one would: " + shorten(db.Message)}
}

// InsertRows answers POST /rest/{table}.
func (s *Server) InsertRows(w http.ResponseWriter, r *http.Request, table api.Table, _ api.InsertRowsParams) {
	s.write(w, r, s.toTable(table, catalog.Insert))
}

// UpdateRows answers PATCH /rest/{table}.
func (s *Server) UpdateRows(w http.ResponseWriter, r *http.Request, table api.Table, _ api.UpdateRowsParams) {
	s.write(w, r, s.toTable(table, catalog.Update))
}

// PutRow answers PUT /rest/{table}.
func (s *Server) PutRow(w http.ResponseWriter, r *http.Request, table api.Table, _ api.PutRowParams) {
	s.write(w, r, s.putInto(table))
}

// DeleteRows answers DELETE /rest/{table}.
func (s *Server) DeleteRows(w http.ResponseWriter, r *http.Request, table api.Table, _ api.DeleteRowsParams) {
	s.write(w, r, s.toTable(table, catalog.Delete))
}

// decoding makes a write of a request, given the tables as they are known.
type decoding func(*http.Request, *catalog.Snapshot) (decodedWrite, error)

// write is the one way of every /rest write: decode, let the gate do it, answer.
func (s *Server) write(w http.ResponseWriter, r *http.Request, decode decoding) {
	var d decodedWrite
	var result gate.Result
	err := s.following(r, func(tables *catalog.Snapshot) (err error) {
		if d, err = decode(r, tables); err != nil {
			return err
		}
		result, err = s.Gate.Write(r.Context(), d.Write)
		return err
	})
	if err != nil {
		s.fail(w, r, d.explain(err))
		return
	}
	visitOf(r).Replayed = result.Replayed
	s.respondWrite(w, d, result)
}

// explain says what a number of rows that was not allowed means to this caller.
func (d decodedWrite) explain(err error) error {
	var db *gate.DatabaseError
	switch {
	case !errors.As(err, &db):
		return err
	case d.conditional && db.SQLState == stateTooFew:
		return errPrecondition
	case d.singular && (db.SQLState == stateTooFew || db.SQLState == stateTooMany):
		return notSingular(db.Message)
	case len(d.Mutations) == 1:
		hintAtInsert(db, d.Mutations[0])
		return searchFault(err, d.Mutations[0].Filters)
	}
	return err
}

// hintAtInsert: an upsert of a part of a row that is there fails as its insert
// would.
func hintAtInsert(db *gate.DatabaseError, m statement.Mutation) {
	if db.SQLState == stateNotNull && m.Upsert != nil && m.Upsert.Merge && db.Hint == "" {
		db.Hint = "an upsert inserts before it merges: give it every column that has no default, or update the row"
	}
}

// stateNotNull is not_null_violation.
const stateNotNull = "23502"
