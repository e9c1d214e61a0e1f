package statement

import (
	"strings"

	"github.com/fencegate/fencegate/internal/catalog"
)

// ident quotes an identifier. Only names that the catalog knows come here.
func ident(name string) string {
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

func tableName(t *catalog.Table) string { return ident(t.Schema) + "." + ident(t.Name) }

// literal quotes configuration text, right under either setting of
// standard_conforming_strings.
func literal(s string) string {
	quoted := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		return "E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

// identList quotes names, each behind prefix, separated by commas.
func identList(prefix string, names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = prefix + ident(name)
	}
	return strings.Join(quoted, ", ")
}

// arrayLiteral writes values as one PostgreSQL array literal, so that a list of
// any length is one parameter and one statement text.
func arrayLiteral(values []string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	var b strings.Builder
	b.WriteByte('{')
	for i, value := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		escape.WriteString(&b, value)
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}
