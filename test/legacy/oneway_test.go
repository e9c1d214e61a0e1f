package legacy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// oneWayKinds hold values whose JSON, as PostgreSQL prints it, says less than
// the value. As PostgreSQL's own literal, in a string, each goes in exactly.
func oneWayKinds() []kind {
	return []kind{
		{"hstores", texts(`{"a=>1","b=>NULL",NULL}`), nil},
		{"int2vector", texts("1 2 -3"), texts("x")},
		{"oidvector", texts("1 4294967295"), texts("x")},
		{"domain_of_arrays", texts(`{"{1,2}","{}"}`, `{"{1,2}",NULL}`), pairs(`["{1,2,3,4}"]`, `{"{1,2,3,4}"}`)},
		{"int4s", texts("[0:1]={1,2}", "[2:2][-1:0]={{1,2}}"), nil},
		{"jsonbs", texts(`{"[1,2]","[]"}`, `{"null"}`), nil},
	}
}

func whatJSONSaysLessOf(t *testing.T, w *world) {
	for _, k := range oneWayKinds() {
		t.Run(k.column, func(t *testing.T) {
			t.Parallel()
			c := w.open(t, k.column, append(k.good, sqlNull...))
			t.Run("BulkInsert", c.bulkInsert)
			t.Run("InsertAndUpdateOneByOne", c.alone)
			t.Run("Upsert", c.upsert)
			t.Run("FoundByEq", c.findByEq)
			t.Run("DeletedByEq", c.deleteByEq)
			t.Run("WhatPostgreSQLRefusesIsRefused", func(t *testing.T) { turnedAway(t, w, k.column, k.bad) })
		})
	}

	t.Run("AnHstoreSentBackAsReadIsTakenExactlyOrNotAtAll", func(t *testing.T) {
		c := w.open(t, "hstore", texts(`a=>1, b=>NULL`))
		must(t, c.post(t, "", c.batch(bulk, 0)))
		read := must(t, c.Do(t, testenv.Request{Path: "/rest/" + c.where(bulk) + "&select=grp,id,hstore"}))
		if got := string(members(t, read.Body)[0]["hstore"]); got != `{"a": "1", "b": null}` {
			t.Errorf("it is read as %s", got)
		}
		if answer := c.post(t, "resolution=merge-duplicates", read.Body); answer.Status >= http.StatusBadRequest && answer.Problem(t).Outcome != "not_applied" {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
		c.same(t, bulk)
	})

	for _, name := range []string{"int2vector", "oidvector"} {
		t.Run("AVectorIsReadAsAnArrayAndIsNotTakenAsOne/"+name, func(t *testing.T) {
			c := w.open(t, name, texts("1 2", ""))
			must(t, c.post(t, "", c.batch(bulk, 0)))
			read := must(t, c.Do(t, testenv.Request{Path: "/rest/" + c.where(bulk) + "&order=id&select=grp,id," + name}))
			for i, row := range members(t, read.Body) {
				answer := c.post(t, "resolution=merge-duplicates", c.row(i, string(row[name])))
				if p := answer.Problem(t); answer.Status != http.StatusUnprocessableEntity || p.Column != name || row[name][0] != '[' {
					t.Errorf("%s sent back: %d %s", row[name], answer.Status, answer.Body)
				}
			}
			c.same(t, bulk)
		})
	}

	for name, c := range map[string]struct{ column, stored, read, back string }{
		"AJSONNullIsReadAsNullAndThatIsSQLsNull":     {"jsonb", `null`, `null`, null},
		"AnArrayIsReadWithoutItsBounds":              {"int4s", `[0:1]={1,2}`, `[1,2]`, `{1,2}`},
		"AJSONArrayInAnArrayIsReadAsMoreDimensions":  {"jsonbs", `{"[1, 2]"}`, `[[1, 2]]`, `{{1,2}}`},
		"AJSONNullInAnArrayIsReadAsNull":             {"jsonbs", `{"null"}`, `[null]`, `{NULL}`},
		"EmptyArraysOfArraysAreOneEmptyArray":        {"int4s", `{}`, `[]`, `{}`},
		"MoneyIsReadAsText":                          {"money", `$1,234.50`, `"$1,234.50"`, `$1,234.50`},
		"AnOidIsReadAsText":                          {"oid", `4294967295`, `"4294967295"`, `4294967295`},
		"ANumberOfNoDigitsIsReadAsText":              {"float8", `-Infinity`, `"-Infinity"`, `-Infinity`},
		"ATimestampIsReadAsISO8601":                  {"timestamptz", `0044-03-15 10:00:00+00 BC`, `"0044-03-15T10:00:00+00:00 BC"`, `0044-03-15 10:00:00+00 BC`},
		"AStringIsReadWithTheEscapesThatItNeeds":     {"text", "\"\\/\u2028\x01", `"\"\\/` + "\u2028" + `\u0001"`, "\"\\/\u2028\x01"},
		"ARowOfNullsIsNotNull":                       {"pair", `(,)`, `{"a":null,"b":null}`, `(,)`},
		"AnHstoreOfNoPairsIsAnEmptyObjectAndNotNull": {"hstore", ``, `{}`, ``},
	} {
		t.Run(name, func(t *testing.T) { w.thereAndBack(t, c.column, c.stored, c.read, c.back) })
	}
}

// thereAndBack reads what PostgreSQL has stored and sends that back.
func (w *world) thereAndBack(t *testing.T, name, stored, read, back string) {
	t.Helper()
	c := w.open(t, name, nil)
	c.rows(t, fmt.Sprintf("INSERT INTO legacy.wide (grp, id, %s) VALUES (%s, 0, %s)", ident(name), quote(c.group), quote(stored)))
	answer := must(t, c.Do(t, testenv.Request{Path: "/rest/" + c.where(bulk) + "&select=" + name}))
	if got := strings.TrimSuffix(strings.TrimPrefix(answer.Body, `[{"`+name+`":`), "}]"); got != read {
		t.Errorf("%s is read as %s, not %s", stored, got, read)
	}
	if read == "{}" {
		return // see AnHstoreSentBackAsRead…
	}
	must(t, c.send(t, c.lease, http.MethodPatch, "wide?id=eq.0&grp=eq."+escape(c.group), "", strings.Trim(answer.Body, "[]")))
	if got := c.text(t, fmt.Sprintf("SELECT %s FROM legacy.wide WHERE grp = %s", ident(name), quote(c.group))); got != back {
		t.Errorf("sent back it is %s, not %s", got, back)
	}
}

func filters(t *testing.T, w *world) {
	w.rows(t, `INSERT INTO legacy.wide (grp, id, pair, jsonb, char_5, bit_5, numeric, float8, timestamptz, mood, citext, text, pairs, year)
		SELECT 'G', id, ROW(id, 'x,"y"')::legacy.pair, jsonb_build_object('n',
			9007199254740992 + id), 'a', B'10101', 1.10, 'NaN', 'infinity', 'very happy', 'Mixed', '', '{"(1,)"}', '[2026,2027)'
		  FROM generate_series(1, 3) AS id`)
	w.rows(t, `INSERT INTO legacy.wide (grp, id, jsonb) VALUES ('G', 4, 'null'), ('G', 5, NULL)`)
	for name, c := range map[string]struct{ filter, want string }{
		"ARowIsFoundByAnother":            {`pair=eq.(2,"x,""y""")`, "2"},
		"ARowIsFoundInAList":              {`pair=in.("(1,\"x,\"\"y\"\"\")","(3,\"x,\"\"y\"\"\")")`, "1 3"},
		"ARowIsFoundAmongAny":             {`pair=gt(any).{"(1,)","(3,)"}`, "2 3"},
		"ARowIsDistinctFromAnother":       {`pair=isdistinct.(1,"x,""y""")`, "2 3 4 5"},
		"AnArrayOfRowsIsFound":            {`pairs=eq.{"(1,)"}&id=eq.1`, "1"},
		"ARowInsideAGroup":                {`or=(pair.eq."(1,\"x,\"\"y\"\"\")",id.eq.3)`, "1 3"},
		"SpacesAtTheEndOfCharDoNotCount":  {`char_5=eq.a    &id=eq.1`, "1"},
		"BitsOfTheSameLengthOnly":         {`bit_5=eq.1010100`, ""},
		"ANumberIsFoundWithoutItsZeros":   {`numeric=eq.1.1&id=eq.1`, "1"},
		"NaNIsFound":                      {`float8=eq.NaN&id=eq.1`, "1"},
		"InfinityIsFoundInTime":           {`timestamptz=eq.infinity&id=eq.1`, "1"},
		"AWordOfAnEnumWithASpace":         {`mood=eq.very happy&id=eq.1`, "1"},
		"CaseDoesNotCountInCitext":        {`citext=eq.mIXED&id=eq.1`, "1"},
		"TheEmptyTextIsNotNull":           {`text=eq.&id=lte.2`, "1 2"},
		"JSONNullIsFoundByEq":             {`jsonb=eq.null`, "4"},
		"SQLNullIsFoundByIs":              {`jsonb=is.null`, "5"},
		"ABigNumberInsideJSONIsExact":     {`jsonb->n=eq.9007199254740993`, "1"},
		"ARangeIsFoundThroughItsDomain":   {`year=eq.[2026,2026]&id=eq.1`, "1"},
		"ARangeContainsAValueOfItsDomain": {`year=cs.[2026,2026]&id=eq.1`, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			query := []string{"select=id", "grp=eq.G"}
			for filter := range strings.SplitSeq(c.filter, "&") {
				column, value, _ := strings.Cut(filter, "=")
				query = append(query, escape(column)+"="+escape(value))
			}
			answer := must(t, w.Do(t, testenv.Request{Path: "/rest/wide?" + strings.Join(query, "&")}))
			if got := ids(t, answer.Body); got != c.want {
				t.Errorf("%s finds %q, not %q", c.filter, got, c.want)
			}
		})
	}
}
