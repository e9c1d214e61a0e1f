package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/fencegate/fencegate/internal/lease"
)

// AnyRows is the value of Statement.ExpectRows that expects nothing.
const AnyRows = -1

// maxExpected is the most rows that a statement may be expected to answer.
const maxExpected = 1_000_000

// Statement is a registered statement: SQL that workers call by its name. The
// zero value is invalid.
type Statement struct {
	// Name is what it is called by, case kept. No default; 1 to 63 letters
	// (a to z), digits and _, no digit first; no other statement's or
	// function's.
	Name string
	// SQL is the statement as the file has it. No default.
	SQL string
	// Text is SQL cut at its parameters. Uses names the parameter after each
	// piece of it but the last.
	Text, Uses []string
	// Params are the parameters, in the order of the file: those in Uses and no
	// others. Default none.
	Params []Param
	// Lock says which lock key a call needs; its placeholders are parameters.
	// No default.
	Lock lease.Template
	// Mode is as a table's. Default ModeEnforce.
	Mode string
	// ExpectRows is how many rows a call must answer. Default AnyRows; 0 to
	// 1000000.
	ExpectRows int
	// Place is where it is written, as in "gateway.yaml:41".
	Place string
	// Line is the line of the file that SQL begins on, if each line of SQL is
	// one of the file; 0 if not.
	Line int
}

// Param is one parameter of a registered statement.
type Param struct {
	Name string
	// Type is its type as PostgreSQL spells it, without length and precision.
	Type string
}

// statementForm is a statement as the file writes it.
type statementForm struct {
	Name       string   `yaml:"name"`
	SQL        sqlForm  `yaml:"sql"`
	Params     []Param  `yaml:"params"`
	Lock       lockForm `yaml:"lock"`
	Mode       string   `yaml:"mode"`
	ExpectRows int      `yaml:"expect_rows"`
}

// sqlForm is a statement's text and the line it begins on.
type sqlForm struct {
	text string
	line int
}

// statement reads one item of statements.
func (d *decoder) statement(n ast.Node, path string, s *Statement) {
	form := statementForm{Mode: ModeEnforce, ExpectRows: AnyRows}
	if !d.value(n, path, &form) {
		return
	}
	d.require(path, "name", "sql", "lock")
	*s = Statement{Name: form.Name, SQL: form.SQL.text, Params: form.Params, Lock: form.Lock.Template, Mode: form.Mode,
		ExpectRows: form.ExpectRows, Place: d.lineOf(path), Line: form.SQL.line}
	if _, written := d.places[path+".sql"]; !written || d.bad[path+".sql"] {
		return
	}
	var err error
	if s.Text, s.Uses, err = cutSQL(s.SQL); err != nil {
		d.reject(path+".sql", "%v", err)
	}
}

// lineOf is the place of path as messages of later show it.
func (r *report) lineOf(path string) string {
	at := r.find(path)
	return fmt.Sprintf("%s:%d", at.source, at.line)
}

func (d *decoder) sql(n ast.Node, path string, form *sqlForm) bool {
	if !d.value(n, path, &form.text) {
		return false
	}
	form.line = n.GetToken().Position.Line
	if block, ok := n.(*ast.LiteralNode); ok && block.Start.Type == token.LiteralType {
		form.line = block.Start.Position.Line + 1
	} else if strings.Contains(form.text, "\n") || ok {
		form.line = 0
	}
	return true
}

// params reads a mapping of names to types.
func (d *decoder) params(n ast.Node, path string, params *[]Param) bool {
	m, ok := n.(ast.MapNode)
	if !ok {
		return d.fail(path, "must be a mapping of names to types")
	}
	seen := map[string]int{}
	for it := m.MapRange(); it.Next(); {
		name, at := it.Key().GetToken().Value, d.at(it.Key())
		child := path + "." + name
		if !isParamName(name) {
			d.add(at, path, "a parameter's name must be "+paramNames)
			continue
		}
		if line, twice := seen[name]; twice {
			d.add(at, child, fmt.Sprintf("is written twice, first on line %d", line))
			continue
		}
		seen[name] = at.line
		d.places[child] = d.atValue(it.Value(), at)
		param := Param{Name: name}
		d.value(it.Value(), child, &param.Type)
		*params = append(*params, param)
	}
	return true
}

var (
	quotedName = regexp.MustCompile(`"[^"]*"`)
	// plainType is a type without length, precision or fields.
	plainType = regexp.MustCompile(`^[^()\[\]]*(\[\])*$`)
	cutType   = regexp.MustCompile(`(?i)^\s*interval\s+[a-z]`)
)

// typeFault says what keeps s from being the type of a parameter, as far as
// PostgreSQL needn't be asked, or nothing.
func typeFault(s string) string {
	bare := quotedName.ReplaceAllString(s, "x")
	switch {
	case strings.TrimSpace(s) == "":
		return "is empty"
	case strings.ContainsRune(s, 0):
		return "holds a NUL"
	case !plainType.MatchString(bare) || cutType.MatchString(bare):
		return fmt.Sprintf("is %q; write the type without length, precision or fields, which would cut values", s)
	}
	return ""
}

// has reports whether the statement has the parameter.
func (s *Statement) has(name string) bool {
	return slices.ContainsFunc(s.Params, func(p Param) bool { return p.Name == name })
}
