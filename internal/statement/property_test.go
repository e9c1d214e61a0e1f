package statement_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/statement"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestStatementsOfAnyTable(t *testing.T) {
	t.Parallel()
	conn, err := testenv.Postgres(t).Pool(t).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	rapid.Check(t, func(t *rapid.T) {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context())
		w := drawWorld(t, tx)
		m := drawMutation(t, w)
		claims := under(lease.Key(marker+"key"), lease.Key(marker+"another"), marker)[:rapid.IntRange(1, 3).Draw(t, "locks")]
		built, err := statement.Build(m, claims)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range built {
			checkText(t, s)
			checkScope(t, m, s)
		}
		checkOrderOfMembersIsNothing(t, m, claims, built)
		q, err := statement.BuildQuery(drawQuery(t, w))
		if err != nil {
			t.Fatal(err)
		}
		checkText(t, q)
		prepareOn(t, tx.Conn(), append(built, q)...)
	})
}

var (
	quotedParts  = regexp.MustCompile(`"(?:[^"]|"")*"|E?'(?:[^']|'')*'`)
	placeholders = regexp.MustCompile(`\$([0-9]+)`)
	cover        = regexp.MustCompile(`\([^\n]*\) COLLATE pg_catalog\.Q = (\$[0-9]+::pg_catalog\.text|ANY \(\$[0-9]+::pg_catalog\.text\[\]\))`)
)

// bare is the text without names and literals.
func bare(sql string) string { return quotedParts.ReplaceAllString(sql, "Q") }

// checkText: no value is in the text, and placeholders are 1 to the number of
// arguments, each there.
func checkText(t *rapid.T, s statement.Statement) {
	t.Helper()
	if strings.Contains(s.SQL, marker) {
		t.Fatalf("a value is part of the text:\n%s", s.SQL)
	}
	used := map[int]bool{}
	for _, found := range placeholders.FindAllStringSubmatch(bare(s.SQL), -1) {
		n, _ := strconv.Atoi(found[1])
		used[n] = true
	}
	for n := 1; n <= len(s.Args); n++ {
		if !used[n] {
			t.Fatalf("argument %d of %d is not used:\n%s", n, len(s.Args), s.SQL)
		}
		delete(used, n)
	}
	if len(used) > 0 {
		t.Fatalf("placeholders %v have no argument:\n%s", used, s.SQL)
	}
}

// checkScope: every write checks its rows, an insert also those that don't come
// back, and an update or delete finds only rows that the key covers.
func checkScope(t *rapid.T, m statement.Mutation, s statement.Statement) {
	t.Helper()
	text := bare(s.SQL)
	if strings.Count(text, "fencegate.check_rows(") != 1 {
		t.Fatalf("the rows are not checked:\n%s", s.SQL)
	}
	if m.Op == catalog.Insert {
		_, check, _ := strings.Cut(text, "fencegate.check_rows(")
		if m.Table.Lock.WholeTable() != cover.MatchString(strings.SplitN(check, "a.uncovered", 2)[0]) ||
			m.Table.Lock.WholeTable() == strings.Contains(check, "+ CASE WHEN a.affected < $") {
			t.Fatalf("rows that don't come back are not checked:\n%s", s.SQL)
		}
		return
	}
	_, after, _ := strings.Cut(text, "\n   WHERE ")
	conditions, answer, found := strings.Cut(after, "\n  RETURNING ")
	if !found || !cover.MatchString(conditions[strings.LastIndex(conditions, "\n     AND ")+1:]) {
		t.Fatalf("the condition %q does not hold to the lock key:\n%s", conditions, s.SQL)
	}
	if !cover.MatchString(answer) {
		t.Fatalf("the pinned key is not compared:\n%s", s.SQL)
	}
	depth := 0
	for i := range conditions {
		switch {
		case conditions[i] == '(':
			depth++
		case conditions[i] == ')':
			depth--
		case depth == 0 && strings.HasPrefix(conditions[i:], " OR "):
			t.Fatalf("a condition can be passed by:\n%s", s.SQL)
		}
		if depth < 0 {
			t.Fatalf("a group ends that did not begin:\n%s", s.SQL)
		}
	}
}

// checkOrderOfMembersIsNothing: rows that name the same columns make the same
// text, so that PostgreSQL plans it once.
func checkOrderOfMembersIsNothing(t *rapid.T, m statement.Mutation, claims []lease.Claim, built []statement.Statement) {
	t.Helper()
	other := m
	other.Rows = slices.Clone(m.Rows)
	for i := range other.Rows {
		other.Rows[i].Names = slices.Clone(other.Rows[i].Names)
		slices.Reverse(other.Rows[i].Names)
	}
	again, err := statement.Build(other, claims)
	if err != nil || len(again) != len(built) {
		t.Fatalf("%d statements, %v", len(again), err)
	}
	for i := range again {
		if again[i].SQL != built[i].SQL {
			t.Fatalf("the same columns make\n%s\nand\n%s", built[i].SQL, again[i].SQL)
		}
	}
}

func TestRowsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t).Pool(t)
	exec(t, pool, `CREATE TABLE n (a integer, b integer)`)
	table := load(t, pool, "n", "n")
	rapid.Check(t, func(t *rapid.T) {
		shapes := rapid.SliceOfN(rapid.SampledFrom([][]string{{}, {"a"}, {"b"}, {"a", "b"}, {"b", "a"}}), 1, 12).Draw(t, "shapes")
		var rows []statement.Row
		var want strings.Builder
		for i, names := range shapes {
			text := fmt.Sprintf(`{"row":%d}`, i)
			rows = append(rows, statement.Row{Names: names, JSON: []byte(text)})
			if len(names) > 0 {
				want.WriteString(text)
			}
		}
		built, err := statement.Build(statement.Mutation{Op: catalog.Insert, Table: table, Rows: rows, MaxAffected: -1}, under("n"))
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, s := range built {
			if array := s.Args[0].(string); strings.HasPrefix(array, "[") { // DEFAULT VALUES takes no rows
				got.WriteString(strings.ReplaceAll(array[1:len(array)-1], "},{", "}{"))
			}
		}
		if got.String() != want.String() {
			t.Fatalf("the rows travel as %s, not %s", got.String(), want.String())
		}
	})
}
