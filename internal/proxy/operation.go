package proxy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fencegate/fencegate/internal/api"
	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/statement"
)

// operations decodes the operations of one transaction.
type operations struct {
	server *Server
	tables *catalog.Snapshot
	schema string // of operations that name none; "": the first configured one
	rows   int    // that are still allowed
}

func (o *operations) decode(given []api.Operation) ([]statement.Mutation, error) {
	switch {
	case len(given) == 0:
		return nil, &fault{status: http.StatusBadRequest, slug: "empty_batch", pointer: "/operations", detail: "there are no operations"}
	case len(given) > maxOperations:
		return nil, &fault{status: http.StatusRequestEntityTooLarge, slug: "too_many_operations", pointer: "/operations",
			detail: fmt.Sprintf("%d operations; at most %d are allowed in one transaction", len(given), maxOperations)}
	}
	mutations := make([]statement.Mutation, len(given))
	for i, one := range given {
		var err error
		if mutations[i], err = o.one(one); err != nil {
			return nil, placed(err, i)
		}
	}
	return mutations, nil
}

// observed reports whether all that the operations write to is in observe mode.
func (o *operations) observed(given []api.Operation) bool {
	return !slices.ContainsFunc(given, func(one api.Operation) bool {
		var m statement.Mutation
		if one.Op == "call" {
			m.Routine, _ = o.tables.Routine(cmp.Or(valueOf(one.Schema), o.schema), valueOf(one.Name))
		} else {
			m.Table, _ = o.table(one)
		}
		return !m.Observed()
	})
}

// placed adds which operation err was found in.
func placed(err error, operation int) error {
	var f *fault
	if !errors.As(err, &f) {
		f = faultOf(err)
	}
	moved := *f
	moved.operation = &operation
	moved.pointer = fmt.Sprintf("/operations/%d%s", operation, f.pointer)
	return &moved
}

// member is a member of an operation, and the ops that have it.
type member struct {
	name  string
	given bool
	ops   string
}

func membersOf(given api.Operation) []member {
	return []member{
		{"rows", given.Rows != nil, "insert upsert"},
		{"on_conflict", given.OnConflict != nil, "upsert"},
		{"resolution", given.Resolution != nil, "upsert"},
		{"where", given.Where != nil, "update delete"},
		{"set", given.Set != nil, "update"},
		{"increment", given.Increment != nil, "update"},
		{"all", given.All != nil, "update delete"},
		{"if_match", given.IfMatch != nil, "update delete"},
		{"table", given.Table != nil, "insert upsert update delete"},
		{"returning", given.Returning != nil, "insert upsert update delete"},
		{"name", given.Name != nil, "call"},
		{"params", given.Params != nil, "call"},
	}
}

var ops = []string{"insert", "upsert", "update", "delete", "call"}

func (o *operations) one(given api.Operation) (m statement.Mutation, err error) {
	op := string(given.Op)
	if !slices.Contains(ops, op) {
		return m, badMember("/op", "op is %q; there are %s", op, strings.Join(ops, ", "))
	}
	for _, one := range membersOf(given) {
		if one.given && !slices.Contains(strings.Fields(one.ops), op) {
			return m, badMember("/"+one.name, "%s means nothing for op %q", one.name, op)
		}
	}
	m.MaxAffected, m.MaxBytes = -1, o.server.Limits.AnswerBytes
	if err := bound(&m, given); err != nil {
		return m, err
	}
	if op == "call" {
		m.Op = catalog.Call
		return m, o.call(&m, given)
	}
	if m.Table, err = o.table(given); err != nil {
		return m, err
	}
	if given.Returning != nil {
		if m.Return, err = parseSelect(strings.Join(*given.Returning, ",")); err != nil {
			return m, under(err, "/returning")
		}
	}
	switch op {
	case "insert":
		m.Op = catalog.Insert
		return m, o.insert(&m, given)
	case "upsert":
		m.Op = catalog.Insert
		m.Upsert = &statement.Upsert{Merge: true}
		return m, o.upsert(&m, given)
	case "update":
		m.Op = catalog.Update
		return m, errors.Join(o.where(&m, given), o.update(&m, given))
	}
	m.Op = catalog.Delete
	return m, o.where(&m, given)
}

func (o *operations) table(given api.Operation) (*catalog.Table, error) {
	if given.Table == nil {
		return nil, badMember("/table", "table is missing")
	}
	table, err := o.tables.Table(o.schemaOf(given), *given.Table)
	if err != nil {
		return nil, under(faultOf(err), "/table")
	}
	return table, nil
}

func (o *operations) schemaOf(given api.Operation) string {
	return cmp.Or(valueOf(given.Schema), o.schema)
}

func (o *operations) call(m *statement.Mutation, given api.Operation) (err error) {
	if given.Name == nil {
		return badMember("/name", "name is missing")
	}
	if m.Routine, err = o.tables.Routine(o.schemaOf(given), *given.Name); err != nil {
		return under(faultOf(err), "/name")
	}
	m.Return = statement.Columns{All: !m.Routine.ReturnsVoid}
	params := statement.Row{JSON: []byte("{}")}
	if given.Params != nil {
		if params, err = rowOf(*given.Params, "/params"); err != nil {
			return err
		}
	}
	m.Rows = []statement.Row{params}
	return nil
}

