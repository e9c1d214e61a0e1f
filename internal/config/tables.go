package config

import (
	"fmt"
	"slices"
	"strings"
)

func (c *Config) checkTables(r *report) {
	if len(c.Tables) == 0 {
		r.reject("tables", "at least one table is needed")
	}
	first := map[[2]string]int{}
	for i := range c.Tables {
		t, path := &c.Tables[i], fmt.Sprintf("tables[%d]", i)
		t.checkOperations(path+".operations", r)
		checkMode(t.Mode, path, r)
		t.checkFenceColumn(path+".fence_column", r)
		t.checkRedact(path+".redact", r)
		if !checkName(t.Schema, t.Name, "table", path+".name", r) {
			continue
		}
		name := [2]string{t.Schema, t.Name}
		if j, twice := first[name]; twice {
			r.reject(path+".name", "%s.%s is tables[%d] already", t.Schema, t.Name, j)
			continue
		}
		first[name] = i
	}
}

// checkMode checks the mode of the table, statement or function at path.
func checkMode(mode, path string, r *report) {
	if mode != ModeEnforce && mode != ModeObserve && !r.bad[path] && !r.bad[path+".mode"] {
		r.reject(path+".mode", "is %q; allowed are %s, %s", mode, ModeEnforce, ModeObserve)
	}
}

// checkName reports whether a table or function has a name to compare with
// others.
func checkName(schema, name, what, path string, r *report) bool {
	for _, p := range []string{path, path + ".schema", path + ".name"} {
		if r.bad[p] {
			return false
		}
	}
	if r.bad[strings.TrimSuffix(path, ".name")] {
		return false
	}
	if fault := nameFault(schema); fault != "" {
		r.reject(path, "the schema %s", fault)
		return false
	}
	if fault := nameFault(name); fault != "" {
		r.reject(path, "the %s's name %s", what, fault)
		return false
	}
	return true
}

func (t *Table) checkFenceColumn(path string, r *report) {
	if _, written := r.places[path]; !written || r.bad[path] {
		return
	}
	if fault := nameFault(t.FenceColumn); fault != "" {
		r.reject(path, "the column's name %s", fault)
	} else if slices.Contains(t.Lock.Columns, t.FenceColumn) {
		r.reject(path, "%s is part of the lock template: it changes with every write", t.FenceColumn)
	}
}

func (t *Table) checkRedact(path string, r *report) {
	if len(t.Redact) > 0 && !t.RecordPayload {
		r.reject(path, "says what to leave out of what is not recorded; set record_payload, or leave it out")
	}
	for i, column := range t.Redact {
		item := fmt.Sprintf("%s[%d]", path, i)
		if fault := nameFault(column); fault != "" {
			r.reject(item, "the column's name %s", fault)
		} else if slices.Contains(t.Redact[:i], column) {
			r.reject(item, "%s is listed twice", column)
		}
	}
}

// checkOperations also puts the operations into their canonical order.
func (t *Table) checkOperations(path string, r *report) {
	if r.bad[path] || r.bad[strings.TrimSuffix(path, ".operations")] {
		return
	}
	if len(t.Operations) == 0 {
		r.reject(path, "allows nothing; leave the key out to allow all four")
	}
	for i, op := range t.Operations {
		item := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case !slices.Contains(operations(), op):
			r.reject(item, "is %q; allowed are %s", op, strings.Join(operations(), ", "))
		case slices.Contains(t.Operations[:i], op):
			r.reject(item, "%s is listed twice", op)
		}
	}
	slices.SortFunc(t.Operations, func(a, b string) int {
		return slices.Index(operations(), a) - slices.Index(operations(), b)
	})
}

func (c *Config) checkSchemas(r *report) {
	if _, written := r.places["schemas"]; !written || r.bad["schemas"] {
		return
	}
	if len(c.Schemas) == 0 {
		r.reject("schemas", "is empty; leave the key out to use the schemas of the tables and functions")
		return
	}
	for i, schema := range c.Schemas {
		path := fmt.Sprintf("schemas[%d]", i)
		if fault := nameFault(schema); fault != "" {
			r.reject(path, "%s", fault)
		} else if slices.Contains(c.Schemas[:i], schema) {
			r.reject(path, "%s is listed twice", schema)
		}
	}
	c.checkReach(r)
}

// checkReach reports tables and functions that no request could name.
func (c *Config) checkReach(r *report) {
	reach := func(path, schema string) {
		if schema != "" && !slices.Contains(c.Schemas, schema) {
			r.reject(path, "the schema %s isn't listed in schemas", schema)
		}
	}
	for i, t := range c.Tables {
		reach(fmt.Sprintf("tables[%d].name", i), t.Schema)
	}
	for i, f := range c.Functions {
		reach(fmt.Sprintf("functions[%d].name", i), f.Schema)
	}
}
