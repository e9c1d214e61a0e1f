package statement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/lease"
)

// A table with a fence column keeps in each row the token that it was last
// written under: its owners fenced it by hand before, or still do elsewhere.
// Every write stamps it, and a row with a higher token than the write's is not
// touched.

// tokenOf is the token of the claim whose key is rendered, as SQL text; NULL if
// there is none.
func tokenOf(b *builder, rendered string, claims []lease.Claim) string {
	if len(claims) == 1 {
		return b.param(int64(claims[0].Token)) + "::pg_catalog.int8"
	}
	keys, tokens := make([]string, len(claims)), make([]string, len(claims))
	for i, claim := range claims {
		keys[i], tokens[i] = string(claim.Key), claim.Token.String()
	}
	return fmt.Sprintf("(%s::pg_catalog.int8[])[array_position(%s::pg_catalog.text[], %s)]",
		b.param(arrayLiteral(tokens)), b.param(arrayLiteral(keys)), rendered)
}

// notStale is the condition, raising FG010, that the row t was not written under
// a higher token.
func notStale(b *builder, m Mutation, claims []lease.Claim) string {
	t := m.Table
	key := rendered(t, columnOf("t"))
	if m.Observe != nil {
		return fmt.Sprintf("fencegate.note_row_token(t.%s, %s, %s, %s)",
			ident(t.FenceColumn), tokenOf(b, key, claims), key, b.param(int32(m.Observe.Operation)))
	}
	return fmt.Sprintf("fencegate.check_row_token(t.%s, %s, %s)", ident(t.FenceColumn), tokenOf(b, key, claims), key)
}

// onlyThen evaluates then for rows that meet the conditions, and no others: the
// order of conditions that AND joins is PostgreSQL's to choose.
func onlyThen(conditions []string, then string) string {
	return "CASE WHEN " + strings.Join(conditions, " AND ") + " THEN " + then + " ELSE false END"
}

// stamp is the token that a row is to have once it is written. Its lock columns
// have the values that written gives, or else keep what t has.
func stamp(b *builder, m Mutation, written map[string]string, claims []lease.Claim) string {
	token := tokenOf
	if m.Observe != nil {
		token = passedToken
	}
	return token(b, rendered(m.Table, func(column catalog.Column) string {
		if value, ok := written[column.Name]; ok {
			return value
		}
		return "t." + ident(column.Name)
	}), claims)
}

// stampUpdate is stamp for rows that are there: what is let through only because it
// is observed leaves their token as it is.
func stampUpdate(b *builder, m Mutation, written map[string]string, claims []lease.Claim) string {
	token := stamp(b, m, written, claims)
	if m.Observe != nil {
		return fmt.Sprintf("greatest(t.%s, %s)", ident(m.Table.FenceColumn), token)
	}
	return token
}

// stampInsert is the same for new rows, whose lock columns must be written out
// if there are several keys that they could be under.
// A row that is let through only because it is observed gets 0.
func stampInsert(b *builder, m Mutation, names []string, claims []lease.Claim) (string, error) {
	t, written := m.Table, map[string]string{}
	for i, value := range values(t, names) {
		written[names[i]] = value
	}
	for _, name := range t.Lock.Columns {
		if _, ok := written[name]; !ok && len(claims) > 1 {
			if m.Observe != nil {
				return "0", nil
			}
			return "", &Fault{Code: ScopeNotPinned, Column: name,
				Detail: fmt.Sprintf("under several locks a row of %q must have %q: it says which token is the row's", t.Name, name)}
		}
	}
	if m.Observe != nil {
		return "coalesce(" + stamp(b, m, written, claims) + ", 0)", nil
	}
	return stamp(b, m, written, claims), nil
}

// checkStamp keeps the fence column out of what a request may write.
func checkStamp(t *catalog.Table, names []string) error {
	if t.FenceColumn == "" || !slices.Contains(names, t.FenceColumn) || !t.Shows(t.FenceColumn) {
		return nil
	}
	return &Fault{Code: FenceColumn, Column: t.FenceColumn,
		Detail: fmt.Sprintf("%q is the fence column of %q: the gateway sets it to the token of the write", t.FenceColumn, t.Name)}
}

// Highest returns the queries for the highest token that rows under key have in
// a fence column, one for each such table that key can be of. Each answers one
// row of one bigint, 0 if there is none.
func Highest(tables *catalog.Snapshot, key lease.Key) []Statement {
	var statements []Statement
	for _, t := range tables.Fenced() {
		if !t.Lock.MayRender(key) {
			continue
		}
		var b builder
		fmt.Fprintf(&b, "SELECT coalesce(max(t.%s), 0)\n  FROM %s AS t\n WHERE %s = %s::pg_catalog.text",
			ident(t.FenceColumn), tableName(t), rendered(t, columnOf("t")), b.param(string(key)))
		if value, ok := onlyValue(t, key); ok {
			column, _ := t.Column(t.Lock.Columns[0])
			fmt.Fprintf(&b, "\n   AND t.%s = CAST(%s AS %s)", ident(column.Name), b.param(value), column.KeyType)
		}
		statements = append(statements, b.statement())
	}
	return statements
}

// onlyValue is what the one column of t's template has in rows under key, for
// types in which any text can be read or this one has been: with it an index on
// the column serves.
func onlyValue(t *catalog.Table, key lease.Key) (string, bool) {
	if len(t.Lock.Columns) != 1 {
		return "", false
	}
	value := strings.TrimSuffix(strings.TrimPrefix(string(key), t.Lock.Literals[0]), t.Lock.Literals[1])
	column, _ := t.Column(t.Lock.Columns[0])
	switch column.KeyType {
	case "text", "character varying":
		return value, true
	case "bigint", "integer", "smallint":
		n, err := strconv.ParseInt(value, 10, bits[column.KeyType])
		return strconv.FormatInt(n, 10), err == nil
	}
	return "", false
}

var bits = map[string]int{"bigint": 64, "integer": 32, "smallint": 16}
