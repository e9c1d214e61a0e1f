package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestBody(t *testing.T) {
	t.Parallel()
	g := startKinds(t, "limits: {max_body_bytes: 64KiB, max_rows: 5}\n")
	l := g.Acquire(t, "kind:K", 60000)
	w := watch(t, g)
	patch := func(body string) testenv.Request {
		return testenv.Request{Method: http.MethodPatch, Path: "/rest/kinds?id=eq.K", Header: l.Header(), Body: body, Broken: true}
	}
	post := func(body string) testenv.Request {
		return testenv.Request{Method: http.MethodPost, Path: "/rest/lines", Header: l.Header(), Body: body, Broken: true}
	}

	for name, c := range map[string]struct {
		body string
		want want
	}{
		"DuplicateMember":         {`{"note":"a","note":"b"}`, want{pointer: "/note"}},
		"DuplicateMemberByEscape": {`{"note":"a","n\u006fte":"b"}`, want{pointer: "/note"}},
		"DuplicateMemberInside":   {`{"jb":{"x":[{"a":1,"a":2}]}}`, want{pointer: "/jb/x/0/a"}},
		"DuplicateMemberInJSON":   {`{"j":{"a":1,"b":2,"a":1}}`, want{pointer: "/j/a"}},
		"TrailingObject":          {`{"note":"x"} {}`, want{}},
		"TrailingText":            {`{"note":"x"}x`, want{}},
		"TrailingComma":           {`{"note":"x",}`, want{}},
		"TrailingNUL":             {"{\"note\":\"x\"}\x00", want{}},
		"ByteOrderMark":           {"\ufeff" + `{"note":"x"}`, want{}},
		"UTF16":                   {"{\x00\"\x00n\x00\"\x00:\x001\x00}\x00", want{}},
		"InvalidUTF8":             {"{\"note\":\"\xff\"}", want{}},
		"InvalidUTF8InAName":      {"{\"\xff\":1}", want{}},
		"InvalidUTF8Inside":       {"{\"jb\":{\"\xc0\x80\":[\"x\"]}}", want{}},
		"LoneSurrogate":           {`{"note":"\ud800"}`, want{}},
		"LoneLowSurrogate":        {`{"note":"\udc00x"}`, want{}},
		"LoneSurrogateInAName":    {`{"jb":{"\ud800":1}}`, want{}},
		"NULInAString":            {`{"note":"a\u0000b"}`, want{pointer: "/note"}},
		"NULInside":               {`{"jb":{"x":["y","\u0000"]}}`, want{pointer: "/jb/x/1"}},
		"NULInAName":              {`{"jb":{"a\u0000":1}}`, want{}},
		"RawNUL":                  {"{\"note\":\"a\x00b\"}", want{}},
		"RawNewline":              {"{\"note\":\"a\nb\"}", want{}},
		"Null":                    {`null`, want{}},
		"String":                  {`"str"`, want{}},
		"Number":                  {`1`, want{}},
		"True":                    {`true`, want{}},
		"Array":                   {`[{"note":"x"}]`, want{}},
		"EmptyArray":              {`[]`, want{}},
		"WhiteSpace":              {" \n\t", want{}},
		"Comment":                 {`{"note":/* x */"x"}`, want{}},
		"SingleQuotes":            {`{'note':'x'}`, want{}},
		"NoQuotes":                {`{note:"x"}`, want{}},
		"NotANumber":              {`{"n":NaN}`, want{}},
		"Infinity":                {`{"n":-Infinity}`, want{}},
		"LeadingZero":             {`{"i4":01}`, want{}},
		"Plus":                    {`{"i4":+1}`, want{}},
		"Hex":                     {`{"i4":0x10}`, want{}},
		"HalfAFraction":           {`{"n":1.}`, want{}},
		"CutOff":                  {`{"note":"x"`, want{}},
		"CutOffInAString":         {`{"note":"x`, want{}},
		"CutOffInAnEscape":        {`{"note":"\`, want{}},
		"Unbalanced":              {`{"jb":[1,2}}`, want{}},
		"ClosedTwice":             {`{"note":"x"}}`, want{}},
		"BadEscape":               {`{"note":"\x41"}`, want{}},
		"Depth65":                 {`{"jb":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, want{}},
		"Depth10000":              {`{"jb":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}`, want{}},
		"Depth10000Unclosed":      {strings.Repeat(`{"a":`, 10000), want{}},
		"NoMember":                {`{}`, want{slug: "empty_body"}},
		"UnknownMember":           {`{"nope":1}`, want{status: 422, slug: "unknown_column", code: "PGRST204", column: "nope"}},
		"UnknownMemberBesideGood": {`{"note":"x","nope":1}`, want{status: 422, slug: "unknown_column", column: "nope"}},
		"MemberInAnotherCase":     {`{"Note":"x"}`, want{status: 422, slug: "unknown_column", column: "Note"}},
		"MemberInTwoCases":        {`{"note":"x","NOTE":"y"}`, want{status: 422, slug: "unknown_column", column: "NOTE"}},
		"MemberWithoutName":       {`{"":1}`, want{status: 422, slug: "unknown_column"}},
		"SystemColumn":            {`{"xmin":1}`, want{status: 422, slug: "unknown_column", column: "xmin"}},
		"SQLAsAMember":            {`{"note\" = (SELECT 1), \"n":1}`, want{status: 422, slug: "unknown_column"}},
	} {
		t.Run(name+"IsRefused", func(t *testing.T) {
			if c.want.slug == "" {
				c.want.slug = "malformed_json"
			}
			if c.want.status == 0 {
				c.want.status = 400
			}
			w.refused(t, g, patch(c.body), c.want)
		})
	}

	t.Run("NoBodyIsRefused", func(t *testing.T) {
		w.refused(t, g, patch(""), want{status: 400, slug: "malformed_json"})
		w.refused(t, g, post(""), want{status: 400, slug: "malformed_json"})
	})

	t.Run("ABatchOfAnythingButObjectsIsRefused", func(t *testing.T) {
		for body, pointer := range map[string]string{
			`[1]`: "/0", `[null]`: "/0", `[[]]`: "/0", `[{"line":1},null]`: "/1", `[{"line":1},[{"line":2}]]`: "/1", `[{"line":1},"x"]`: "/1",
		} {
			w.refused(t, g, post(body), want{status: 400, slug: "malformed_json", pointer: pointer})
		}
	})

	t.Run("AnEmptyBatchIsRefused", func(t *testing.T) {
		w.refused(t, g, post(`[]`), want{status: 400, slug: "empty_batch"})
	})

	t.Run("ABrokenBatchIsRefusedAsAWhole", func(t *testing.T) {
		for _, body := range []string{`[{"line":1},{"line":2}`, `[{"line":1}{"line":2}]`, `[{"line":1},]`, `[{"line":1}] x`, `[,{"line":1}]`, `{"line":1},{"line":2}`,
			`[{"line":1},{"line":2,"line":3}]`} {
			w.refused(t, g, post(body), want{status: 400, slug: "malformed_json"})
		}
		w.refused(t, g, post(`[{"line":1},{"line":2,"nope":3}]`), want{status: 422, slug: "unknown_column", column: "nope"})
		w.refused(t, g, post(`[{"line":1},{"line":"x"}]`), want{status: 422, slug: "invalid_value", code: "22P02"})
	})

	t.Run("MoreRowsThanAllowedAreRefused", func(t *testing.T) {
		w.refused(t, g, post("["+strings.Repeat(`{"line":1},`, 5)+`{"line":1}]`), want{status: 413, slug: "too_many_rows"})
	})

	t.Run("ABodyOverTheLimitIsRefused", func(t *testing.T) {
		note := func(bytes int) string {
			return `{"note":"` + strings.Repeat("x", bytes-len(`{"note":""}`)) + `"}`
		}
		w.refused(t, g, patch(note(64<<10+1)), want{status: 413, slug: "body_too_large"})
		w.refused(t, g, testenv.Request{Method: http.MethodPost, Path: "/v1/leases", Broken: true,
			Body: `{"key":"k","client":"` + strings.Repeat("x", 64<<10) + `"}`}, want{status: 413, slug: "body_too_large"})
		answer := chunked(t, g, l, note(64<<10+1))
		mustRefuse(t, answer, want{status: 413, slug: "body_too_large"})
		w.unchanged(t)
	})

	t.Run("OtherMediaTypesAreRefused", func(t *testing.T) {
		for name, value := range map[string]string{
			"Content-Type: text":       "text/plain",
			"Content-Type: form":       "application/x-www-form-urlencoded",
			"Content-Type: multipart":  "multipart/form-data; boundary=x",
			"Content-Type: charset":    "application/json; charset=latin1",
			"Content-Type: csv":        "text/csv",
			"Content-Type: two":        "application/json, text/plain",
			"Content-Type: json-ish":   "application/json-patch+json",
			"Content-Type: broken":     "application/json; charset",
			"Content-Type: none":       "",
			"Content-Encoding: gzip":   "gzip",
			"Content-Encoding: brotli": "br",
			"Content-Encoding: both":   "identity, gzip",
		} {
			header, _, _ := strings.Cut(name, ":")
			for _, path := range []string{"/rest/kinds?id=eq.K", "/v1/leases"} {
				q := testenv.Request{Method: http.MethodPatch, Path: path, Header: with(l, header, value), Body: `{"note":"x"}`, Broken: true}
				if path == "/v1/leases" {
					q.Method, q.Body = http.MethodPost, `{"key":"media:`+fmt.Sprint(len(name))+`"}`
				}
				w.refused(t, g, q, want{status: 415, slug: "unsupported_media_type"})
			}
		}
	})

	t.Run("WhatIsAllowedIsWritten", func(t *testing.T) {
		for name, c := range map[string]struct{ body, column, want string }{
			"a backslash before u0000": {`{"note":"a\\u0000b"}`, "note", `a\u0000b`},
			"a surrogate pair":         {`{"note":"\ud83d\ude00"}`, "note", "😀"},
			"an escaped name":          {`{"n\u006fte":"by escape"}`, "note", "by escape"},
			"depth 64":                 {`{"j":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`, "j", strings.Repeat("[", 63) + strings.Repeat("]", 63)},
			"brackets in a string":     {`{"note":"` + strings.Repeat("[", 200) + `\""}`, "note", strings.Repeat("[", 200) + `"`},
			"white space around":       {" \r\n\t{\"note\" : \"space\"}\n ", "note", "space"},
			"a charset":                {`{"note":"charset"}`, "note", "charset"},
		} {
			q := patch(c.body)
			if name == "a charset" {
				q.Header.Set("Content-Type", `application/JSON; charset="UTF-8"`)
			}
			if answer := g.Do(t, q); answer.Status != http.StatusNoContent {
				t.Errorf("%s: %d %s", name, answer.Status, answer.Body)
			}
			if got := scalar[string](t, w.pool, `SELECT `+c.column+`::text FROM shop.kinds WHERE id = 'K'`); got != c.want {
				t.Errorf("%s: %q", name, got)
			}
		}
		if answer := chunked(t, g, l, `{"note":"in chunks"}`); answer.Status != http.StatusNoContent {
			t.Errorf("in chunks: %d %s", answer.Status, answer.Body)
		}
	})
}

