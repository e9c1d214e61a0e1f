package statement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/internal/catalog"
)

// sameTypes is a clause that is parsed with its statement and never runs: an
// overlap of arrays, which has a meaning only between arrays of one type. So
// PostgreSQL refuses the statement (42883) once a column that it names is no
// longer of the type that the rest of its text takes it for. Without it values
// would go by way of the former type, and of a time for a column that used to be
// a date only the date would be kept.
func sameTypes(t *catalog.Table, names []string) string {
	if len(names) == 0 {
		return ""
	}
	pairs := make([]string, len(names))
	for i, name := range names {
		column, _ := t.Column(name) // checkColumns has seen it
		pairs[i] = fmt.Sprintf("ARRAY[(NULL::%s).%s] OPERATOR(pg_catalog.&&) NULL::%s[]", tableName(t), ident(name), column.Type)
	}
	return "\n WHERE CASE WHEN true THEN true ELSE " + strings.Join(pairs, "\n   AND ") + " END"
}

// columns names every column of m's table whose type its statement rests on.
func (m Mutation) columns(written []string) []string {
	names := slices.Concat(written, m.Table.Lock.Columns, filtered(m.Filters))
	slices.Sort(names)
	return slices.Compact(names)
}

func filtered(filters []Filter) (names []string) {
	for _, f := range filters {
		if f.group() {
			names = append(names, filtered(f.Parts)...)
			continue
		}
		names = append(names, f.Column)
	}
	return names
}
