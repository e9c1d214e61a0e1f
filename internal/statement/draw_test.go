package statement_test

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/statement"
)

// Names as somebody will have given them.
var oddNames = []string{
	"select", "Order", "UPPER", "two words", "a.b", "a,b", `quo"te`, `"`, `""`, "it's", `back\slash`, "$1", "$2::text",
	"größe", "在庫", "e\u0301", "emoji😀", " ", "*", "t", "b", "w", "r", "--", "/*", "*/", "a;b", "{x}", "%s", "%d", "\t", "\n",
	strings.Repeat("x", 63),
}

var columnTypes = []string{
	"text", "varchar(3)", "char(3)", "integer", "bigint", "numeric(5,2)", "boolean", "date", "uuid", "timestamptz", "bytea",
	"json", "jsonb", "text[]", "int4range", "tsvector", "bit(3)", "interval", "double precision", `"char"`,
}

// Types that a lock template can hold.
var keyTypes = []string{"text", "varchar(3)", "char(3)", "smallint", "integer", "bigint", "boolean", "date", "uuid"}

// marker is in every value of these tests and in no name, so that a value that
// got into the text shows.
const marker = "v4lue:"

// world is one table and what is asked of it.
type world struct {
	table   *catalog.Table
	names   []string
	filters []statement.Filter
	secrets []string
}

func drawWorld(t *rapid.T, tx pgx.Tx) world {
	name := rapid.OneOf(
		rapid.SampledFrom(oddNames),
		rapid.StringN(1, 15, 63).Filter(func(s string) bool { return !strings.Contains(s, "\x00") }),
	)
	names := rapid.SliceOfNDistinct(name, 1, 6, rapid.ID[string]).Draw(t, "columns")
	pinned := rapid.IntRange(0, min(2, len(names))).Draw(t, "columns of the template")
	w := world{names: names}
	definitions := make([]string, len(names))
	for i, column := range names {
		types := columnTypes
		if i < pinned {
			types = keyTypes
		}
		definitions[i] = quoted(column) + " " + rapid.SampledFrom(types).Draw(t, "type")
	}
	table := name.Draw(t, "table")
	exec(t, tx, "CREATE TABLE public."+quoted(table)+" ("+join(definitions)+")")
	literal := rapid.SampledFrom([]string{"", "inventory:", "it's", `\`, `\'`, "$1", "{", "}", "%s", "é"})
	w.table = loadWith(t, tx, table, lease.Template{
		Literals: rapid.SliceOfN(literal, pinned+1, pinned+1).Draw(t, "literals"),
		Columns:  names[:pinned],
	})
	for _, column := range names[:pinned] {
		w.filters = append(w.filters, eq(column, marker+"pin"))
	}
	return w
}

func drawMutation(t *rapid.T, w world) statement.Mutation {
	m := statement.Mutation{
		Op:          rapid.SampledFrom([]catalog.Operation{catalog.Insert, catalog.Update, catalog.Delete}).Draw(t, "op"),
		Table:       w.table,
		All:         true,
		MinAffected: rapid.Int64Range(0, 2).Draw(t, "min affected"),
		MaxAffected: rapid.Int64Range(-1, 5).Draw(t, "max affected"),
		ETag:        rapid.Bool().Draw(t, "etag"),
		Return:      drawColumns(t, w),
	}
	if m.Op != catalog.Insert {
		m.Filters = append(slices.Clone(w.filters), drawFilters(t, w)...)
	}
	switch m.Op {
	case catalog.Insert:
		m.Rows = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) statement.Row { return drawRow(t, w, 0) }), 1, 4).Draw(t, "rows")
		if len(m.Rows) > 1 {
			m.MinAffected, m.MaxAffected = 0, -1
		}
	case catalog.Update:
		m.Rows = []statement.Row{drawRow(t, w, 1)}
		drawIncrement(t, w, &m)
	}
	if (m.Op != catalog.Insert || len(m.Rows) == 1) && rapid.Bool().Draw(t, "sorted") {
		m.Order = drawQuery(t, w).Order
	}
	if m.Op != catalog.Insert && rapid.Bool().Draw(t, "conditional") {
		m.IfMatch = rapid.SliceOfN(rapid.Just(marker+"etag"), 0, 2).Draw(t, "etags")
	}
	return m
}

// drawIncrement adds to one column, if one of them can be added to.
func drawIncrement(t *rapid.T, w world, m *statement.Mutation) {
	for _, name := range w.names {
		column, _ := w.table.Column(name)
		if slices.Contains(addable, column.Type) && !slices.Contains(m.Rows[0].Names, name) {
			m.Increment = &statement.Row{Names: []string{name}, JSON: []byte(`{"n":"` + marker + `"}`)}
		}
	}
}

var addable = []string{"integer", "bigint", "smallint", "numeric", "double precision", "interval"}

func drawRow(t *rapid.T, w world, least int) statement.Row {
	names := rapid.SliceOfNDistinct(rapid.SampledFrom(w.names), least, len(w.names), rapid.ID[string]).Draw(t, "members")
	members := map[string]string{}
	for _, name := range names {
		members[name] = marker + rapid.String().Draw(t, "value")
	}
	raw, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return statement.Row{Names: names, JSON: raw}
}

