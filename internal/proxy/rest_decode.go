package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/statement"
)

// decodedRead is a read and how it is to be answered.
type decodedRead struct {
	statement.Query
	prefer   preferences
	singular bool // as one object
}

func (s *Server) decodeRead(r *http.Request, tables *catalog.Snapshot, name string) (d decodedRead, err error) {
	if d.Table, err = tableOf(tables, r.Header, "Accept-Profile", name); err != nil {
		return d, err
	}
	if d.prefer, err = parsePrefer(r.Header); err != nil {
		return d, err
	}
	if err := d.prefer.forNoInsert(); err != nil {
		return d, err
	}
	parsed, err := parseRestQuery(r.URL.RawQuery, s.Limits.Filters, "select", "order", "limit", "offset")
	if err != nil {
		return d, err
	}
	if err := parsed.parseRange(r.Header); err != nil {
		return d, err
	}
	if d.singular, err = parseAccept(r.Header); err != nil {
		return d, err
	}
	d.Columns, d.Filters, d.Order, d.Offset = parsed.columns, parsed.filters, parsed.order, parsed.offset
	d.Total, d.ETag, d.MaxBytes = d.prefer.count, d.singular, s.Limits.AnswerBytes
	d.Limit = int64(s.Limits.Rows)
	if d.singular {
		d.Limit = 2 // one too many is enough to know
	}
	if parsed.limit >= 0 {
		d.Limit = min(d.Limit, parsed.limit)
	}
	return d, nil
}

// decodedWrite is a write of one mutation and how it is to be answered.
type decodedWrite struct {
	gate.Write
	prefer      preferences
	singular    bool // as one object; any other number of rows is an error
	put         bool
	location    bool // what is returned says where the one row is
	conditional bool // If-Match was given
}

// toTable decodes a POST, PATCH or DELETE of rows.
func (s *Server) toTable(name string, op catalog.Operation) decoding {
	return func(r *http.Request, tables *catalog.Snapshot) (decodedWrite, error) {
		m := statement.Mutation{Op: op}
		var unknown error
		m.Table, unknown = tableOf(tables, r.Header, "Content-Profile", name)
		return s.decodeWrite(r, m, unknown, func(d *decodedWrite, m *statement.Mutation) ([]byte, error) {
			if op == catalog.Insert {
				return s.decodeInsert(r, d, m)
			}
			return s.decodeChange(r, d, m)
		})
	}
}

// decodeWrite reads what every write has in common; specific reads the rest. unknown
// says that m has no target.
func (s *Server) decodeWrite(r *http.Request, m statement.Mutation, unknown error, specific func(*decodedWrite, *statement.Mutation) ([]byte, error)) (d decodedWrite, err error) {
	d.Claims, d.Unclaimed, err = claimed(r.Header, unknown == nil && m.Observed())
	if err != nil {
		return d, err
	}
	if d.prefer, err = parsePrefer(r.Header); err != nil {
		return d, err
	}
	if d.singular, err = parseAccept(r.Header); err != nil {
		return d, err
	}
	once, err := idempotencyKey(r.Header)
	if err := errors.Join(err, noRange(r.Header)); err != nil {
		return d, err
	}
	if unknown != nil {
		return d, unknown
	}
	m.MaxAffected, m.MaxBytes = d.prefer.maxAffected, s.Limits.AnswerBytes
	if d.singular {
		m.MinAffected, m.MaxAffected = 1, 1
	}
	visitOf(r).aims(m)
	body, err := specific(&d, &m)
	if err != nil {
		return d, err
	}
	d.returns(&m)
	digest := digestOf(body)
	once.Fingerprint = fingerprint(r, digest)
	from := origin(r)
	from.PayloadSHA256, from.IdempotencyKey = digest, once.Key
	d.Write = gate.Write{
		Principal: principal(r), Claims: d.Claims, Unclaimed: d.Unclaimed, Mutations: []statement.Mutation{m},
		Origin: from, Once: once, Settings: d.prefer.settings(), Trial: d.prefer.trial,
	}
	return d, nil
}

// claimed reads the lock of a write. One that is missing or can't be read is let
// through to a target that is observed.
func claimed(h http.Header, observed bool) ([]lease.Claim, *gate.Unclaimed, error) {
	claim, err := parseClaim(h)
	if err == nil {
		return []lease.Claim{claim}, nil, nil
	}
	if without := unclaimed(err, claim); without != nil && observed {
		return nil, without, nil
	}
	return nil, nil, err
}

