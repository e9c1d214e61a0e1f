package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// ByteSize is a number of bytes. Files write it as a plain number or with one
// of the units B, KiB, MiB and GiB.
type ByteSize int64

// The units of ByteSize.
const (
	Byte ByteSize = 1
	KiB           = 1024 * Byte
	MiB           = 1024 * KiB
	GiB           = 1024 * MiB
)

// units is ordered so that the largest that divides a size comes first, and so
// that B, a suffix of the others, is tried last.
var units = []struct {
	name string
	size ByteSize
}{{"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", Byte}}

// String returns the size in the largest unit that keeps it whole.
func (b ByteSize) String() string {
	for _, u := range units {
		if b != 0 && b%u.size == 0 {
			return strconv.FormatInt(int64(b/u.size), 10) + u.name
		}
	}
	return "0B"
}

// MarshalText returns String.
func (b ByteSize) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

func parseByteSize(s string) (ByteSize, bool) {
	for _, u := range units {
		digits, found := strings.CutSuffix(s, u.name)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSuffix(digits, " "), 10, 63)
		if err != nil || n > math.MaxInt64/uint64(u.size) {
			return 0, false
		}
		return ByteSize(n) * u.size, true
	}
	return 0, false
}

func (d *decoder) byteSize(n ast.Node, path string, p *ByteSize) bool {
	if i, ok := integerOf(n); ok {
		*p = ByteSize(i)
		return true
	}
	s, _ := textOf(n)
	size, ok := parseByteSize(s)
	if !ok {
		return d.fail(path, "must be a number of bytes or a size such as 512KiB or 1MiB")
	}
	*p = size
	return true
}

func (d *decoder) duration(n ast.Node, path string, p *time.Duration) bool {
	s, _ := textOf(n)
	v, err := time.ParseDuration(s)
	if err != nil {
		return d.fail(path, "must be a duration with its unit, such as 500ms, 10s or 5m")
	}
	*p = v
	return true
}

func (d *decoder) integer(n ast.Node, path string, v reflect.Value) bool {
	i, ok := integerOf(n)
	if !ok {
		return d.fail(path, "must be a whole number")
	}
	v.SetInt(i)
	return true
}

func (d *decoder) number(n ast.Node, path string, v reflect.Value) bool {
	if i, whole := integerOf(n); whole {
		v.SetFloat(float64(i))
		return true
	}
	f, ok := n.(*ast.FloatNode)
	if !ok {
		return d.fail(path, "must be a number")
	}
	v.SetFloat(f.Value)
	return true
}

func (d *decoder) boolean(n ast.Node, path string, v reflect.Value) bool {
	b, ok := n.(*ast.BoolNode)
	if !ok {
		return d.fail(path, "must be true or false")
	}
	v.SetBool(b.Value)
	return true
}

// text never quotes the value: a password may sit under the wrong key.
func (d *decoder) text(n ast.Node, path string, v reflect.Value) bool {
	s, ok := textOf(n)
	switch {
	case ok:
		v.SetString(s)
		return true
	case n.Type() == ast.NullType:
		return d.fail(path, "has no value; leave the key out or give it one")
	}
	return d.fail(path, fmt.Sprintf("must be text, not a %s; put it in quotes if it is text", kindOf(n)))
}

func textOf(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

func integerOf(n ast.Node) (int64, bool) {
	node, ok := n.(*ast.IntegerNode)
	if !ok {
		return 0, false
	}
	switch i := node.Value.(type) {
	case int64:
		return i, true
	case uint64:
		return int64(min(i, math.MaxInt64)), true
	}
	return 0, false
}

// kindOf names a kind of value as people call it.
func kindOf(n ast.Node) string {
	switch n.Type() {
	case ast.MappingType, ast.MappingValueType:
		return "mapping"
	case ast.SequenceType:
		return "list"
	case ast.BoolType:
		return "boolean"
	}
	return "number"
}