func bound(m *statement.Mutation, given api.Operation) error {
	switch {
	case given.ExpectRows != nil && given.MaxRows != nil:
		return badMember("/max_rows", "expect_rows and max_rows exclude each other")
	case given.ExpectRows != nil && *given.ExpectRows < 0:
		return badMember("/expect_rows", "expect_rows must be 0 or more")
	case given.MaxRows != nil && *given.MaxRows < 0:
		return badMember("/max_rows", "max_rows must be 0 or more")
	case given.ExpectRows != nil:
		m.MinAffected, m.MaxAffected = *given.ExpectRows, *given.ExpectRows
	case given.MaxRows != nil:
		m.MaxAffected = *given.MaxRows
	}
	return nil
}

func (o *operations) insert(m *statement.Mutation, given api.Operation) error {
	if given.Rows == nil || len(*given.Rows) == 0 {
		return badMember("/rows", "rows is missing or empty")
	}
	if o.rows -= len(*given.Rows); o.rows < 0 {
		return &fault{status: http.StatusRequestEntityTooLarge, slug: "too_many_rows", pointer: "/rows",
			detail: fmt.Sprintf("at most %d rows are allowed in one request", o.server.Limits.Rows)}
	}
	for i, raw := range *given.Rows {
		row, err := rowOf(raw, fmt.Sprintf("/rows/%d", i))
		if err != nil {
			return err
		}
		m.Rows = append(m.Rows, row)
	}
	return nil
}

func (o *operations) upsert(m *statement.Mutation, given api.Operation) error {
	if given.OnConflict != nil {
		m.Upsert.Target = *given.OnConflict
	}
	if given.Resolution != nil {
		switch *given.Resolution {
		case "merge-duplicates":
		case "ignore-duplicates":
			m.Upsert.Merge = false
		default:
			return badMember("/resolution", "resolution is merge-duplicates or ignore-duplicates")
		}
	}
	return o.insert(m, given)
}

func (o *operations) update(m *statement.Mutation, given api.Operation) error {
	m.Rows = []statement.Row{{JSON: []byte("{}")}}
	if given.Set != nil {
		row, err := rowOf(*given.Set, "/set")
		if err != nil {
			return err
		}
		m.Rows[0] = row
	}
	if given.Increment == nil {
		return nil
	}
	row, err := rowOf(*given.Increment, "/increment")
	if err != nil {
		return err
	}
	set := make(map[string]bool, len(m.Rows[0].Names))
	for _, name := range m.Rows[0].Names {
		set[name] = true
	}
	for _, name := range row.Names {
		if set[name] {
			return badMember(string(jsontext.Pointer("/increment").AppendToken(name)), "%q is in set as well", name)
		}
	}
	if nulls := bytes.Contains(row.JSON, []byte("null")); nulls {
		var members map[string]jsontext.Value
		if err := json.Unmarshal(row.JSON, &members); err != nil {
			return under(malformedJSON(err), "/increment")
		}
		for name, value := range members {
			if value.Kind() == 'n' {
				return badMember(string(jsontext.Pointer("/increment").AppendToken(name)), "%q can't be increased by null", name)
			}
		}
	}
	m.Increment = &row
	return nil
}

// where reads what update and delete say about the rows they are for.
func (o *operations) where(m *statement.Mutation, given api.Operation) error {
	m.All = given.All != nil && *given.All
	if given.IfMatch != nil {
		tags, err := parseETags(*given.IfMatch)
		if err != nil {
			return under(err, "/if_match")
		}
		m.IfMatch, m.MinAffected = tags, max(1, m.MinAffected)
	}
	if given.Where == nil {
		return nil
	}
	filters, err := o.filters(*given.Where)
	m.Filters = filters
	return err
}

func (o *operations) filters(where []byte) ([]statement.Filter, error) {
	row, err := rowOf(where, "/where")
	if err != nil {
		return nil, err
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(where, &members); err != nil {
		return nil, under(malformedJSON(err), "/where")
	}
	var q restQuery
	for _, name := range row.Names {
		at := string(jsontext.Pointer("/where").AppendToken(name))
		texts, err := conditionsOf(members[name])
		if err != nil {
			return nil, badMember(at, "a filter is a string such as %q, or a list of them", "eq.1")
		}
		for _, text := range texts {
			if err := q.addFilter(name, text, o.server.Limits.Filters); err != nil {
				return nil, under(err, at)
			}
		}
	}
	return q.filters, nil
}

func conditionsOf(value jsontext.Value) (texts []string, err error) {
	if value.Kind() == '"' {
		texts = []string{""}
		return texts, json.Unmarshal(value, &texts[0])
	}
	return texts, json.Unmarshal(value, &texts)
}

// rowOf reads the object that is at pointer in an operation.
func rowOf(raw []byte, pointer string) (statement.Row, error) {
	row, err := decodeRow(jsontext.NewDecoder(bytes.NewBuffer(raw)), raw)
	row.At = pointer
	return row, under(err, pointer)
}

// under puts what was found wrong at a member of the operation.
func under(err error, pointer string) error {
	var f *fault
	if !errors.As(err, &f) {
		return err
	}
	moved := *f
	moved.pointer, moved.parameter = pointer+f.pointer, ""
	return &moved
}

func badMember(pointer, format string, args ...any) error {
	return &fault{status: http.StatusBadRequest, slug: "malformed_operation", pointer: pointer, detail: fmt.Sprintf(format, echoed(args)...)}
}