func drawColumns(t *rapid.T, w world) statement.Columns {
	names := rapid.SliceOfNDistinct(rapid.SampledFrom(w.names), 1, len(w.names), rapid.ID[string])
	switch rapid.IntRange(0, 3).Draw(t, "return") {
	case 0:
		return statement.Columns{}
	case 1:
		return statement.Columns{All: true}
	case 2:
		return statement.Columns{Names: names.Draw(t, "select")}
	}
	var outputs []statement.Output
	for _, name := range names.Draw(t, "select") {
		column, _ := w.table.Column(name)
		outputs = append(outputs, statement.Output{
			Column: name, Path: drawPath(t, column.Type), Alias: marker + name, Cast: rapid.SampledFrom([]string{"", "text", "varchar"}).Draw(t, "cast"),
		})
	}
	if rapid.Bool().Draw(t, "star") {
		outputs = append(outputs, statement.Output{Star: true})
	}
	return statement.Columns{Outputs: outputs}
}

func drawPath(t *rapid.T, typ string) (path statement.Path) {
	if !strings.HasPrefix(typ, "json") {
		return nil
	}
	for range rapid.IntRange(0, 3).Draw(t, "arrows") {
		path = append(path, statement.Step{Key: marker, Index: rapid.Bool().Draw(t, "index")})
	}
	if len(path) > 0 {
		path[len(path)-1].Text = rapid.Bool().Draw(t, "as text")
	}
	return path
}

func drawFilters(t *rapid.T, w world) []statement.Filter {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) statement.Filter { return drawFilter(t, w, 3) }), 0, 4).Draw(t, "filters")
}

func drawFilter(t *rapid.T, w world, depth int) statement.Filter {
	if depth > 0 && rapid.IntRange(0, 3).Draw(t, "group") == 0 {
		parts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) statement.Filter { return drawFilter(t, w, depth-1) }), 1, 3)
		f := group(rapid.SampledFrom([]statement.FilterOp{statement.And, statement.Or}).Draw(t, "join"), parts.Draw(t, "parts")...)
		f.Not = rapid.Bool().Draw(t, "not")
		return f
	}
	f := statement.Filter{
		Column: rapid.SampledFrom(w.names).Draw(t, "column"),
		Not:    rapid.Bool().Draw(t, "not"),
		Values: []string{marker + `f%*"{,\`},
	}
	column, _ := w.table.Column(f.Column)
	f.Path = drawPath(t, column.Type)
	typ := column.Type
	if last := len(f.Path) - 1; last >= 0 {
		typ = "jsonb"
		if f.Path[last].Text {
			typ = "text"
		}
	}
	f.Op = rapid.SampledFrom(operatorsOf(typ)).Draw(t, "operator")
	switch {
	case f.Op == statement.Is:
		f.Values = []string{rapid.SampledFrom([]string{"null", "not_null"}).Draw(t, "is")}
	case f.Op == statement.In:
		f.Values = rapid.SliceOfN(rapid.Just(marker+`"in,\`), 0, 3).Draw(t, "list")
	case statement.IsSearch(f.Op):
		f.Config = rapid.SampledFrom([]string{"", marker}).Draw(t, "config")
	case statement.Quantifiable(f.Op) && !strings.HasSuffix(column.Type, "[]"):
		f.Quantifier = rapid.SampledFrom([]statement.Quantifier{"", statement.Any, statement.All}).Draw(t, "quantifier")
	}
	return f
}

// operatorsOf names the operators that PostgreSQL has for a type.
func operatorsOf(typ string) []statement.FilterOp {
	ops := []statement.FilterOp{"is", "isdistinct", "eq", "neq", "gt", "gte", "lt", "lte"}
	switch typ {
	case "json":
		return []statement.FilterOp{"is", "fts"}
	case "text", "character varying", "character":
		ops = append(ops, "in", "like", "ilike", "match", "imatch", "fts", "plfts", "phfts", "wfts")
	case "jsonb":
		ops = append(ops, "in", "cs", "cd", "fts")
	case "text[]":
		ops = append(ops, "cs", "cd", "ov")
	case "int4range":
		ops = append(ops, "in", "cs", "cd", "ov", "sl", "sr", "nxr", "nxl", "adj")
	case "tsvector":
		ops = append(ops, "in", "fts", "plfts", "phfts", "wfts")
	default:
		ops = append(ops, "in")
	}
	return ops
}

func drawQuery(t *rapid.T, w world) statement.Query {
	columns := drawColumns(t, w)
	columns.All = len(columns.Names)+len(columns.Outputs) == 0
	sortable := slices.DeleteFunc(slices.Clone(w.names), func(name string) bool {
		column, _ := w.table.Column(name)
		return column.Type == "json"
	})
	order := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) statement.OrderTerm {
		name := rapid.SampledFrom(sortable).Draw(t, "column")
		column, _ := w.table.Column(name)
		return statement.OrderTerm{
			Column: name,
			Path:   drawPath(t, column.Type),
			Desc:   rapid.Bool().Draw(t, "desc"),
			Nulls:  rapid.SampledFrom([]string{"", "first", "last"}).Draw(t, "nulls"),
		}
	}), 0, min(3, len(sortable))).Draw(t, "order")
	return statement.Query{
		Table: w.table, Columns: columns, Filters: append(slices.Clone(w.filters), drawFilters(t, w)...), Order: order,
		Limit: 7, Offset: 3, Total: rapid.Bool().Draw(t, "total"),
	}
}
