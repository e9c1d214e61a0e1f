package config

import (
	"github.com/goccy/go-yaml/ast"

	"github.com/fencegate/fencegate/internal/lease"
)

// Function is a function of the database that workers call by its name. The
// zero value is invalid.
type Function struct {
	// Schema is the function's schema, case kept. Default "public"; 1 to 63
	// bytes.
	Schema string
	// Name is the function's name without its schema, case kept. No default; 1
	// to 63 bytes; no registered statement's.
	Name string
	// Lock says which lock key a call needs; its placeholders are the
	// function's parameters. No default.
	Lock lease.Template
	// Mode is as a table's. Default ModeEnforce.
	Mode string
	// Place is where it is written, as in "gateway.yaml:41".
	Place string
}

// functionForm is a function as the file writes it.
type functionForm struct {
	Name nameForm `yaml:"name"`
	Lock lockForm `yaml:"lock"`
	Mode string   `yaml:"mode"`
}

// function reads one item of functions.
func (d *decoder) function(n ast.Node, path string, f *Function) {
	form := functionForm{Mode: ModeEnforce}
	if !d.value(n, path, &form) {
		return
	}
	d.require(path, "name", "lock")
	*f = Function{Schema: form.Name.Schema, Name: form.Name.Name, Lock: form.Lock.Template, Mode: form.Mode, Place: d.lineOf(path)}
}
