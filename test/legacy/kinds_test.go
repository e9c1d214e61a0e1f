package legacy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// kind is a column of legacy.wide with values that it takes, and values that
// PostgreSQL refuses for it.
type kind struct {
	column    string
	good, bad []value
}

func kinds() []kind {
	return slices.Concat(numberKinds(), textKinds(), timeKinds(), rangeKinds(), documentKinds(), placeKinds(), systemKinds(), extensionKinds(),
		compositeKinds(), domainKinds(), arrayKinds())
}

// TestTypes has one database for all that it tries: rows are each test's own.
func TestTypes(t *testing.T) {
	t.Parallel()
	w := build(t, typesSQL, table{"legacy", "wide", "wide:{grp}"})
	for name, test := range map[string]func(*testing.T, *world){
		"EveryType": everyType, "WhatJSONSaysLessOf": whatJSONSaysLessOf, "Filters": filters, "Malformed": malformed, "RandomValues": randomValues,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, w)
		})
	}
}

func everyType(t *testing.T, w *world) {
	for _, k := range kinds() {
		t.Run(k.column, func(t *testing.T) {
			t.Parallel()
			exact(t, w, k.column, slices.Concat(k.good, sqlNull))
			t.Run("WhatPostgreSQLRefusesIsRefused", func(t *testing.T) { turnedAway(t, w, k.column, k.bad) })
		})
	}

	t.Run("EveryColumnHasCases", func(t *testing.T) {
		columns := w.text(t, `SELECT attname FROM pg_attribute WHERE attrelid = 'legacy.wide'::regclass AND attnum > 2`)
		for column := range strings.Lines(columns) {
			if column = strings.TrimSpace(column); !slices.ContainsFunc(append(kinds(), oneWayKinds()...),
				func(k kind) bool { return k.column == column && len(k.good) > 0 }) {
				t.Errorf("no case writes %s", column)
			}
		}
	})

	t.Run("EveryTypeOfThisPostgreSQLHasAColumn", func(t *testing.T) {
		const query = `
			SELECT t.oid::regtype
			  FROM pg_type AS t
			 WHERE t.typnamespace = 'pg_catalog'::regnamespace
			   AND t.typtype IN ('b', 'e', 'r', 'm')
			   AND NOT EXISTS (SELECT FROM pg_type AS e WHERE e.typarray = t.oid)
			   AND t.oid NOT IN (SELECT atttypid FROM pg_attribute WHERE attrelid = 'legacy.wide'::regclass)`
		for name := range strings.Lines(w.text(t, query)) {
			name = strings.TrimSpace(name)
			if none := w.refusal(t, fmt.Sprintf("SELECT ''::%s", name)); none == nil || none.Code != "0A000" { // takes no values at all
				t.Errorf("legacy.wide has no column of type %s", name)
			}
		}
	})
}

func numberKinds() []kind {
	float4 := numbers("0", "-0", "0.1", "1e10", "16777217", "3.4028235e38", "-3.4028235e38", "1.1754944e-38", "1e-45", "-1e-45", "9.999999e-39")
	float8 := numbers("0", "-0", "0.1", "0.30000000000000004", "1e100", "9007199254740993", "1.7976931348623157e308", "-1.7976931348623157e308",
		"2.2250738585072014e-308", "5e-324", "-5e-324", "2.225073858507201e-308", "1E5", "1e+5")
	special := texts("Infinity", "-Infinity", "NaN", "infinity", "-inf", "nan")
	digits := strings.Repeat("1234567890", 100)
	numeric := all(numbers("0", "-0", "0.0", "1.10", "1.10000", "1e2", "1.5E-3", "1e400", "-1e-400", "9007199254740993", "750727362669608961",
		"0.1234567890123456789012345678901234567890", digits, "-"+digits, digits+"."+digits, "0."+strings.Repeat("0", 500)+"1"), special)
	return []kind{
		{"int2", numbers("0", "-0", "1", "32767", "-32768"),
			all(numbers("32768", "-32769", "1.5", "1e2"), texts("", "x", "1 2"), pairs("true", "true", "[1]", "[1]", `{"a":1}`, `{"a":1}`))},
		{"int4", all(numbers("0", "7", "2147483647", "-2147483648"), texts(" 7 ", "+7", "007")),
			all(numbers("2147483648", "-2147483649", "2.0", "1e2"), texts("", "99999999999999999999", "NaN"))},
		{"int8", numbers("0", "9007199254740992", "9007199254740993", "9223372036854775807", "-9223372036854775808"),
			all(numbers("9223372036854775808", "-9223372036854775809", "1e18"), texts("", "18446744073709551616"))},
		{"numeric", numeric, all(texts("", "1,5", "1 000", "0x", "--1"), pairs("1e999999", "1e999999"))},
		{"numeric_38", all(numbers("0", strings.Repeat("9", 38), "-"+strings.Repeat("9", 37), "0.5", "1e37"), texts("NaN")),
			all(numbers("1"+strings.Repeat("0", 38)), texts("Infinity"))},
		{"numeric_12_2", all(numbers("0", "0.1", "1.239", "9999999999.99", "-9999999999.994"), texts("NaN")), numbers("9999999999.995", "10000000000", "1e10")},
		{"numeric_1000", numbers("0", strings.Repeat("9", 500)+"."+strings.Repeat("1", 500), "1e-500", "1e-501"), numbers("1e500")},
		{"float4", all(float4, special), all(numbers("1e39", "-1e39", "1e-46"), texts("", "x", "0x"))},
		{"float8", all(float8, special), all(numbers("1e309", "-1e309", "1e-400"), texts("", "1,5"))},
		{"money", all(numbers("0", "0.1", "1234567.895", "-92233720368547758.08", "92233720368547758.07"), texts("$1,234.50", "($5)", "-$0.01")),
			all(numbers("92233720368547758.08", "1e3"), texts("x", "€5"))},
		{"bool", all(pairs("true", "t", "false", "f", "1", "1", "0", "0"), texts("yes", "off", "TRUE", " t ", "n")),
			all(texts("", "maybe", "2"), numbers("2", "1.0"))},
	}
}

