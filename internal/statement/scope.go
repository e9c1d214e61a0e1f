package statement

import (
	"fmt"
	"strings"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/lease"
)

// record is what has named and typed members under a lock template: a table's
// columns, a routine's parameters.
type record interface {
	Column(name string) (catalog.Column, bool)
	LockTemplate() lease.Template
}

// rendered is the lock template with the record's own values, as SQL text;
// NULL, and so never equal to a key, if one of them is NULL. value gives the
// SQL of a column. Keys are equal byte by byte, whatever the columns' collations
// hold for equal: otherwise two keys could open the same row.
func rendered(t record, value func(column catalog.Column) string) string {
	lock := t.LockTemplate()
	parts := []string{literal(lock.Literals[0])}
	for i, name := range lock.Columns {
		column, _ := t.Column(name) // the snapshot checked it
		parts = append(parts, keyText(column, value(column)), literal(lock.Literals[i+1]))
	}
	return "(" + strings.Join(parts, " || ") + `) COLLATE pg_catalog."C"`
}

// keyText is the one fixed way in which a value becomes part of a lock key.
func keyText(column catalog.Column, value string) string {
	if column.Kind == catalog.Date {
		return "(pg_catalog.to_jsonb(" + value + ") #>> '{}')"
	}
	return value + "::pg_catalog.text"
}

// covered is the condition that the rendered key is one of the claims'.
func covered(b *builder, rendered string, claims []lease.Claim) string {
	if len(claims) == 1 {
		return rendered + " = " + b.param(string(claims[0].Key)) + "::pg_catalog.text"
	}
	keys := make([]string, len(claims))
	for i, claim := range claims {
		keys[i] = string(claim.Key)
	}
	return rendered + " = ANY (" + b.param(arrayLiteral(keys)) + "::pg_catalog.text[])"
}

func columnOf(alias string) func(catalog.Column) string {
	return func(column catalog.Column) string { return alias + "." + ident(column.Name) }
}

// pinned is the lock template with the values that the filters pin, each cast
// to its column's type. An update or delete whose pins render another key than
// those presented is out of scope, not merely without rows.
func pinned(b *builder, m Mutation) (string, error) {
	for _, name := range m.Table.Lock.Columns {
		if _, ok := pinOf(m.Filters, name); !ok && m.Observe != nil {
			return unpinned, nil
		} else if !ok {
			return "", &Fault{
				Code: ScopeNotPinned, Column: name, Parameter: name,
				Detail: fmt.Sprintf("rows of %q are locked by %q: add the filter %s=eq.<value>", m.Table.Name, m.Table.Lock, name),
			}
		}
	}
	return rendered(m.Table, func(column catalog.Column) string { return pinValue(b, m, column) }), nil
}

func pinValue(b *builder, m Mutation, column catalog.Column) string {
	filter, _ := pinOf(m.Filters, column.Name) // pinned has seen it
	return fmt.Sprintf("CAST(%s AS %s)", b.param(filter.Values[0]), column.KeyType)
}

// pinOf finds the one form that pins a column: an eq that every row must meet,
// whatever the other filters say.
func pinOf(filters []Filter, column string) (Filter, bool) {
	for _, f := range filters {
		if f.Column == column && f.Op == Eq && !f.Not && f.Quantifier == "" && len(f.Path) == 0 {
			return f, true
		}
	}
	return Filter{}, false
}

// scope is what a statement says about the rows it names, or would make, beside
// those that it returns.
type scope struct {
	pins    string   // SQL text that must equal the key, "" if nothing is pinned
	hidden  string   // SQL text that adds the rows out of scope which were not returned, "" if there are none
	written []string // the columns that get a value
}

// answer writes what every data statement selects from its rows, the common
// table expression w: their number, their JSON, and the check of their scope.
func answer(b *builder, m Mutation, claims []lease.Claim, s scope) {
	condition, blind := "true", m.blind(claims)
	if s.pins != "" && !blind {
		condition = covered(b, s.pins, claims)
	}
	uncovered, typed := "0::pg_catalog.int8", "" // what a routine touches is its own business
	if m.Op == catalog.Call {
		typed = sameParams(m.Routine)
	} else {
		typed = sameTypes(m.Table, m.columns(s.written))
	}
	if m.Op != catalog.Call && !blind {
		uncovered = "count(*) FILTER (WHERE (" + covered(b, rendered(m.Table, columnOf("w")), claims) + ") IS NOT TRUE)"
	}
	least, most := "NULL", "NULL"
	if m.MinAffected > 0 {
		least = b.param(m.MinAffected) + "::pg_catalog.int8"
	}
	if m.MaxAffected >= 0 {
		most = b.param(m.MaxAffected) + "::pg_catalog.int8"
	}
	json := answered(b, m)
	kept := ""
	if m.Keep.Key != "" {
		kept = fmt.Sprintf("\n         AND fencegate.keep_answer(%s, %s, %s, a.affected, a.json)",
			b.param(m.Keep.Principal), b.param(m.Keep.Key), b.param(m.Keep.Operation))
	}
	fmt.Fprintf(b, `
SELECT a.affected, a.json,
       CASE WHEN %s%s
            THEN NULL::pg_catalog.int8 END,
       a.etag
  FROM (SELECT count(*) AS affected,
               %s AS json,
               %s AS uncovered,
               %s AS etag
          FROM w) AS a%s`,
		m.checkedRows(b, blind, condition, "a.uncovered"+s.hidden, least, most), kept, json, uncovered, etagOf(m.ETag), typed)
}

// etagOf is the ETag of the one row of w, which must then have all columns.
func etagOf(wanted bool) string {
	if !wanted {
		return "NULL::pg_catalog.text"
	}
	return "max(fencegate.etag(w.*))"
}

// returning names the columns that answer needs, and no others: a role may not
// be allowed to read the rest.
func returning(m Mutation) string {
	names, all := m.Return.needed()
	if all || m.ETag {
		return "t.*"
	}
	names = append(names, m.Table.Lock.Columns...)
	if m.sorted() {
		for _, term := range m.Order {
			names = append(names, term.Column)
		}
	}
	if names = unique(names); len(names) > 0 {
		return identList("t.", names)
	}
	return "1"
}

func unique(names []string) []string {
	seen := make(map[string]bool, len(names))
	kept := names[:0]
	for _, name := range names {
		if !seen[name] {
			seen[name] = true
			kept = append(kept, name)
		}
	}
	return kept
}