// chunked patches without saying how long the body is.
func chunked(t *testing.T, g *testenv.Gateway, l testenv.Lease, body string) testenv.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, g.URL+"/rest/kinds?id=eq.K", io.MultiReader(strings.NewReader(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = with(l, "Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return whole(t, resp)
}

func TestValues(t *testing.T) {
	t.Parallel()
	g := startKinds(t, "")
	l := g.Acquire(t, "kind:K", 60000)

	// written as they are, printed as PostgreSQL prints them
	for name, c := range map[string]struct{ column, value, printed string }{
		"BigintAbove2To53":     {"i8", "9007199254740993", "9007199254740993"},
		"GreatestBigint":       {"i8", "9223372036854775807", "9223372036854775807"},
		"LeastBigint":          {"i8", "-9223372036854775808", "-9223372036854775808"},
		"BigintAsAString":      {"i8", `"9223372036854775807"`, "9223372036854775807"},
		"NumericOf40Digits":    {"n", "1234567890123456789012345678901234567890", "1234567890123456789012345678901234567890"},
		"FractionOf40Digits":   {"n", "0.1234567890123456789012345678901234567890", "0.1234567890123456789012345678901234567890"},
		"TrailingZeros":        {"n", "1.10000", "1.10000"},
		"ExponentInNumeric":    {"n", "1.5E3", "1500"},
		"MoneyKeepsItsScale":   {"money", "0.1", "0.10"},
		"DoubleAsItIs":         {"f8", "0.1", "0.1"},
		"NegativeZero":         {"f8", "-0", "-0"},
		"JSONKeepsItsText":     {"j", `{"b" : 9007199254740993,"a":[1.10,1e2]}`, `{"b" : 9007199254740993,"a":[1.10,1e2]}`},
		"JSONBKeepsNumbers":    {"jb", `{"b":123456789012345678901234567890,"a":1.10}`, `{"a": 1.10, "b": 123456789012345678901234567890}`},
		"JSONBString":          {"jb", `"text"`, `"text"`},
		"JSONNumber":           {"jb", `9007199254740993`, `9007199254740993`},
		"Bytea":                {"b", `"\\x00ff6869"`, `"\\x00ff6869"`},
		"EmptyBytea":           {"b", `"\\x"`, `"\\x"`},
		"Base64Bytea":          {"b", `"base64:AP9oaQ=="`, `"\\x00ff6869"`},
		"Texts":                {"ta", `["a","b,c","q\"q","{}","","NULL",null]`, `["a","b,c","q\"q","{}","","NULL",null]`},
		"NoTexts":              {"ta", `[]`, `[]`},
		"Integers":             {"ia", `[1,-2147483648,null]`, `[1,-2147483648,null]`},
		"IntegersInTwoLevels":  {"ia", `[[1,2],[3,4]]`, `[[1,2],[3,4]]`},
		"ArrayAsALiteral":      {"ia", `"{1,2}"`, `[1,2]`},
		"CharIsPadded":         {"c3", `"ab"`, `"ab "`},
		"SpacesBeyondTheWidth": {"v3", `"abc  "`, `"abc"`},
		"Bits":                 {"bit3", `"101"`, `"101"`},
		"Boolean":              {"ok", `true`, `true`},
		"Date":                 {"d", `"2026-02-28"`, `"2026-02-28"`},
		"Timestamp":            {"ts", `"2026-02-28T12:00:00.123456Z"`, `"2026-02-28T12:00:00.123456+00:00"`},
		"UUID":                 {"u", `"6F1C2A9E-0D53-4B0E-9A39-0D6F5A1C7E11"`, `"6f1c2a9e-0d53-4b0e-9a39-0d6f5a1c7e11"`},
		"TextOfAnyKind":        {"note", `"'; DROP TABLE shop.kinds; -- \\ \" é 😀"`, `"'; DROP TABLE shop.kinds; -- \\ \" é 😀"`},
		"EmptyText":            {"note", `""`, `""`},
		"NumberIntoText":       {"note", `1.10`, `"1.10"`},
		"Null":                 {"note", `null`, `null`},
		"NullIsNotTheWord":     {"note", `"null"`, `"null"`},
		"JSONNull":             {"jb", `null`, `null`},
	} {
		t.Run(name+"IsExact", func(t *testing.T) {
			answer := g.Do(t, testenv.Request{
				Method: http.MethodPatch, Path: "/rest/kinds?id=eq.K&select=" + c.column,
				Header: with(l, "Prefer", "return=representation"), Body: `{"` + c.column + `":` + c.value + `}`,
			})
			if printed := `[{"` + c.column + `":` + c.printed + `}]`; answer.Status != 200 || answer.Body != printed {
				t.Errorf("%d %s, not %s", answer.Status, answer.Body, printed)
			}
			read := g.Do(t, testenv.Request{Path: "/rest/kinds?id=eq.K&select=" + c.column})
			if read.Body != answer.Body {
				t.Errorf("it is read as %s, not %s", read.Body, answer.Body)
			}
		})
	}

	w := watch(t, g)
	for name, c := range map[string]struct{ column, value, state string }{
		"IntegerTooLarge":     {"i4", `2147483648`, "22003"},
		"SmallintTooLarge":    {"i2", `32768`, "22003"},
		"BigintTooLarge":      {"i8", `9223372036854775808`, "22003"},
		"IntegerTooLargeText": {"i4", `"99999999999999999999"`, "22003"},
		"EmptyInteger":        {"i4", `""`, "22P02"},
		"FractionInInteger":   {"i4", `1.5`, "22P02"},
		"ExponentInInteger":   {"i4", `1e2`, "22P02"},
		"WordInInteger":       {"i4", `"x"`, "22P02"},
		"TrueInInteger":       {"i4", `true`, "22P02"},
		"ObjectInInteger":     {"i4", `{"a":1}`, "22P02"},
		"MoneyTooLarge":       {"money", `99999999999`, "22003"},
		"CharTooLong":         {"c3", `"abcd"`, "22001"},
		"VarcharTooLong":      {"v3", `"abcd"`, "22001"},
		"BitsTooLong":         {"bit3", `"1010"`, "22026"},
		"NoBytea":             {"b", `"\\xzz"`, "22023"},
		"NoBase64":            {"b", `"base64:%%"`, "22023"},
		"NoDate":              {"d", `"2026-02-30"`, "22008"},
		"NoTimestamp":         {"ts", `"soon"`, "22007"},
		"NoUUID":              {"u", `"6f1c2a9e"`, "22P02"},
		"NoBoolean":           {"ok", `"maybe"`, "22P02"},
		"NumberAsArray":       {"ia", `1`, "22P02"},
		"WordInIntegers":      {"ia", `[1,"x"]`, "22P02"},
		"UnevenArray":         {"ia", `[[1],[2,3]]`, "22P02"},
		"DoubleTooLarge":      {"f8", `1e999`, "22003"},
		"NumericTooLarge":     {"n", `1e999999`, "22003"},
		"JSONBNumberTooLarge": {"jb", `1e999999`, "22003"},
	} {
		t.Run(name+"IsRefused", func(t *testing.T) {
			q := testenv.Request{Method: http.MethodPatch, Path: "/rest/kinds?id=eq.K", Header: l.Header(), Body: `{"note":"x","` + c.column + `":` + c.value + `}`}
			w.refused(t, g, q, want{status: 422, slug: "invalid_value", code: c.state})
		})
	}
}

func TestBulkInsert(t *testing.T) {
	t.Parallel()
	g := startKinds(t, "")
	l := g.Acquire(t, "kind:K", 60000)
	w := watch(t, g)
	insert := func(path, prefer, body string) testenv.Response {
		return g.Do(t, testenv.Request{Method: http.MethodPost, Path: path, Header: with(l, "Prefer", prefer), Body: body})
	}

	t.Run("EachRowDecidesForItselfAndKeepsItsPlace", func(t *testing.T) {
		answer := insert("/rest/lines?select=line,note,more", "return=representation, count=exact", `[
			{"line":1},
			{"line":2,"note":null},
			{"note":"three","line":3},
			{"line":4,"note":"four"},
			{},
			{"more":null,"line":6},
			{"line":7},
			{"line":null,"note":""},
			{"line":9}]`)
		const want = `[{"line":1,"note":"default","more":7},{"line":2,"note":null,"more":7},{"line":3,"note":"three","more":7},` +
			`{"line":4,"note":"four","more":7},{"line":null,"note":"default","more":7},{"line":6,"note":"default","more":null},` +
			`{"line":7,"note":"default","more":7},{"line":null,"note":"","more":7},{"line":9,"note":"default","more":7}]`
		if answer.Status != http.StatusCreated || answer.Body != want || answer.Header.Get("Content-Range") != "0-8/9" {
			t.Errorf("%d %s %s, not\n%s", answer.Status, answer.Header.Get("Content-Range"), answer.Body, want)
		}
		const order = `SELECT string_agg(coalesce(line::text, '-'), ' ' ORDER BY seq) FROM shop.lines`
		if got := scalar[string](t, w.pool, order); got != "1 2 3 4 - 6 7 - 9" {
			t.Errorf("the rows were inserted in the order %s", got)
		}
	})

	t.Run("OneObjectIsOneRow", func(t *testing.T) {
		answer := insert("/rest/lines?select=line", "return=representation", `{"line":77}`)
		if answer.Status != http.StatusCreated || answer.Body != `[{"line":77}]` {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})

	t.Run("NothingIsReturnedUnlessAskedFor", func(t *testing.T) {
		for _, prefer := range []string{"", "return=minimal", "return=headers-only"} {
			if answer := insert("/rest/lines", prefer, `{"line":78}`); answer.Status != http.StatusCreated || answer.Body != "" {
				t.Errorf("%s: %d %q", prefer, answer.Status, answer.Body)
			}
		}
	})

	t.Run("OneBadRowKeepsTheOthersOut", func(t *testing.T) {
		w := watch(t, g)
		for _, row := range []string{`{"line":"x"}`, `{"line":2147483648}`, `{"id":null}`, `{"id":"other"}`, `{"seq":5}`} {
			answer := insert("/rest/lines", "", `[{"line":1},`+row+`,{"line":3}]`)
			if answer.Status < 400 {
				t.Errorf("%s: %d", row, answer.Status)
			}
			w.unchanged(t)
		}
	})

	t.Run("OddNamesAreColumnsLikeOthers", func(t *testing.T) {
		row := map[string]any{"id": "K2", "a.b": "1", "a,b": "2", `quo"te`: "3", `back\s`: "4", "two words": "5", "größe": 6, "select": "7", "or": "8"}
		raw, _ := json.Marshal(row, json.Deterministic(true))
		odd := g.Acquire(t, "kind:K2", 60000)
		answer := g.Do(t, testenv.Request{Method: http.MethodPost, Path: "/rest/Odd,%20%22name%22.x", Body: string(raw),
			Header: with(odd, "Prefer", "return=representation")})
		var got []map[string]any
		if answer.Status != http.StatusCreated {
			t.Fatalf("%d %s", answer.Status, answer.Body)
		}
		answer.JSON(t, &got)
		again, _ := json.Marshal(got[0], json.Deterministic(true))
		if string(again) != string(raw) || !jsontext.Value(answer.Body).IsValid() {
			t.Errorf("%s, not %s", again, raw)
		}
	})
}
