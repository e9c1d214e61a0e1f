package config

import (
	"fmt"
	"slices"
	"strings"
)

// checkRoutines checks the statements and functions, which share their names: a
// statement is called by its own under every schema.
func (c *Config) checkRoutines(r *report) {
	statements := map[string]string{}
	for i := range c.Statements {
		s, path := &c.Statements[i], fmt.Sprintf("statements[%d]", i)
		if r.bad[path] {
			continue
		}
		s.checkText(path, r)
		checkMode(s.Mode, path, r)
		if _, written := r.places[path+".expect_rows"]; written && (s.ExpectRows < 0 || s.ExpectRows > maxExpected) {
			r.reject(path+".expect_rows", "is %d; must be 0 to %d", s.ExpectRows, maxExpected)
		}
		switch first, twice := statements[s.Name]; {
		case r.bad[path+".name"]:
		case !isParamName(s.Name):
			r.reject(path+".name", "is %q; must be %s", s.Name, paramNames)
		case twice:
			r.reject(path+".name", "%s is the name of %s already", s.Name, first)
		default:
			statements[s.Name] = path
		}
	}
	c.checkFunctions(statements, r)
}

func (c *Config) checkFunctions(statements map[string]string, r *report) {
	functions := map[[2]string]int{}
	for i, f := range c.Functions {
		path := fmt.Sprintf("functions[%d].name", i)
		checkMode(f.Mode, strings.TrimSuffix(path, ".name"), r)
		if !checkName(f.Schema, f.Name, "function", path, r) {
			continue
		}
		name := [2]string{f.Schema, f.Name}
		if j, twice := functions[name]; twice {
			r.reject(path, "%s.%s is functions[%d] already", f.Schema, f.Name, j)
		} else if statement, taken := statements[f.Name]; taken {
			r.reject(path, "%s is the name of %s already", f.Name, statement)
		}
		functions[name] = i
	}
}

// checkText checks that the statement, its parameters and its lock fit together.
func (s *Statement) checkText(path string, r *report) {
	for _, p := range s.Params {
		child := path + ".params." + p.Name
		if fault := typeFault(p.Type); fault != "" {
			r.reject(child, "%s", fault)
		}
		if !r.bad[path+".sql"] && !slices.Contains(s.Uses, p.Name) {
			r.reject(child, "is not used in sql")
		}
	}
	if r.bad[path+".params"] {
		return
	}
	for _, name := range s.Uses {
		if !s.has(name) {
			r.reject(path+".sql", "uses :%s, which params does not have; write a colon that begins no parameter with a space behind it", name)
		}
	}
	for _, name := range s.Lock.Columns {
		if !s.has(name) {
			r.reject(path+".lock", "lock template %q: there is no parameter %q", s.Lock, name)
		}
	}
}
