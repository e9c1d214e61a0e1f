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
	query, prefer, err := s.decodeRead(r, table)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	rows, err := s.Gate.Read(r.Context(), principal(r), query)
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

func (s *Server) decodeRead(r *http.Request, name string) (q statement.Query, prefer preferences, err error) {
	if q.Table, err = s.table(r.Header, "Accept-Profile", name); err != nil {
		return q, prefer, err
	}
	if prefer, err = parsePrefer(r.Header); err != nil {
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
	write, prefer, err := s.decodeWrite(r, table, op)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	result, err := s.Gate.Write(r.Context(), write)
	if err != nil {
		s.fail(w, r, searchFault(err, write.Mutation.Filters))
		return
	}
	s.respondWrite(w, write, prefer, result)
}

func (s *Server) decodeWrite(r *http.Request, name string, op catalog.Operation) (write gate.Write, prefer preferences, err error) {
	m := statement.Mutation{Op: op}
	if m.Table, err = s.table(r.Header, "Content-Profile", name); err != nil {
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
	digest, err := s.decodeMutation(r, &m)
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
func (s *Server) decodeMutation(r *http.Request, m *statement.Mutation) (digest string, err error) {
	allowed := []string{"select", "all"}
	if m.Op == catalog.Insert {
		allowed = []string{"select"}
	}
	query, err := parseRestQuery(r.URL.RawQuery, s.Limits.Filters, allowed...)
	if err != nil {
		return "", err
	}
	m.Filters, m.All, m.Return = query.filters, query.all, query.columns
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

func (s *Server) table(h http.Header, profile, name string) (*catalog.Table, error) {
	schema := h.Get(profile)
	if schema != "" && !s.Catalog.HasSchema(schema) {
		return nil, &fault{status: http.StatusNotAcceptable, slug: "unknown_schema", code: "PGRST106",
			parameter: profile, detail: fmt.Sprintf("schema %q is not configured", schema)}
	}
	return s.Catalog.Table(schema, name)
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
