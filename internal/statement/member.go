package statement

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fencegate/fencegate/internal/catalog"
)

// looseJSON reports whether PostgreSQL takes JSON for a column's type of which it
// then ignores a part, or which it can't read again.
func looseJSON(c catalog.Column) bool { return c.RowType != nil || isVector(c) }

// isVector finds the types that are arrays from 0 on: PostgreSQL makes one from 1
// on of a JSON array, and can't read one that it made of an empty array.
func isVector(c catalog.Column) bool { return c.KeyType == "int2vector" || c.KeyType == "oidvector" }

// memberWalk goes through a row's JSON, which has been decoded before.
type memberWalk struct {
	*jsontext.Decoder
	at     string // Row.At
	column string // that it is in
}

// checkMembers returns a *Fault for the first member in the values of row that
// its composite type has no attribute for, which PostgreSQL ignores, and for a
// JSON array in place of a vector.
func checkMembers(row Row, columns func(string) (catalog.Column, bool)) error {
	w := memberWalk{Decoder: jsontext.NewDecoder(bytes.NewBuffer(row.JSON)), at: row.At}
	return w.each('}', func() error {
		name, err := w.ReadToken()
		if err != nil {
			return err
		}
		w.column = name.String()
		column, _ := columns(w.column) // the caller has seen it
		return w.value(column)
	})
}

// each reads an object or array to its end.
func (w *memberWalk) each(end jsontext.Kind, item func() error) error {
	_, err := w.ReadToken()
	for err == nil && w.PeekKind() != end {
		err = item()
	}
	if err == nil {
		_, err = w.ReadToken()
	}
	return err
}

func (w *memberWalk) value(column catalog.Column) error {
	switch kind := w.PeekKind(); {
	case kind == '[' && isVector(column):
		return w.fault(NotALiteral, "%s in %q takes no JSON array; give PostgreSQL's own literal in a string", column.Type, w.column)
	case kind == '[' && column.RowType != nil:
		return w.each(']', func() error { return w.value(column) })
	case kind == '{' && column.RowType != nil:
		return w.each('}', func() error { return w.attribute(column.RowType) })
	}
	return w.SkipValue()
}

func (w *memberWalk) attribute(of *catalog.RowType) error {
	name, err := w.ReadToken()
	if err != nil {
		return err
	}
	column, ok := of.Column(name.String())
	if !ok {
		return w.fault(UnknownColumn, "the type %s in %q has no attribute %q", of.Name, w.column, name.String())
	}
	return w.value(column)
}

func (w *memberWalk) fault(code Code, format string, args ...any) error {
	return &Fault{Code: code, Column: w.column, Pointer: w.at + string(w.StackPointer()), Detail: fmt.Sprintf(format, args...)}
}
