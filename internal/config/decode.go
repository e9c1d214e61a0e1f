package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// decoder fills a Config from a syntax tree. It walks the tree itself because
// yaml.Unmarshal stops at its first mistake and quotes the lines around it,
// passwords included.
type decoder struct{ *report }

// decode reads data into c. It returns false, with the reason reported, if data
// has no keys to read and so nothing more can be said about it.
func decode(data []byte, c *Config, r *report) bool {
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.addSyntax(err)
		return false
	}
	body, ok := soleDocument(file, r)
	if !ok {
		return false
	}
	if _, mapping := body.(ast.MapNode); !mapping {
		r.add(r.at(body), "", "must be a mapping of keys to values")
		return false
	}
	return (&decoder{r}).value(body, "", c)
}

// addSyntax reports text that isn't YAML.
func (r *report) addSyntax(err error) {
	at, text := place{source: r.file}, "isn't YAML"
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		text += ": " + syntax.GetMessage()
		if t := syntax.GetToken(); t != nil {
			at = r.atToken(t)
		}
	}
	r.add(at, "", text)
}

// soleDocument returns the body of the file's one document.
func soleDocument(file *ast.File, r *report) (ast.Node, bool) {
	var bodies []ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType {
			continue
		}
		bodies = append(bodies, doc.Body)
	}
	switch len(bodies) {
	case 0:
		r.add(place{source: r.file}, "", "is empty")
		return nil, false
	case 1:
		return bodies[0], true
	}
	r.add(r.at(bodies[1]), "", "a second YAML document; the configuration is one")
	return nil, false
}

// value reads n into what into points to and reports whether it could.
func (d *decoder) value(n ast.Node, path string, into any) bool {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		return d.fail(path, "anchors, aliases and tags aren't supported; write the value out")
	}
	switch p := into.(type) {
	case *Table:
		d.table(n, path, p)
		return true
	case *Statement:
		d.statement(n, path, p)
		return true
	case *Function:
		d.function(n, path, p)
		return true
	case *nameForm:
		d.name(n, path, p)
		return true
	case *lockForm:
		return d.lock(n, path, p)
	case *Name:
		d.callable(n, path, p)
		return true
	case *LockPattern:
		return d.pattern(n, path, p)
	case *Claims:
		return d.claims(n, path, p)
	case *sqlForm:
		return d.sql(n, path, p)
	case *[]Param:
		return d.params(n, path, p)
	case *time.Duration:
		return d.duration(n, path, p)
	case *ByteSize:
		return d.byteSize(n, path, p)
	}
	v := reflect.ValueOf(into).Elem()
	switch v.Kind() {
	case reflect.Struct:
		return d.mapping(n, path, v)
	case reflect.Slice:
		return d.sequence(n, path, v)
	case reflect.Int:
		return d.integer(n, path, v)
	case reflect.Float64:
		return d.number(n, path, v)
	case reflect.Bool:
		return d.boolean(n, path, v)
	default:
		return d.text(n, path, v)
	}
}

// mapping reads a mapping into a struct by its yaml tags.
func (d *decoder) mapping(n ast.Node, path string, v reflect.Value) bool {
	if n.Type() == ast.NullType && !strings.Contains(path, "[") {
		return true // a section whose keys are all commented out
	}
	m, ok := n.(ast.MapNode)
	if !ok {
		return d.fail(path, "must be a mapping of keys to values")
	}
	fields := fieldsOf(v)
	seen := map[string]int{}
	for it := m.MapRange(); it.Next(); {
		key, at := it.Key().GetToken().Value, d.at(it.Key())
		child := strings.TrimPrefix(path+"."+key, ".")
		field, known := fields[key]
		switch line, twice := seen[key]; {
		case twice:
			d.add(at, child, fmt.Sprintf("is written twice, first on line %d", line))
			continue
		case !known || it.Key().Type() != ast.StringType:
			if !isParameter(key) {
				child = path // not shown: {url=postgres://…} makes a URL a key
			}
			d.add(at, child, "unknown key; known here: "+strings.Join(keysOf(v.Type()), ", "))
			continue
		}
		seen[key] = at.line
		d.places[child] = d.atValue(it.Value(), at)
		d.value(it.Value(), child, field.Addr().Interface())
	}
	return true
}

// sequence reads a list into a slice.
func (d *decoder) sequence(n ast.Node, path string, v reflect.Value) bool {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		return d.fail(path, "must be a list")
	}
	v.Set(reflect.MakeSlice(v.Type(), len(list.Values), len(list.Values)))
	for i, item := range list.Values {
		child := fmt.Sprintf("%s[%d]", path, i)
		d.places[child] = d.at(item)
		d.value(item, child, v.Index(i).Addr().Interface())
	}
	return true
}

// fail reports a value of the wrong kind.
func (d *decoder) fail(path, text string) bool {
	d.reject(path, "%s", text)
	return false
}

// atValue is where to point for a value: at its key if it spreads over lines.
func (r *report) atValue(n ast.Node, key place) place {
	switch n.Type() {
	case ast.MappingType, ast.MappingValueType, ast.SequenceType, ast.NullType, ast.LiteralType:
		return key
	}
	return r.at(n)
}

func (r *report) at(n ast.Node) place {
	// The token of a mapping is its first colon; people look for the key.
	if m, ok := n.(ast.MapNode); ok {
		if it := m.MapRange(); it.Next() {
			return r.atToken(it.Key().GetToken())
		}
	}
	return r.atToken(n.GetToken())
}

func (r *report) atToken(t *token.Token) place {
	return place{r.file, t.Position.Line, t.Position.Column}
}

// fieldsOf returns the fields of a struct by key.
func fieldsOf(v reflect.Value) map[string]reflect.Value {
	fields := map[string]reflect.Value{}
	for i, key := range keysOf(v.Type()) {
		fields[key] = v.Field(i)
	}
	return fields
}

// keysOf returns the yaml keys of a struct, one a field, in order.
func keysOf(t reflect.Type) []string {
	keys := make([]string, t.NumField())
	for i := range keys {
		keys[i], _, _ = strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
	}
	return keys
}
