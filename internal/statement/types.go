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
	var conditions []string
	for _, name := range names {
		column, _ := t.Column(name) // checkColumns has seen it
		value := fmt.Sprintf("(NULL::%s).%s", tableName(t), ident(name))
		conditions = append(conditions, sameType(value, column))
		conditions = append(conditions, sameAttributes(value, column, nil)...)
	}
	return neverRun(conditions)
}

// sameParams is the same for the parameters of a routine, whose types are spelled
// out in its statement: it is about what these are made of.
func sameParams(r *catalog.Routine) string {
	var conditions []string
	for _, p := range r.Params {
		conditions = append(conditions, sameAttributes("(NULL::"+p.Type+")", p.Column, nil)...)
	}
	return neverRun(conditions)
}

func neverRun(conditions []string) string {
	if len(conditions) == 0 {
		return ""
	}
	return "\n WHERE CASE WHEN true THEN true ELSE " + strings.Join(conditions, "\n   AND ") + " END"
}

func sameType(value string, column catalog.Column) string {
	return fmt.Sprintf("ARRAY[%s] OPERATOR(pg_catalog.&&) NULL::%s[]", value, column.Type)
}

// sameAttributes are such conditions for the attributes of the row type that the
// value of a column is made of: what PostgreSQL has no attribute for it ignores
// (42703 instead). The name of the type is among them because a statement that
// stays prepared is parsed again after a change of a relation that it names as
// such. within are the row types around it, which a type can hold again.
func sameAttributes(value string, column catalog.Column, within []*catalog.RowType) []string {
	row := column.RowType
	if row == nil || slices.Contains(within, row) {
		return nil
	}
	within = append(slices.Clone(within), row)
	for range column.Arrays {
		value = "(" + value + ")[1]"
	}
	conditions := []string{literal(row.Relation) + "::pg_catalog.regclass IS NOT NULL"}
	for _, attribute := range row.Attributes {
		of := fmt.Sprintf("(%s).%s", value, ident(attribute.Name))
		conditions = append(conditions, sameType(of, attribute))
		conditions = append(conditions, sameAttributes(of, attribute, within)...)
	}
	return conditions
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
