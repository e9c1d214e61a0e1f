package config

import (
	"slices"
	"strings"
	"unicode"

	"github.com/fencegate/fencegate/internal/lease"
	"github.com/goccy/go-yaml/ast"
)

// The operations a table may allow.
const (
	Select = "select"
	Insert = "insert"
	Update = "update"
	Delete = "delete"
)

// The modes of a table, statement or function.
const (
	ModeEnforce = "enforce" // what the fence refuses is not written
	ModeObserve = "observe" // it is written, and recorded
)

// maxName is the longest name PostgreSQL keeps, in bytes; it cuts longer ones
// off silently, which would make two tables one.
const maxName = 63

// defaultSchema is the schema of a table whose name has none.
const defaultSchema = "public"

// Table is one table served. The zero value is invalid.
type Table struct {
	// Schema is the table's schema, case kept. Default "public"; 1 to 63 bytes.
	Schema string
	// Name is the table's name without its schema, case kept. No default; 1 to
	// 63 bytes.
	Name string
	// Lock says which lock key protects a row. No default.
	Lock lease.Template
	// Operations are the operations allowed, in the order of the constants.
	// Default: all four; 1 to 4.
	Operations []string
	// Mode says what becomes of a write that the fence refuses. Default ModeEnforce.
	Mode string
	// FenceColumn is the column that keeps the token of a row's last write, case
	// kept. Default "", none; 1 to 63 bytes, none of Lock's.
	FenceColumn string
	// RecordPayload keeps with a refusal the values that it was to write. Default
	// false: their hash alone.
	RecordPayload bool
	// Redact are columns whose values are not kept with it. Default none; each
	// once, and only with RecordPayload.
	Redact []string
	// Place is where it is written, as in "gateway.yaml:27".
	Place string
}

// lockForm is a lock template as the file writes it.
type lockForm struct{ lease.Template }

// Allows reports whether the table may be used for operation.
func (t Table) Allows(operation string) bool {
	return slices.Contains(t.Operations, operation)
}

// operations lists every operation in its canonical order.
func operations() []string { return []string{Select, Insert, Update, Delete} }

// tableForm is a table as the file writes it.
type tableForm struct {
	Name       nameForm `yaml:"name"`
	Lock       lockForm `yaml:"lock"`
	Mode       string   `yaml:"mode"`
	Operations []string `yaml:"operations,flow"`
	Fence      string   `yaml:"fence_column"`
	Record     bool     `yaml:"record_payload"`
	Redact     []string `yaml:"redact,flow"`
}

// nameForm is the name of a table or function as the file writes it when the plain
// "schema.name" can't carry it.
type nameForm struct {
	Schema string `yaml:"schema"`
	Name   string `yaml:"name"`
}

// table reads one item of tables.
func (d *decoder) table(n ast.Node, path string, t *Table) {
	form := tableForm{Mode: ModeEnforce}
	if !d.value(n, path, &form) {
		return
	}
	d.require(path, "name", "lock")
	t.Schema, t.Name = form.Name.Schema, form.Name.Name
	t.Lock, t.Operations, t.FenceColumn = form.Lock.Template, form.Operations, form.Fence
	t.Mode, t.RecordPayload, t.Redact = form.Mode, form.Record, form.Redact
	t.Place = d.lineOf(path)
	if _, written := d.places[path+".operations"]; !written {
		t.Operations = operations()
	}
}

func (d *decoder) lock(n ast.Node, path string, form *lockForm) bool {
	var text string
	if !d.value(n, path, &text) {
		return false
	}
	var err error
	if form.Template, err = lease.ParseTemplate(text); err != nil {
		d.reject(path, "%v", err)
	}
	return err == nil
}

// name reads the name of a table or function, plain or as a mapping.
func (d *decoder) name(n ast.Node, path string, name *nameForm) {
	if _, mapping := n.(ast.MapNode); mapping {
		type plain nameForm
		form := plain{Schema: defaultSchema}
		if d.value(n, path, &form) {
			d.require(path, "name")
		}
		*name = nameForm(form)
		return
	}
	var text string
	if !d.value(n, path, &text) {
		return
	}
	schema, table, qualified := strings.Cut(text, ".")
	if !qualified {
		schema, table = defaultSchema, text
	}
	if !isPlainName(schema) || !isPlainName(table) {
		d.reject(path, "%q isn't a plain name or schema.name; write any other name as {schema: …, name: …}", text)
		return
	}
	*name = nameForm{Schema: schema, Name: table}
}

// require reports the keys that the mapping at path lacks.
func (d *decoder) require(path string, keys ...string) {
	for _, key := range keys {
		child := path + "." + key
		if _, written := d.places[child]; !written {
			d.reject(child, "is missing")
		}
	}
}

// isPlainName reports whether "schema.name" can carry s: letters, digits, _ and
// $, with no digit or $ in front.
func isPlainName(s string) bool {
	for i, r := range s {
		first := r == '_' || unicode.IsLetter(r)
		if !first && (i == 0 || r != '$' && !unicode.IsDigit(r)) {
			return false
		}
	}
	return s != ""
}

// nameFault says what keeps s from being a name of PostgreSQL, or nothing.
func nameFault(s string) string {
	switch {
	case s == "":
		return "is empty"
	case len(s) > maxName:
		return "is longer than 63 bytes, the most PostgreSQL keeps of a name"
	case strings.ContainsRune(s, 0):
		return "holds a NUL"
	}
	return ""
}
