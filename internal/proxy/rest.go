package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"

	"github.com/fencegate/fencegate/internal/api"
	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/statement"
)

// ReadRows answers GET /rest/{table}.
func (s *Server) ReadRows(w http.ResponseWriter, r *http.Request, table api.Table, _ api.ReadRowsParams) {
	var query statement.Query
	var prefer preferences
	var rows gate.Rows
	err := s.following(r, func(tables *catalog.Snapshot) (err error) {
		if query, prefer, err = s.decodeRead(r, tables, table); err != nil {
			return err
		}
		rows, err = s.Gate.Read(r.Context(), principal(r), query)
		return err
	})
	if err != nil {
		s.fail(w, r, searchFault(err, query.Filters))
		return
	}
	prefer.writeApplied(w.Header())
	w.Header().Set("Content-Range", contentRange(query.Offset, rows))
	status, err := readStatus(query.Offset, rows)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	respondRows(w, status, rows.JSON)
}

func (s *Server) decodeRead(r *http.Request, tables *catalog.Snapshot, name string) (q statement.Query, prefer preferences, err error) {
	if q.Table, err = tableOf(tables, r.Header, "Accept-Profile", name); err != nil {
		return q, prefer, err
	}
	if prefer, err = parsePrefer(r.Header); err != nil {
		return q, prefer, err
	}
	if err := prefer.forNoInsert(); err != nil {
		return q, prefer, err
	}
	parsed, err := parseRestQuery(r.URL.RawQuery, s.Limits.Filters, "select", "order", "limit", "offset")
	if err != nil {
		return q, prefer, err
	}
	if err := parsed.parseRange(r.Header); err != nil {
		return q, prefer, err
	}
	q.Columns, q.Filters, q.Order, q.Offset = parsed.columns, parsed.filters, parsed.order, parsed.offset
	q.Total, q.MaxBytes = prefer.count, s.Limits.AnswerBytes
	q.Limit = int64(s.Limits.Rows)
	if parsed.limit >= 0 {
		q.Limit = min(q.Limit, parsed.limit)
	}
	return q, prefer, checkAccept(r.Header)
}

// InsertRows answers POST /rest/{table}.
func (s *Server) InsertRows(w http.ResponseWriter, r *http.Request, table api.Table, _ api.InsertRowsParams) {
	s.write(w, r, table, catalog.Insert)
}

// UpdateRows answers PATCH /rest/{table}.
func (s *Server) UpdateRows(w http.ResponseWriter, r *http.Request, table api.Table, _ api.UpdateRowsParams) {
	s.write(w, r, table, catalog.Update)
}

// DeleteRows answers DELETE /rest/{table}.
func (s *Server) DeleteRows(w http.ResponseWriter, r *http.Request, table api.Table, _ api.DeleteRowsParams) {
	s.write(w, r, table, catalog.Delete)
}

// write is the one way of every /rest write: decode, let the gate do it, answer.
func (s *Server) write(w http.ResponseWriter, r *http.Request, table string, op catalog.Operation) {
	var write gate.Write
	var prefer preferences
	var result gate.Result
	err := s.following(r, func(tables *catalog.Snapshot) (err error) {
		if write, prefer, err = s.decodeWrite(r, tables, table, op); err != nil {
			return err
		}
		result, err = s.Gate.Write(r.Context(), write)
		return err
	})
	if err != nil {
		s.fail(w, r, searchFault(err, write.Mutation.Filters))
		return
	}
	s.respondWrite(w, write, prefer, result)
}

// following lets act work with the tables as they are known, and once more with
// the tables read anew if it met a column that is not known: it may have been
// added since.
func (s *Server) following(r *http.Request, act func(*catalog.Snapshot) error) error {
	tables := s.Catalog.Snapshot()
	err := act(tables)
	if !unknownColumn(err) {
		return err
	}
	changed, failed := s.Catalog.Follow(r.Context(), tables)
	if failed != nil {
		s.Log.Warn("the protected tables could not be read anew; the gateway goes on with what it knows", "error", failed)
	}
	if !changed || failed != nil {
		return err
	}
	rewind(r)
	return act(s.Catalog.Snapshot())
}

// unknownColumn also takes PostgreSQL's word: a known column may be gone.
func unknownColumn(err error) bool {
	var fault *statement.Fault
	var db *gate.DatabaseError
	return errors.As(err, &fault) && fault.Code == statement.UnknownColumn ||
		errors.As(err, &db) && db.SQLState == "42703"
}

func (s *Server) decodeWrite(r *http.Request, tables *catalog.Snapshot, name string, op catalog.Operation) (write gate.Write, prefer preferences, err error) {
	m := statement.Mutation{Op: op}
	if m.Table, err = tableOf(tables, r.Header, "Content-Profile", name); err != nil {
		return write, prefer, err
	}
	claim, err := parseClaim(r.Header)
	if err != nil {
		return write, prefer, err
	}
	if prefer, err = parsePrefer(r.Header); err != nil {
		return write, prefer, err
	}
	once, err := idempotencyKey(r.Header)
	if err := errors.Join(err, checkAccept(r.Header), noRange(r.Header)); err != nil {
		return write, prefer, err
	}
	digest, err := s.decodeMutation(r, &m, prefer)
	if err != nil {
		return write, prefer, err
	}
	m.MaxAffected, m.MaxBytes = prefer.maxAffected, s.Limits.AnswerBytes
	if op == catalog.Insert && prefer.maxAffected >= 0 && int64(len(m.Rows)) > prefer.maxAffected {
		return write, prefer, &fault{status: http.StatusConflict, slug: "max_affected_exceeded", code: "FG004", parameter: "Prefer",
			detail: fmt.Sprintf("%d rows to insert, %d allowed", len(m.Rows), prefer.maxAffected)}
	}
	if prefer.returning != "representation" {
		m.Return = statement.Columns{}
	}
	from := origin(r)
	from.PayloadSHA256, from.IdempotencyKey = digest, once.Key
	once.Fingerprint = fingerprint(r, digest)
	return gate.Write{Principal: principal(r), Claim: claim, Mutation: m, Origin: from, Once: once}, prefer, nil
}

