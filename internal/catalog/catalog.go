// Package catalog knows what the protected tables look like: their columns and
// types as PostgreSQL's own catalog has them, joined with the configured lock
// template and operations. It knows the registered statements and the exposed
// functions in the same way.
//
// A Snapshot is immutable; a newer one replaces it whole. It never says that a
// table or function is there just because a request names it: only what is
// configured exists.
package catalog

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fencegate/fencegate/internal/lease"
)

// ErrUnknownTable says that no such table is configured.
var ErrUnknownTable = errors.New("no such table is configured")

// Specs is what the configuration says about all that can be reached. The first
// of Schemas is the one of requests that name none.
type Specs struct {
	Schemas  []string
	Tables   []Spec
	Routines []RoutineSpec
}

// Operation is one thing that can be done to a table.
type Operation string

// The operations a table can be configured for.
const (
	Select Operation = "select"
	Insert Operation = "insert"
	Update Operation = "update"
	Delete Operation = "delete"
	Call   Operation = "call" // of a routine, never of a table
)

// Spec is what the configuration says about one table.
type Spec struct {
	Schema     string
	Name       string
	Lock       lease.Template
	Operations []Operation
	// FenceColumn keeps the token of a row's last write: a bigint that nothing
	// else sets. "": there is none.
	FenceColumn string
	// RecordPayload keeps with a refusal the values that it was to write, but for
	// those of Redact.
	RecordPayload bool
	Redact        []string
	// Observe lets what the fence would refuse through, and records it. Zero value:
	// the fence is enforced.
	Observe bool
	Place   string // where it is configured, "" if that is not known
}

// blame wraps err with what it is about and where that is configured.
func (s Spec) blame(err error) error {
	what := fmt.Sprintf("table %q.%q", s.Schema, s.Name)
	if s.Place != "" {
		what = s.Place + ": " + what
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Table is one protected table as it was when the snapshot was taken.
type Table struct {
	Spec
	Columns []Column // in the table's own order
	// PrimaryKey names its columns in the key's order; nil if there is none.
	PrimaryKey []string
	byName     map[string]int
	narrowing  *Narrowing // nil: everything that is configured
}

// Column is one column of a table.
type Column struct {
	Name string
	// Type is the type's name without length or precision, so that a cast to
	// it never cuts a value; an interval's fields are there.
	Type string
	// Kind is how the column is rendered in a lock key, "" if it can't be.
	Kind KeyKind
	// KeyType is Type, or what it is made of if that is a domain: the type in
	// which a lock key's part is compared.
	KeyType   string
	Generated bool // GENERATED ALWAYS AS (…) STORED
	Composite bool // KeyType is a row of other types
	// RowType is what KeyType is, or has as its elements, if that is a row of
	// other types; else nil.
	RowType *RowType `db:"-"`
	Arrays  int      `db:"-"` // that lie around RowType, each but the first in a domain
}

// KeyKind is a family of types that lock templates can render in one fixed way.
type KeyKind string

// The families that a lock template's columns may belong to.
const (
	Plain KeyKind = "plain" // integer, text, uuid, boolean, enum: the type's text
	Date  KeyKind = "date"  // ISO, whatever DateStyle says
)

// QualifiedName returns schema.table, as records and messages show it.
func (t *Table) QualifiedName() string { return t.Schema + "." + t.Name }

// Column returns the named column; names match exactly.
func (t *Table) Column(name string) (Column, bool) {
	i, ok := t.byName[name]
	if !ok {
		return Column{}, false
	}
	return t.Columns[i], true
}

// LockTemplate returns Lock.
func (t *Table) LockTemplate() lease.Template { return t.Lock }

// Snapshot is all configured tables and routines.
type Snapshot struct {
	first    string // of requests that name no schema
	schemas  []string
	tables   map[[2]string]*Table
	fenced   []*Table
	observed []string
	routines []*Routine
	byName   map[[2]string]*Routine // by schema, "" of a statement, and name
}

// Table returns the named table of schema, of the first configured schema if
// schema is empty, or an error wrapping ErrUnknownTable.
func (s *Snapshot) Table(schema, name string) (*Table, error) {
	schema = s.schemaOf(schema)
	if t, ok := s.tables[[2]string{schema, name}]; ok {
		return t, nil
	}
	return nil, fmt.Errorf("%w: %q in schema %q", ErrUnknownTable, name, schema)
}

func (s *Snapshot) schemaOf(schema string) string {
	if schema == "" {
		return s.first
	}
	return schema
}

// Fenced returns the tables with a fence column, in the order of the
// configuration.
func (s *Snapshot) Fenced() []*Table { return s.fenced }

// Observed names what is in observe mode: tables, then statements and functions, in
// the order of the configuration.
func (s *Snapshot) Observed() []string { return s.observed }

// HasSchema reports whether schema is one of the configured ones.
func (s *Snapshot) HasSchema(schema string) bool {
	return slices.Contains(s.schemas, schema)
}
