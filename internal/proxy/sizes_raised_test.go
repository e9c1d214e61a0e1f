package proxy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

const raisedLimits = `limits: {max_rows: 1000000, max_body_bytes: 1GiB, max_answer_bytes: 32MiB, max_filters: 10000, request_timeout: 60s}
`

// Limits raised as far as they go: what they let through works, and what can't
// is refused for what it is.
func TestRaisedLimits(t *testing.T) {
	t.Parallel()
	s := startSizes(t, raisedLimits, time.Minute)
	pool := s.Database.Pool(t)
	digits := strings.Repeat("9", 10_000_000)
	w := watch(t, s.Gateway)
	invalid := want{status: 422, slug: "invalid_value"}

	for name, c := range map[string]struct {
		request testenv.Request
		want    want
	}{
		"ANumberOf10MB":    {s.post("sizes", `{"num":`+digits+`}`), invalid},
		"ATextOf10MB":      {s.post("sizes", `{"num":"`+digits+`."}`), invalid},
		"NULAtTheEndOf6MB": {s.post("sizes", `[`+list(500_000, `{"a":%d}`)+`,{"note":"\u0000"}]`), want{status: 400, slug: "malformed_json", pointer: "/500000/note"}},
		"300GroupsDeep":    {s.transact(`{"op":"delete","table":"days","where":{"id":"eq.K","or":"` + strings.Repeat("(or", 300) + "(day.eq.1)" + strings.Repeat(")", 300) + `"}}`), want{status: 400, slug: "malformed_query"}},
		"5000Outputs":      {testenv.Request{Path: "/rest/sizes?select=" + list(5000, "%d:a")}, want{status: 400, slug: "malformed_query", parameter: "select"}},
		"90kParameters":    {s.transact(`{"op":"delete","table":"sizes","where":{"id":"eq.K","or":"(` + list(3000, "doc"+strings.Repeat("->k", 30)+".eq.%d") + `)"}}`), want{status: 422, slug: "too_large"}},
		"100kUnevenRows":   {s.post("sizes", uneven(100_000, "")), want{status: 422, slug: "mixed_rows"}},
		"2001UnevenRows":   {s.post("sizes", uneven(2001, "")), want{status: 422, slug: "mixed_rows"}},
		"UnevenOperations": {s.transact(repeated(100, `{"op":"insert","table":"sizes","rows":`+uneven(30, "")+`}`)...), want{status: 422, slug: "mixed_rows", pointer: "/operations/66"}},
		"100WideAnswers":   {s.transact(repeated(100, `{"op":"update","table":"wide","where":{"id":"eq.K"},"set":{"n":1},"returning":["*"]}`)...), want{status: 413, slug: "answer_too_large", pointer: "/operations/33"}},
	} {
		t.Run(name, func(t *testing.T) {
			s.refuses(t, c.request, c.want)
			w.unchanged(t)
		})
	}

	rows := func(condition string) int {
		return scalar[int](t, pool, `SELECT count(*) FROM shop.sizes WHERE `+condition)
	}

	t.Run("ATextOf10MBIsStoredWhole", func(t *testing.T) {
		s.succeeds(t, s.post("sizes", `{"note":"`+digits+`"}`))
		if n := rows(`note = repeat('9', 10000000)`); n != 1 {
			t.Errorf("%d rows", n)
		}
	})

	t.Run("ANumberOf100kDigitsIsStoredWhole", func(t *testing.T) {
		number := strings.Repeat("123456789", 11_111) + "." + strings.Repeat("987654321", 1000)
		s.succeeds(t, s.post("sizes", `{"num":`+number+`}`))
		if n := rows(`num::text = '` + number + `'`); n != 1 {
			t.Errorf("%d rows", n)
		}
	})

	t.Run("100kRowsAreThereOnce", func(t *testing.T) {
		q := s.post("sizes?select=a,b", array(100_000, `{"a":%d,"note":"bulk"}`), "Prefer", "return=representation", "Idempotency-Key", "bulk")
		for attempt := range 2 {
			answer := s.succeeds(t, q)
			if answer.Body != array(100_000, `{"a":%d,"b":7}`) || (answer.Header.Get("Idempotency-Replayed") != "") != (attempt > 0) {
				t.Errorf("%v, %d bytes", answer.Header, len(answer.Body))
			}
		}
		got := scalar[string](t, pool, `SELECT format('%s %s %s %s', count(*), count(DISTINCT a), min(a), max(a)) FROM shop.sizes WHERE note = 'bulk'`)
		if got != "100000 100000 0 99999" {
			t.Error(got)
		}
	})

	t.Run("50kRowsAreMerged", func(t *testing.T) {
		for i, merged := range []string{"first", "second"} {
			s.succeeds(t, s.post("days", array(50_000, `{"day":%d,"note":"`+merged+`"}`), "Prefer", "resolution=merge-duplicates"))
			if i == 0 {
				exec(t, s.Gateway, `DELETE FROM shop.days WHERE day < 10000`)
			}
		}
		if got := scalar[string](t, pool, `SELECT format('%s %s', count(*), string_agg(DISTINCT note, ' ')) FROM shop.days`); got != "50000 second" {
			t.Error(got)
		}
		answer := s.succeeds(t, s.post("days?select=day", array(50_001, `{"id":"K","day":%d,"note":"third"}`), "Prefer", "resolution=ignore-duplicates,return=representation"))
		if answer.Body != `[{"day":50000}]` {
			t.Errorf("%.100s", answer.Body)
		}
	})

	t.Run("20kValuesInAList", func(t *testing.T) {
		answer := s.succeeds(t, s.transact(`{"op":"delete","table":"days","where":{"id":"eq.K","day":"in.(`+list(20_000, "%d")+`)"}}`))
		if left := scalar[int](t, pool, `SELECT min(day) FROM shop.days`); left != 20_000 {
			t.Errorf("%.100s, from %d on", answer.Body, left)
		}
	})

	t.Run("100OperationsOf1000Rows", func(t *testing.T) {
		operations := make([]string, 100)
		for i := range operations {
			operations[i] = fmt.Sprintf(`{"op":"insert","table":"sizes","rows":%s}`, array(1000, `{"a":%d,"note":"operation `+fmt.Sprint(i)+`"}`))
		}
		s.succeeds(t, s.transact(operations...))
		if n := scalar[int](t, pool, `SELECT count(DISTINCT (a, note)) FROM shop.sizes WHERE note LIKE 'operation %'`); n != 100_000 {
			t.Errorf("%d rows", n)
		}
	})

	t.Run("2000UnevenRowsKeepTheirPlaces", func(t *testing.T) {
		answer := s.succeeds(t, s.post("sizes?select=a,b", uneven(2000, "uneven"), "Prefer", "return=representation"))
		var want strings.Builder
		for i := range 2000 {
			fmt.Fprintf(&want, `,{"a":%d,"b":%d}`, i, []int{7, 1}[i%2])
		}
		if answer.Body != "["+want.String()[1:]+"]" {
			t.Errorf("%.200s", answer.Body)
		}
	})

	t.Run("MoreShapesThanAConnectionKeepsPrepared", func(t *testing.T) {
		var shapes strings.Builder
		for i := range 500 {
			shapes.WriteString(`,{"id":"K"`)
			for bit := range 9 {
				if i>>bit&1 == 1 {
					fmt.Fprintf(&shapes, `,"c%d":%d`, bit, 1<<bit)
				}
			}
			shapes.WriteByte('}')
		}
		for range 2 {
			s.succeeds(t, s.post("shapes", "["+shapes.String()[1:]+"]"))
		}
		const sum = `SELECT count(DISTINCT coalesce(c0,0)+coalesce(c1,0)+coalesce(c2,0)+coalesce(c3,0)+coalesce(c4,0)+coalesce(c5,0)+coalesce(c6,0)+coalesce(c7,0)+coalesce(c8,0)) FROM shop.shapes`
		if n := scalar[int](t, pool, sum); n != 500 {
			t.Errorf("%d different rows", n)
		}
	})

	t.Run("ManyFiltersAndOutputsWork", func(t *testing.T) {
		answer := s.succeeds(t, testenv.Request{Path: "/rest/sizes?limit=1&select=" + list(1600, "x%d:a") + "&" + strings.Repeat("note=eq.bulk&", 300)})
		if strings.Count(answer.Body, `"x`) != 1600 {
			t.Errorf("%.100s", answer.Body)
		}
	})
}
