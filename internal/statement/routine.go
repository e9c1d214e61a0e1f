package statement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/lease"
)

// The kinds of faults of a call.
const (
	UnknownParam Code = "unknown_parameter"
	MissingParam Code = "missing_parameter"
)

// buildCall returns the statements of a call: one that compares the lock key,
// rendered from the parameters, and then the call itself, which so does not even
// begin under another key. What else the routine touches, only the database sees.
func buildCall(m Mutation, claims []lease.Claim) ([]Statement, error) {
	var b builder
	key, err := routineSource(&b, m.Routine, m.Rows[0])
	if err != nil {
		return nil, err
	}
	check, err := checkKey(m, claims)
	if err != nil {
		return nil, err
	}
	if expect := m.Routine.Expect; expect >= 0 {
		m.MinAffected = max(m.MinAffected, expect)
		if m.MaxAffected < 0 || m.MaxAffected > expect {
			m.MaxAffected = expect
		}
	}
	answer(&b, m, claims, scope{pins: key})
	if m.blind(claims) {
		return []Statement{b.statement()}, nil
	}
	return []Statement{check, b.statement()}, nil
}

func checkKey(m Mutation, claims []lease.Claim) (Statement, error) {
	names, err := givenParams(m.Routine, m.Rows[0])
	if err != nil {
		return Statement{}, err
	}
	var b builder
	if len(names) > 0 {
		b.WriteString("WITH ")
		paramsSource(&b, m.Routine, names, m.Rows[0].JSON)
		b.WriteByte('\n')
	}
	condition := covered(&b, keyOf(m.Routine), claims)
	if m.Observe != nil {
		condition = m.noted(&b, condition)
	}
	fmt.Fprintf(&b, `SELECT 0::pg_catalog.int8, NULL::pg_catalog.text,
       CASE WHEN fencegate.check_rows(%s, 0, 0, NULL, NULL)
            THEN NULL::pg_catalog.int8 END,
       NULL::pg_catalog.text`, condition)
	return b.statement(), nil
}

// buildReadingCall returns the statement of a call that needs no lock: in a READ
// ONLY transaction it can't write.
func buildReadingCall(q Query) (Statement, error) {
	var b builder
	if _, err := routineSource(&b, q.Routine, q.Params); err != nil {
		return Statement{}, err
	}
	json := answered(&b, Mutation{Op: catalog.Call, Routine: q.Routine, Return: Columns{All: !q.Routine.ReturnsVoid}, MaxBytes: q.MaxBytes})
	fmt.Fprintf(&b, "\nSELECT count(*), %s, NULL::pg_catalog.int8, NULL::pg_catalog.text\n  FROM (SELECT * FROM w LIMIT %s) AS w%s", json, b.param(q.Limit), sameParams(q.Routine))
	return b.statement(), nil
}

// routineSource writes the WITH list of a call, up to and including w, whose
// rows are the routine's. It returns the lock key as the parameters render it,
// which must equal the one presented.
func routineSource(b *builder, r *catalog.Routine, params Row) (key string, err error) {
	names, err := givenParams(r, params)
	if err != nil {
		return "", err
	}
	return source(b, r, names, params.JSON), nil
}

func source(b *builder, r *catalog.Routine, names []string, params []byte) (key string) {
	openSource(b, r, names, params)
	fmt.Fprintf(b, "%s\n)", routineText(r, names, paramValue))
	return keyOf(r)
}

// keyOf is the lock key as the parameters render it.
func keyOf(r *catalog.Routine) string {
	return rendered(r, func(p catalog.Column) string {
		return "CAST(" + paramValue(p.Name) + " AS " + p.KeyType + ")"
	})
}