// decodeMutation reads the query string and, where there is one, the body.
func (s *Server) decodeMutation(r *http.Request, m *statement.Mutation, prefer preferences) (digest string, err error) {
	allowed := []string{"select", "all"}
	if m.Op == catalog.Insert {
		allowed = []string{"select", "columns", "on_conflict"}
	}
	query, err := parseRestQuery(r.URL.RawQuery, s.Limits.Filters, allowed...)
	if err != nil {
		return "", err
	}
	m.Filters, m.All, m.Return = query.filters, query.all, query.columns
	if err := decodeInsert(m, query, prefer); err != nil {
		return "", err
	}
	if err := m.Return.Check(m.Table); err != nil {
		return "", err // even if nothing is to be returned
	}
	if m.Op == catalog.Delete {
		return "", nil
	}
	if m.Op == catalog.Insert && len(m.Filters) > 0 {
		return "", badParameter(m.Filters[0].Parameter(), "an insert takes no filters")
	}
	body, err := readBody(r)
	if err != nil {
		return "", err
	}
	rows, array, err := decodeRows(body, s.Limits.Rows)
	switch {
	case err != nil:
		return "", err
	case array && m.Op == catalog.Update:
		return "", &fault{status: http.StatusBadRequest, slug: "malformed_json", detail: "an update takes one object, not an array"}
	case len(rows) == 0:
		return "", &fault{status: http.StatusBadRequest, slug: "empty_batch", detail: "the array has no rows"}
	}
	m.Rows = rows
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:]), nil
}

// decodeInsert takes what only an insert may say: which columns every row gets,
// and what to do about rows that are there already.
func decodeInsert(m *statement.Mutation, query restQuery, prefer preferences) error {
	switch {
	case m.Op != catalog.Insert:
		return prefer.forNoInsert()
	case query.target != nil && prefer.resolution == "":
		return badParameter("on_conflict", "on_conflict needs Prefer: resolution=merge-duplicates or ignore-duplicates")
	case prefer.missing == "null" && query.insert == nil:
		return badPreference("missing=null needs columns: which ones a row misses")
	}
	if prefer.missing != "default" {
		m.Columns = query.insert
	}
	if prefer.resolution != "" {
		m.Upsert = &statement.Upsert{Target: query.target, Merge: prefer.resolution == "merge-duplicates"}
	}
	return nil
}

func tableOf(tables *catalog.Snapshot, h http.Header, profile, name string) (*catalog.Table, error) {
	schema := h.Get(profile)
	if schema != "" && !tables.HasSchema(schema) {
		return nil, &fault{status: http.StatusNotAcceptable, slug: "unknown_schema", code: "PGRST106",
			parameter: profile, detail: fmt.Sprintf("schema %q is not configured", schema)}
	}
	return tables.Table(schema, name)
}

// parseClaim reads the three headers that every write carries.
func parseClaim(h http.Header) (claim lease.Claim, err error) {
	key, err := oneHeader(h, "Lock-Key")
	if err != nil {
		return claim, err
	}
	holder, err := oneHeader(h, "Lock-Holder")
	if err != nil {
		return claim, err
	}
	token, err := oneHeader(h, "Fencing-Token")
	if err != nil {
		return claim, err
	}
	if claim.Key, err = lease.ParseKey(key); err != nil {
		return claim, malformedFencing("Lock-Key", err)
	}
	if claim.Holder, err = lease.ParseHolder(holder); err != nil {
		return claim, malformedFencing("Lock-Holder", err)
	}
	if claim.Token, err = lease.ParseToken(token); err != nil {
		return claim, malformedFencing("Fencing-Token", err)
	}
	return claim, nil
}

func oneHeader(h http.Header, name string) (string, error) {
	switch values := h.Values(name); len(values) {
	case 0:
		return "", &fault{status: http.StatusPreconditionRequired, slug: "fencing_required", parameter: name,
			detail: "the header " + name + " is missing; acquire a lease at /v1/leases and send the headers of its answer"}
	case 1:
		return values[0], nil
	default:
		return "", malformedFencing(name, errors.New("it is given more than once"))
	}
}

func malformedFencing(parameter string, err error) error {
	return &fault{status: http.StatusBadRequest, slug: "fencing_malformed", parameter: parameter,
		detail: fmt.Sprintf("%s: %s", parameter, err)}
}

func principal(*http.Request) auth.Principal { return auth.Anyone }

func origin(r *http.Request) audit.Origin {
	return audit.Origin{
		Principal:     principal(r).Name,
		RequestID:     requestID(r),
		RemoteAddress: remoteAddress(r),
	}
}