// scripts is one text in several of them, some of whose characters are made of
// several, and what is easily taken for something else.
var scripts = []string{
	"", " ", "plain", "  space  around  ", "Grüße, naïve Ärzte", "Ελληνικά", "русский", "עברית", "العربية", "हिन्दी", "中文字符", "日本語テキスト", "한국어",
	"e\u0301 is not \u00e9", "A\u030a \u212b \u00c5", "👩\u200d👩\u200d👧\u200d👦 🏳️\u200d🌈 🇩🇪 👍🏽", "\U0010FFFF\U00010000", "\ufeffmark", "\u200b\u202e\u2028\u2029",
	"tab\tline\r\nfeed\b\f\v\x01\x7f", `back\slash \n \\ \u0041`, `'; DROP TABLE legacy.wide; --`, `"quoted"`, "$1 $$ %s %d {} ${x}", "null", "NULL", "true", "1", "{}", "[]", `{"a":1}`,
	"<b>&amp;</b>", "100%", "a=b&c=d", "a+b", "(1,2)", "{1,2}", "\u00a0", "base64:AP9o",
}

func textKinds() []kind {
	ids := texts("6f1c2a9e-0d53-4b0e-9a39-0d6f5a1c7e11", "00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
		"{6f1c2a9e-0d53-4b0e-9a39-0d6f5a1c7e11}", "6f1c2a9e0d534b0e9a390d6f5a1c7e11")
	bits := texts("", "0", "1", "10101", strings.Repeat("01", 500), "b101", "xF0")
	return []kind{
		{"text", all(texts(scripts...), texts(strings.Repeat("größe ", 20_000)), // some 140 KB
			pairs("1.10", "1.10", "-0", "-0", "1e400", "1e400", "true", "true", "false", "false", `{"b" : 1,"a":[ ]}`, `{"b" : 1,"a":[ ]}`,
				`"\u00e9\ud83d\ude00\/"`, "é😀/")), nil},
		{"text_c", texts(scripts...), nil},
		{"varchar", texts(scripts...), nil},
		{"varchar_3", texts("", "abc", "äöü", "abc   ", "👍👍👍", "e\u0301x"), texts("abcd", "abc d", "👍👍👍👍", "e\u0301e\u0301")},
		{"bpchar", texts("", "a", "a  ", " a", strings.Repeat("x", 1000)), nil},
		{"char_5", texts("", "a", "abcde", "abcde   ", "äöüßé", "  a"), texts("abcdef", "abcde f", "äöüßéx")},
		{"name", texts("", "Mixed Case", strings.Repeat("n", 63), strings.Repeat("n", 64), strings.Repeat("ä", 40)), nil}, // PostgreSQL cuts names itself
		{"char", texts("", "a", "ab", "é", `\303`), nil},
		{"citext", texts("", "Mixed", "mixed", "MIXED", "ÄRZTE", "ärzte"), nil},
		{"bit", texts("0", "1"), texts("", "10", "2")},
		{"bit_5", texts("10101", "00000", "b10101", "B11111"), texts("101011", "1010", "", "10102", "x1F")},
		{"varbit", bits, texts("2", "xG", "1 0")},
		{"varbit_5", texts("", "1", "10101"), texts("101010", "xFF")},
		{"bytea", all(texts(`\x`, `\x00ff6869`, `\xDEADBEEF`, `\x00 ff`, `hello`, `\000\001`, `a\\b`),
			pairs(`"base64:"`, `\x`, `"base64:AP9oaQ=="`, `\x00ff6869`, `"base64:+/+/"`, `\xfbffbf`, `"base64:`+strings.Repeat("AP9o", 2000)+`"`,
				`\x`+strings.Repeat("00ff68", 2000))),
			texts(`\x0`, `\xzz`, `a\b`)},
		{"uuid", ids, texts("", "6f1c2a9e", "6f1c2a9e-0d53-4b0e-9a39-0d6f5a1c7e1g", "6f1c2a9e-0d53-4b0e-9a39-0d6f5a1c7e111")},
		{"mood", texts("sad", "very happy", `it's "fine", {really} \ (so)`, "größe", "", "NULL"), all(texts("Sad", "sad ", "gro\u0308ße", "null"), numbers("1"))},
	}
}
