package proxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

// What the limits are out of the box, and what they must bound.
func TestDefaultLimits(t *testing.T) {
	t.Parallel()
	s := startSizes(t, "", 15*time.Second)
	w := watch(t, s.Gateway)
	tooLarge := want{status: 413, slug: "body_too_large"}
	tooMany := want{status: 413, slug: "too_many_rows"}
	digits := strings.Repeat("9", 10_000_000)
	update := `{"op":"update","table":"sizes","where":{"id":"eq.K"},"set":{"a":1}`

	for name, c := range map[string]struct {
		request testenv.Request
		want    want
	}{
		"ANumberOf10MB":       {s.post("sizes", `{"num":`+digits+`}`), tooLarge},
		"ATextOf10MB":         {s.post("sizes", `{"num":"`+digits+`"}`), tooLarge},
		"100kRowsOf1MB":       {s.post("sizes", array(100_000, `{"a":%d}`)), tooLarge},
		"100kRows":            {s.post("sizes", "["+strings.Repeat("{},", 99_999)+"{}]"), tooMany.at("/1000")},
		"50kRowsToMerge":      {s.post("days", array(50_000, `{"day":%d}`), "Prefer", "resolution=merge-duplicates"), tooMany.at("/1000")},
		"100OperationsOfRows": {s.transact(repeated(100, `{"op":"insert","table":"sizes","rows":`+array(11, `{"a":%d}`)+`}`)...), tooMany.at("/operations/90/rows")},
		"AListOfOutputs":      {s.transact(update + `,"returning":` + array(80_000, `"x%d:a"`) + `}`), want{status: 400, slug: "malformed_query", pointer: "/operations/0/returning"}},
		"SetAndIncrement":     {s.transact(update[:len(update)-1] + `,` + list(40_000, `"x%d":1`) + `},"increment":{` + list(40_000, `"y%d":1`) + `}}`), want{status: 422, slug: "unknown_column", column: "x0"}},
		"ALongFilter":         {s.transact(`{"op":"delete","table":"sizes","where":{"id":"` + strings.Repeat("\x7f", 1_000_000) + `"}}`), want{status: 400, slug: "malformed_query", pointer: "/operations/0/where/id"}},
		"ALongMember":         {s.post("sizes", `{"`+strings.Repeat("x", 1_000_000)+`":1}`), want{status: 422, slug: "unknown_column"}},
		"300Filters":          {testenv.Request{Path: "/rest/sizes?" + strings.Repeat("a=eq.1&", 300)}, want{status: 400, slug: "malformed_query", parameter: "a"}},
		"300FiltersInAGroup":  {testenv.Request{Path: "/rest/sizes?or=(" + list(300, "a.eq.%d") + ")"}, want{status: 400, slug: "malformed_query", parameter: "or"}},
		"300GroupsDeep":       {testenv.Request{Path: "/rest/sizes?or=" + strings.Repeat("(or", 300) + "(a.eq.1)" + strings.Repeat(")", 300)}, want{status: 400, slug: "malformed_query", parameter: "or"}},
		"300ObjectsDeep":      {s.post("sizes", `{"doc":`+strings.Repeat(`{"a":`, 300)+"1"+strings.Repeat("}", 301)), want{status: 400, slug: "malformed_json", pointer: "/doc" + strings.Repeat("/a", 63)}},
		"AMillionArraysDeep":  {s.post("sizes", strings.Repeat("[", 1_000_000)), want{status: 400, slug: "malformed_json"}},
		"100WideAnswers":      {s.transact(repeated(100, `{"op":"update","table":"wide","where":{"id":"eq.K"},"set":{"n":1},"returning":["*"]}`)...), want{status: 413, slug: "answer_too_large", pointer: "/operations/16"}},
	} {
		t.Run(name, func(t *testing.T) {
			s.refuses(t, c.request, c.want)
			w.unchanged(t)
		})
	}

	t.Run("AQueryOf100kBGetsAnAnswer", func(t *testing.T) {
		answer := s.send(t, testenv.Request{Path: "/rest/sizes?a=in.(" + list(20_000, "%d") + ")"})
		if answer.Status != 431 || !strings.Contains(answer.Body, "431") {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})

	t.Run("AnAnswerInManyPiecesIsKeptAndGivenAgain", func(t *testing.T) {
		q := s.post("sizes?select=a,b,note", uneven(1000, strings.Repeat("x", 900)), "Prefer", "return=representation", "Idempotency-Key", "pieces")
		first, again := s.succeeds(t, q), s.succeeds(t, q)
		if first.Body != again.Body || again.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%v %.100s, and again %v %.100s", first.Header, first.Body, again.Header, again.Body)
		}
		if rows := scalar[int](t, w.pool, `SELECT count(*) FROM shop.sizes WHERE b = CASE WHEN a % 2 = 0 THEN 7 ELSE 1 END`); rows != 1000 {
			t.Errorf("%d rows", rows)
		}
	})
}

func (w want) at(pointer string) want {
	w.pointer = pointer
	return w
}
