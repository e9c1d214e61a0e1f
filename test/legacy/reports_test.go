package legacy_test

import (
	"fmt"
	"hash/fnv"
	"testing"
)

// bigKey is a number beyond what a float64 holds, and of this test alone.
func bigKey(t *testing.T) string {
	h := fnv.New32()
	h.Write([]byte(t.Name()))
	return fmt.Sprint(9007199254740993 + 2*int64(h.Sum32()))
}

const seeBigs = `SELECT concat_ws('|', n, f, at, z, t, j, js) FROM old.bigs WHERE k = $k`

// reportScenarios are what broke other gateways.
var reportScenarios = map[string]scenario{
	"TheRowBesideABigNumberIsNotTouched": {
		given:  `INSERT INTO old.bigs (k, n) VALUES ($k, 1), ($k - 1, 1), ($k + 1, 1)`,
		method: patch, path: "bigs?k=eq.$k", prefer: "count=exact", body: `{"n":2}`,
		header: "0-0/1", sees: `SELECT n FROM old.bigs WHERE k BETWEEN $k - 1 AND $k + 1 ORDER BY k`, rows: "1 2 1",
	},
	"ABigNumberInAListIsExact": {
		given:  `INSERT INTO old.bigs (k, n) VALUES ($k, 1), ($k - 1, 1)`,
		method: del, path: "bigs?k=eq.$k&or=(k.in.($k,0),n.eq.5)", prefer: "count=exact",
		header: "0-0/1", sees: `SELECT k - $k FROM old.bigs WHERE k BETWEEN $k - 1 AND $k`, rows: "-1",
	},
	"ABigNumberIsAnsweredAsItIs": {
		path: "bigs?select=k,n", prefer: full, body: `{"k":"$k","n":1234567890123456789012345678901234567}`,
		answer: `[{"k":$k,"n":1234567890123456789012345678901234567}]`,
		sees:   seeBigs, rows: "1234567890123456789012345678901234567",
	},
	"ABigNumberInsideJSONIsExact": {
		path: "bigs?select=j,js", prefer: full, body: `{"k":$k,"j":{"a":750727362669608961},"js":{"a":1e400, "b":[750727362669608961]}}`,
		answer: `[{"j":{"a": 750727362669608961},"js":{"a":1e400, "b":[750727362669608961]}}]`,
		sees:   seeBigs, rows: `{"a": 750727362669608961}|{"a":1e400, "b":[750727362669608961]}`,
	},
	"NumbersWithoutDigitsAreAnswered": {
		path: "bigs?select=f,at,z", prefer: full, body: `{"k":$k,"f":"NaN","at":"infinity","z":"-infinity"}`,
		answer: `[{"f":"NaN","at":"infinity","z":"-infinity"}]`, sees: seeBigs, rows: "NaN|infinity|-infinity",
	},
	"ANumberBeyondBigintIsRefused": {
		path: "bigs", body: `{"k":18446744073709551615}`,
		refused: "422 invalid_value 22003", sees: seeBigs,
	},
	"TrueIntoTextIsTheWordOfJSON": {path: "bigs", body: `{"k":$k,"t":true}`, sees: seeBigs, rows: "true"},
	"ALeapSecondIsTheNextMinute": {
		path: "bigs", body: `{"k":$k,"at":"2016-12-31 23:59:60"}`,
		sees: `SELECT to_char(at, 'YYYY-MM-DD"T"HH24:MI:SS') FROM old.bigs WHERE k = $k`, rows: "2017-01-01T00:00:00",
	},
	"ThirtyDaysHathNotFebruary": {
		path: "bigs", body: `{"k":$k,"at":"2024-02-30"}`,
		refused: "422 invalid_value 22008", sees: seeBigs,
	},
	"NULIsRefusedInText": {
		path: "bigs", body: `{"k":$k,"t":"a\u0000b"}`,
		refused: "400 malformed_json PGRST102", sees: seeBigs,
	},
	"NULIsRefusedInsideJSON": {
		path: "bigs", body: `{"k":$k,"js":{"a":["\u0000"]}}`,
		refused: "400 malformed_json PGRST102", sees: seeBigs,
	},
	"NULIsRefusedInAKeyOfJSON": {
		path: "bigs", body: `{"k":$k,"j":{"\u0000":1}}`,
		refused: "400 malformed_json PGRST102", sees: seeBigs,
	},
	"InvalidUTF8IsRefused": {
		path: "bigs", body: "{\"k\":$k,\"t\":\"\xff\"}",
		refused: "400 malformed_json PGRST102", sees: seeBigs,
	},
	"ALoneSurrogateIsRefused": {
		path: "bigs", body: `{"k":$k,"t":"\ud800"}`,
		refused: "400 malformed_json PGRST102", sees: seeBigs,
	},
	"InvalidUTF8InAFilterIsRefused": {
		method: del, path: "bigs?k=eq.$k&t=eq.%ff",
		refused: "400 malformed_query PGRST100", sees: seeBigs,
	},
	"NULInAFilterIsRefused": {
		method: del, path: "bigs?k=eq.$k&t=eq.%00",
		refused: "400 malformed_query PGRST100", sees: seeBigs,
	},
	"AnEmptyBatchIsRefused": {
		path: "bigs", body: `[]`,
		refused: "400 empty_batch empty_batch", sees: seeBigs,
	},
	"AnArrayToUpdateWithIsRefused": {
		given:  `INSERT INTO old.bigs (k, t) VALUES ($k, 'a')`,
		method: patch, path: "bigs?k=eq.$k", body: `[{"t":"b"}]`, broken: true,
		refused: "400 malformed_json PGRST102", sees: seeBigs, rows: "a",
	},
	"AMemberTwiceIsRefused": {
		path: "bigs", body: `{"k":$k,"t":"a","t":"b"}`,
		refused: "400 malformed_json PGRST102", sees: seeBigs,
	},
	"AMemberTwiceInsideJSONIsRefused": {
		path: "bigs", body: `{"k":$k,"js":{"a":1,"a":2}}`,
		refused: "400 malformed_json PGRST102", sees: seeBigs,
	},
	"APlusInAFilterIsASpace": {
		given:  `INSERT INTO old.bigs (k, at) VALUES ($k, '2019-06-22 20:25:36')`,
		method: del, path: "bigs?k=eq.$k&at=eq.2019-06-22+20:25:36&select=k", prefer: full,
		answer: `[{"k":$k}]`, sees: seeBigs,
	},
	"APlusThatIsMeantIsEscaped": {
		given:  `INSERT INTO old.bigs (k, z) VALUES ($k, '2019-06-22 20:25:36+02')`,
		method: del, path: "bigs?k=eq.$k&z=eq.2019-06-22T20:25:36%2B02:00&select=k", prefer: full,
		answer: `[{"k":$k}]`, sees: seeBigs,
	},
	"APlusThatBecameASpaceIsRefused": {
		given:  `INSERT INTO old.bigs (k, t) VALUES ($k, 'a')`,
		method: del, path: "bigs?k=eq.$k&z=eq.2019-06-22T20:25:36+02:00x",
		refused: "422 invalid_value 22007", sees: seeBigs, rows: "a",
	},
	"ANullKeyIsRefused": {
		path: "bigs", body: `{"k":null,"t":"a"}`,
		refused: "422 not_null_violation 23502", column: "k", sees: seeBigs,
	},
	"AnUnknownMemberIsRefused": {
		path: "bigs", body: `{"k":$k,"T":"a"}`,
		refused: "422 unknown_column PGRST204", column: "T", sees: seeBigs,
	},
	"AKeyWrittenAnotherWayIsTheSameOne": {
		path: "bigs?select=k", prefer: full, body: `{"k":"0$k"}`,
		answer: `[{"k":$k}]`, sees: `SELECT k FROM old.bigs WHERE k = $k`, rows: "$k",
	},
}
