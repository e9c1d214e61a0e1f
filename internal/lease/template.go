package lease

import (
	"fmt"
	"strings"
)

// Template is a lock template such as "inventory:{sku}": literal text with
// column names in braces. Literals and Columns alternate, a literal first and
// last, so len(Literals) == len(Columns)+1. The zero value is no template.
type Template struct {
	Literals []string
	Columns  []string
}

// ParseTemplate reads a lock template. "{{" and "}}" stand for single braces.
func ParseTemplate(s string) (Template, error) {
	if s == "" {
		return Template{}, malformed("a lock template is empty")
	}
	var t Template
	var literal strings.Builder
	for rest := s; rest != ""; {
		switch {
		case strings.HasPrefix(rest, "{{"), strings.HasPrefix(rest, "}}"):
			literal.WriteByte(rest[0])
			rest = rest[2:]
		case rest[0] == '{':
			name, after, closed := strings.Cut(rest[1:], "}")
			if !closed || name == "" || strings.Contains(name, "{") {
				return Template{}, malformed("lock template %q: a placeholder is {column}", s)
			}
			t.Literals = append(t.Literals, literal.String())
			t.Columns = append(t.Columns, name)
			literal.Reset()
			rest = after
		case rest[0] == '}':
			return Template{}, malformed("lock template %q: } without {; write }} for a brace", s)
		default:
			literal.WriteByte(rest[0])
			rest = rest[1:]
		}
	}
	t.Literals = append(t.Literals, literal.String())
	return t, t.checkColumns(s)
}

func (t Template) checkColumns(s string) error {
	seen := map[string]bool{}
	for _, column := range t.Columns {
		if seen[column] {
			return malformed("lock template %q names column %q twice", s, column)
		}
		seen[column] = true
	}
	return nil
}

// WholeTable reports whether one lock covers the whole table.
func (t Template) WholeTable() bool { return len(t.Columns) == 0 }

// MayRender reports whether some values of the columns could render key.
func (t Template) MayRender(key Key) bool {
	if t.WholeTable() {
		return string(key) == t.Literals[0]
	}
	first, last := t.Literals[0], t.Literals[len(t.Literals)-1]
	return len(key) >= len(first)+len(last) && strings.HasPrefix(string(key), first) && strings.HasSuffix(string(key), last)
}

// String returns the template as it is written.
func (t Template) String() string {
	escape := strings.NewReplacer("{", "{{", "}", "}}")
	var b strings.Builder
	for i, literal := range t.Literals {
		b.WriteString(escape.Replace(literal))
		if i < len(t.Columns) {
			fmt.Fprintf(&b, "{%s}", t.Columns[i])
		}
	}
	return b.String()
}