// returns drops what was selected if it is not to be answered.
func (d *decodedWrite) returns(m *statement.Mutation) {
	switch {
	case m.Op == catalog.Call:
		m.Return = statement.Columns{All: !m.Routine.ReturnsVoid}
	case d.prefer.returning == "representation":
		m.ETag = d.singular
	case d.prefer.returning == "headers-only" && m.Op == catalog.Insert && len(m.Rows) == 1 && m.Table.PrimaryKey != nil:
		d.location = true
		m.Return = statement.Columns{Names: m.Table.PrimaryKey}
	default:
		m.Return = statement.Columns{}
	}
}

func digestOf(body []byte) string {
	if body == nil {
		return ""
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// decodeChange reads an update or a delete.
func (s *Server) decodeChange(r *http.Request, d *decodedWrite, m *statement.Mutation) ([]byte, error) {
	if err := d.prefer.forNoInsert(); err != nil {
		return nil, err
	}
	query, err := parseRestQuery(r.URL.RawQuery, s.Limits.Filters, "select", "order", "all")
	if err != nil {
		return nil, err
	}
	m.Filters, m.All, m.Return, m.Order = query.filters, query.all, query.columns, query.order
	if err := m.Return.Check(m.Table); err != nil {
		return nil, err // even if nothing is to be returned
	}
	if err := d.matching(m, r.Header.Values("If-Match")); err != nil {
		return nil, err
	}
	if m.Op == catalog.Delete {
		return nil, nil
	}
	body, array, err := s.decodeBody(r, m)
	if array {
		return nil, &fault{status: http.StatusBadRequest, slug: "malformed_json", detail: "an update takes one object, not an array"}
	}
	return body, err
}

// matching takes the ETags that rows must still have.
func (d *decodedWrite) matching(m *statement.Mutation, values []string) (err error) {
	if len(values) == 0 {
		return nil
	}
	d.conditional = true
	m.MinAffected = max(1, m.MinAffected)
	m.IfMatch, err = parseETags(strings.Join(values, ","))
	return err
}

// parseETags reads If-Match. `*` is nil: any row. A weak one matches nothing.
func parseETags(text string) ([]string, error) {
	if strings.TrimSpace(text) == "*" {
		return nil, nil
	}
	tags := []string{}
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		strong, weak := strings.CutPrefix(item, "W/")
		if len(strong) < 2 || strong[0] != '"' || strong[len(strong)-1] != '"' {
			return nil, &fault{status: http.StatusBadRequest, slug: "malformed_header", parameter: "If-Match",
				detail: `If-Match takes ETags in double quotes, separated by commas, or *`}
		}
		if !weak {
			tags = append(tags, strong[1:len(strong)-1])
		}
	}
	return tags, nil
}

// decodeInsert reads a POST of rows.
func (s *Server) decodeInsert(r *http.Request, d *decodedWrite, m *statement.Mutation) ([]byte, error) {
	query, err := parseRestQuery(r.URL.RawQuery, s.Limits.Filters, "select", "order", "columns", "on_conflict")
	if err != nil {
		return nil, err
	}
	m.Return, m.Order = query.columns, query.order
	if err := errors.Join(d.prefer.conflicts(m, query), noIfMatch(r.Header), m.Return.Check(m.Table)); err != nil {
		return nil, err
	}
	if len(query.filters) > 0 {
		return nil, badParameter(query.filters[0].Parameter(), "an insert takes no filters")
	}
	body, _, err := s.decodeBody(r, m)
	if err != nil {
		return nil, err
	}
	if n := int64(len(m.Rows)); m.MaxAffected >= 0 && n > m.MaxAffected {
		return nil, &gate.DatabaseError{SQLState: stateTooMany, Message: fmt.Sprintf("%d rows to insert, %d allowed", n, m.MaxAffected)}
	}
	return body, nil
}

// conflicts takes what only an insert may say: which columns every row gets, and
// what to do about rows that are there already.
func (p preferences) conflicts(m *statement.Mutation, query restQuery) error {
	switch {
	case query.target != nil && p.resolution == "":
		return badParameter("on_conflict", "on_conflict needs Prefer: resolution=merge-duplicates or ignore-duplicates")
	case p.missing == "null" && query.insert == nil:
		return badPreference("missing=null needs columns: which ones a row misses")
	}
	if p.missing != "default" {
		m.Columns = query.insert
	}
	if p.resolution != "" {
		m.Upsert = &statement.Upsert{Target: query.target, Merge: p.resolution == "merge-duplicates"}
	}
	return nil
}

// putInto decodes a PUT: one row, named by its whole primary key.
func (s *Server) putInto(name string) decoding {
	return func(r *http.Request, tables *catalog.Snapshot) (decodedWrite, error) {
		m := statement.Mutation{Op: catalog.Insert}
		var unknown error
		m.Table, unknown = tableOf(tables, r.Header, "Content-Profile", name)
		return s.decodeWrite(r, m, unknown, func(d *decodedWrite, m *statement.Mutation) (body []byte, err error) {
			d.put = true
			query, err := parseRestQuery(r.URL.RawQuery, s.Limits.Filters, "select")
			if err := errors.Join(err, d.prefer.forNoInsert(), noIfMatch(r.Header)); err != nil {
				return nil, err
			}
			m.Upsert, m.Return = &statement.Upsert{Merge: true}, query.columns
			if err := m.Return.Check(m.Table); err != nil {
				return nil, err
			}
			if body, _, err = s.decodeBody(r, m); err != nil {
				return nil, err
			}
			return body, namesRow(m, query.filters)
		})
	}
}

// slugPrimaryKey is the fault of a PUT that does not name its row by its key.
const slugPrimaryKey = "primary_key_required"

// namesRow makes sure that the filters name one row, and that the body is it.
func namesRow(m *statement.Mutation, filters []statement.Filter) error {
	if len(m.Rows) != 1 {
		return &fault{status: http.StatusBadRequest, slug: "malformed_json", code: "PGRST115", detail: "a PUT takes one row"}
	}
	if len(filters) != len(m.Table.PrimaryKey) || len(filters) == 0 {
		return &fault{status: http.StatusMethodNotAllowed, slug: slugPrimaryKey, code: "PGRST105",
			detail: "a PUT names its row by eq filters on all columns of the primary key, and by nothing else"}
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(m.Rows[0].JSON, &members); err != nil {
		return malformedJSON(err)
	}
	for _, f := range filters {
		if !slices.Contains(m.Table.PrimaryKey, f.Column) || f.Op != statement.Eq || f.Not || f.Quantifier != "" || len(f.Path) > 0 {
			return &fault{status: http.StatusMethodNotAllowed, slug: slugPrimaryKey, code: "PGRST105", parameter: f.Parameter(),
				detail: "a PUT takes eq filters on the columns of the primary key only"}
		}
		if text, ok := textOf(members[f.Column]); !ok || text != f.Values[0] {
			return &fault{status: http.StatusBadRequest, slug: "primary_key_mismatch", code: "PGRST115", column: f.Column,
				pointer: string(jsontext.Pointer("").AppendToken(f.Column)),
				detail:  fmt.Sprintf("the object must have %q with the value that the filter has", f.Column)}
		}
	}
	return nil
}

// textOf is a scalar as it stands in a URL.
func textOf(value jsontext.Value) (string, bool) {
	switch value.Kind() {
	case '"':
		text, err := jsontext.AppendUnquote(nil, value)
		return string(text), err == nil
	case '0', 't', 'f':
		return string(value), true
	}
	return "", false
}

func noIfMatch(h http.Header) error {
	if len(h.Values("If-Match")) == 0 {
		return nil
	}
	return &fault{status: http.StatusBadRequest, slug: "unsupported_header", parameter: "If-Match", detail: "If-Match goes with PATCH and DELETE"}
}

// decodeBody reads the rows of the body.
func (s *Server) decodeBody(r *http.Request, m *statement.Mutation) (body []byte, array bool, err error) {
	if body, err = readBody(r); err != nil {
		return nil, false, err
	}
	m.Rows, array, err = decodeRows(body, s.Limits.Rows)
	if err == nil && len(m.Rows) == 0 {
		err = &fault{status: http.StatusBadRequest, slug: "empty_batch", detail: "the array has no rows"}
	}
	return body, array, err
}

func tableOf(tables *catalog.Snapshot, h http.Header, profile, name string) (*catalog.Table, error) {
	schema := h.Get(profile)
	if err := knownSchema(tables, profile, schema); err != nil {
		return nil, err
	}
	return tables.Table(schema, name)
}

func knownSchema(tables *catalog.Snapshot, profile, schema string) error {
	if schema == "" || tables.HasSchema(schema) {
		return nil
	}
	return &fault{status: http.StatusNotAcceptable, slug: "unknown_schema", code: "PGRST106",
		parameter: profile, detail: fmt.Sprintf("schema %q is not configured", schema)}
}