// givenParams names the parameters that a call gives, in the routine's order,
// so that the order in which they came does not make another statement.
func givenParams(r *catalog.Routine, params Row) ([]string, error) {
	loose := false
	for _, name := range params.Names {
		p, ok := r.Column(name)
		if !ok {
			return nil, &Fault{Code: UnknownParam, Column: name,
				Detail: fmt.Sprintf("%q has no parameter %q", r.QualifiedName(), name)}
		}
		loose = loose || looseJSON(p)
	}
	if loose {
		if err := checkMembers(params, r.Column); err != nil {
			return nil, err
		}
	}
	var names []string
	for _, p := range r.Params {
		switch {
		case slices.Contains(params.Names, p.Name):
			names = append(names, p.Name)
		case !p.Optional || slices.Contains(r.Lock.Columns, p.Name):
			return nil, &Fault{Code: MissingParam, Column: p.Name,
				Detail: fmt.Sprintf("%q needs the parameter %q", r.QualifiedName(), p.Name)}
		}
	}
	return names, nil
}

// paramsSource writes the common table expression that the parameters are read
// from.
func paramsSource(b *builder, r *catalog.Routine, names []string, params []byte) {
	list := values(r, names)
	for i, name := range names {
		list[i] += " AS " + ident(name)
	}
	fmt.Fprintf(b, "fencegate_params AS (\n  SELECT %s\n    FROM json_to_record(%s::pg_catalog.json) AS b(%s))",
		strings.Join(list, ", "), b.param(string(params)), typedList(r, names))
}

// openSource writes everything before the routine's own text. w is materialized
// so that what its rows are made of is worked out even if nothing of it is
// returned.
func openSource(b *builder, r *catalog.Routine, names []string, params []byte) {
	b.WriteString("WITH ")
	if len(names) > 0 {
		paramsSource(b, r, names, params)
		b.WriteString(",\n")
	}
	b.WriteString("w AS MATERIALIZED (\n")
}

func paramValue(name string) string { return "(SELECT " + ident(name) + " FROM fencegate_params)" }

// routineText is the routine's own statement; value gives the SQL of a
// parameter.
func routineText(r *catalog.Routine, names []string, value func(name string) string) string {
	typed := func(name string) string {
		p, _ := r.Column(name) // the configuration checked it
		return "(" + value(name) + "::" + p.Type + ")"
	}
	if r.IsStatement() {
		var b strings.Builder
		for i, piece := range r.Text {
			b.WriteString(piece)
			if i < len(r.Uses) {
				b.WriteString(typed(r.Uses[i]))
			}
		}
		return b.String()
	}
	arguments := make([]string, len(names))
	for i, name := range names {
		arguments[i] = ident(name) + " => " + typed(name)
	}
	return fmt.Sprintf("  SELECT * FROM %s.%s(%s)", ident(r.Schema), ident(r.Name), strings.Join(arguments, ", "))
}

// Trial is a statement that is only prepared, to hear what PostgreSQL thinks of
// a routine.
type Trial struct {
	SQL   string
	Bare  bool // a registered statement by itself, not as part of its call
	above int  // lines of SQL above the routine's own text
	lines int  // of the routine's own text
}

// Line returns the line of the routine's own text, from 1, that a character of
// SQL is on, counted from 1 as PostgreSQL does; 0 if it is not in that text.
func (t Trial) Line(position int) int {
	before := []rune(t.SQL)[:max(0, position-1)]
	line := 1 - t.above
	for _, r := range before {
		if r == '\n' {
			line++
		}
	}
	if position < 1 || line < 1 || line > t.lines {
		return 0
	}
	return line
}

// Trials returns what must prepare without an error before r can be called. A
// registered statement comes by itself first: a text that is one statement there
// can't break out of the one that it becomes a part of.
func Trials(r *catalog.Routine) []Trial {
	names := make([]string, len(r.Params))
	for i, p := range r.Params {
		names[i] = p.Name
	}
	var trials []Trial
	lines := 1
	if r.IsStatement() {
		text := routineText(r, names, func(name string) string { return "$" + strconv.Itoa(slices.Index(names, name)+1) })
		lines += strings.Count(text, "\n")
		trials = append(trials, Trial{SQL: text, Bare: true, lines: lines})
	}
	var opened, call builder
	openSource(&opened, r, names, nil)
	key := source(&call, r, names, nil)
	answer(&call, Mutation{Op: catalog.Call, Routine: r, Return: Columns{All: !r.ReturnsVoid}}, []lease.Claim{{}}, scope{pins: key})
	return append(trials, Trial{SQL: call.String(), above: strings.Count(opened.String(), "\n"), lines: lines})
}
