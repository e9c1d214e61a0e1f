package catalog

import (
	"errors"
	"fmt"

	"github.com/fencegate/fencegate/internal/lease"
)

// ErrUnknownRoutine says that no such statement or function is configured.
var ErrUnknownRoutine = errors.New("no such statement or function is configured")

// RoutineSpec is what the configuration says about a registered statement or an
// exposed function.
type RoutineSpec struct {
	// Schema is the function's; "" for a registered statement, which is reached
	// under every schema.
	Schema string
	Name   string
	Lock   lease.Template // over the parameters
	// Text is a registered statement cut at its parameters, and Uses names the
	// parameter after each piece of it but the last. Nil for a function.
	Text []string
	Uses []string
	// Declared are a registered statement's parameters. Nil for a function.
	Declared []ParamSpec
	Expect   int64  // rows it must answer; -1: any
	Observe  bool   // as a table's
	Place    string // where it is configured, as in "gateway.yaml:41"
	Line     int    // of the file, where Text begins; 0: unknown
}

// ParamSpec is a parameter and its type as PostgreSQL spells it.
type ParamSpec struct {
	Name string
	Type string
}

// Routine is a registered statement or an exposed function as it was when the
// snapshot was taken.
type Routine struct {
	RoutineSpec
	Params []Param // in order
	// What a function returns; all false for one row or several columns.
	ReturnsSet    bool // any number of rows
	ReturnsVoid   bool // nothing: a row whose one column means nothing
	ReturnsScalar bool // one value a row, in a column with the function's name
}

// Param is one parameter of a routine.
type Param struct {
	Column
	Optional bool // a function's, with a DEFAULT
}

// IsStatement reports whether it is a registered statement.
func (s RoutineSpec) IsStatement() bool { return s.Schema == "" }

// QualifiedName returns schema.function or the statement's name, as records and
// messages show it.
func (s RoutineSpec) QualifiedName() string {
	if s.IsStatement() {
		return s.Name
	}
	return s.Schema + "." + s.Name
}

// Blame wraps err with what it is about and where that is configured.
func (s RoutineSpec) Blame(err error) error {
	what := fmt.Sprintf("function %q.%q", s.Schema, s.Name)
	if s.IsStatement() {
		what = fmt.Sprintf("statement %q", s.Name)
	}
	if s.Place != "" {
		what = s.Place + ": " + what
	}
	return fmt.Errorf("%s: %w", what, err)
}

// LockTemplate returns Lock.
func (r *Routine) LockTemplate() lease.Template { return r.Lock }

// Column returns the named parameter; names match exactly.
func (r *Routine) Column(name string) (Column, bool) {
	for _, p := range r.Params {
		if p.Name == name {
			return p.Column, true
		}
	}
	return Column{}, false
}

// Routine returns the registered statement of that name or else the function of
// schema, of the first configured schema if schema is empty, or an error
// wrapping ErrUnknownRoutine.
func (s *Snapshot) Routine(schema, name string) (*Routine, error) {
	if r, ok := s.byName[[2]string{"", name}]; ok {
		return r, nil
	}
	schema = s.schemaOf(schema)
	if r, ok := s.byName[[2]string{schema, name}]; ok {
		return r, nil
	}
	return nil, fmt.Errorf("%w: %q in schema %q", ErrUnknownRoutine, name, schema)
}

// Routines returns all of them in the order of the configuration.
func (s *Snapshot) Routines() []*Routine { return s.routines }
