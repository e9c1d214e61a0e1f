package legacy_test

import "strings"

func compositeKinds() []kind {
	pair := pairs(`{"a":1,"b":"x"}`, `(1,x)`, `{"a":null,"b":null}`, `(,)`, `{}`, `(,)`, `{"b":""}`, `(,"")`, `{"b":"it's \"odd\", (so) \\","a":-1}`,
		`(-1,"it's \"odd\", (so) \\")`,
		`"(1,x)"`, `(1,x)`, `"(,)"`, `(,)`, `{"a":"7","b":1.10}`, `(7,1.10)`, `{"b":"null"}`, `(,null)`)
	deep := pairs(
		`{"id":9007199254740993,"p":{"a":1,"b":"x"},"ps":[{"a":1},null,{"b":","}],"m":"very happy","r":"[1,5)",
		"at":"2026-02-28T12:00:00.123456Z","f":0.1,"bin":"\\x00ff","n":1.1,"v":"abc","j":{"b":1,"a":[1e3]},"Odd, \"name\"":"ö"}`,
		`(9007199254740993,"(1,x)","{""(1,)"",NULL,""(,\\"",\\"")""}","very happy","[1,5)",`+
			`"2026-02-28 12:00:00.123456Z",0.1,"\\x00ff",1.1,abc,"{""b"":1,""a"":[1e3]}",ö)`,
		`{"f":"-Infinity","n":1.239,"j":null,"ps":[]}`, `(,,{},,,,-Infinity,,1.239,,,)`,
		`{}`, `(,,,,,,,,,,,)`)
	return []kind{
		{"pair", pair, pairs(`{"a":"x"}`, `(x,)`, `{"a":2147483648}`, `(2147483648,)`, `"(1)"`, `(1)`, `"1,x"`, `1,x`)},
		{"deep", deep, pairs(`{"v":"abcd"}`, `(,,,,,,,,,abcd,,)`, `{"n":10000}`, `(,,,,,,,,10000,,,)`, `{"m":"nope"}`, `(,,,nope,,,,,,,,)`,
			`{"p":{"a":"x"}}`, `(,"(x,)",,,,,,,,,,)`)},
	}
}

func domainKinds() []kind {
	return []kind{
		{"positive", numbers("1", "2147483647"), numbers("0", "-1", "2147483648")},
		{"small_positive", numbers("1", "99"), numbers("0", "100")},
		{"odd_domain", texts("", "yes", "größe"), texts("no")},
		{"char3", texts("a", "abc", "abc  "), texts("abcd")},
		{"varchar3", texts("", "abc", "abc  "), texts("abcd")},
		{"bit3", texts("101"), texts("1010", "10")},
		{"price", numbers("1.239", "9999.99"), numbers("10000", "9999.995")},
		{"days", texts("1", "1 day 2 hours", "P3DT4H"), texts("x")},
		{"ints", pairs(`[]`, `{}`, `[1,null,3]`, `{1,NULL,3}`, `"{1,2}"`, `{1,2}`), pairs(`[1,2,3,4]`, `{1,2,3,4}`, `["x"]`, `{x}`)},
		{"good_pair", pairs(`{"a":1}`, `(1,)`, `"(2,x)"`, `(2,x)`), pairs(`{"a":0}`, `(0,)`, `{"a":"x"}`, `(x,)`)},
		{"object", asTheyAre(`{}`, `{"a":750727362669608961}`), asTheyAre(`[]`, `1`)},
		{"image", all(texts(`\x`, `\x00ff`), pairs(`"base64:AP9o"`, `\x00ff68`)), texts(`\xzz`)},
		{"email", texts("a@b", "Ä@b"), texts("ab", "")},
		{"year", texts("empty", "[2026,2027)"), texts("[2,1)")},
	}
}

func arrayKinds() []kind {
	odd := `["a","b,c","q\"q","{}","","NULL",null," ","back\\slash","it's","ö👍","null"]`
	oddLiteral := `{a,"b,c","q\"q","{}","","NULL",NULL," ","back\\slash",it's,ö👍,"null"}`
	long := strings.TrimSuffix(strings.Repeat("7,", 5000), ",")
	return []kind{
		{"bools", pairs(`[]`, `{}`, `[true,false,null]`, `{t,f,NULL}`, `[[true],[false]]`, `{{t},{f}}`), pairs(`["x"]`, `{x}`, `true`, `t`)},
		{"int4s", pairs(`[]`, `{}`, `[1,-2147483648,null]`, `{1,-2147483648,NULL}`, `[null]`, `{NULL}`, `[[1,2],[3,null]]`, `{{1,2},{3,NULL}}`,
			`[[[[1]]]]`, `{{{{1}}}}`, `"{1,2}"`, `{1,2}`,
			`["7"]`, `{7}`, "["+long+"]", "{"+long+"}"),
			pairs(`[1,"x"]`, `{1,x}`, `[2147483648]`, `{2147483648}`, `[[1],[2,3]]`, `{{1},{2,3}}`, `[1,[2]]`, `{1,{2}}`, `1`, `1`, `"x"`, `x`,
				`[1.5]`, `{1.5}`, `[[[[[[[1]]]]]]]`, `{{{{{{{1}}}}}}}`)},
		{"int8s", pairs(`[9007199254740993,9223372036854775807]`, `{9007199254740993,9223372036854775807}`), pairs(`[9223372036854775808]`, `{9223372036854775808}`)},
		{"numerics", pairs(`[1.10,1e400,"NaN","-Infinity",0.0]`, `{1.10,1e400,NaN,-Infinity,0.0}`), pairs(`["x"]`, `{x}`)},
		{"prices", pairs(`[1.239,null]`, `{1.239,NULL}`), pairs(`[10000]`, `{10000}`)},
		{"float8s", pairs(`[0.1,5e-324,"Infinity","NaN",-0]`, `{0.1,5e-324,Infinity,NaN,-0}`), pairs(`[1e309]`, `{1e309}`)},
		{"texts", pairs(odd, oddLiteral, `[]`, `{}`, `[["a"],["b"]]`, `{{a},{b}}`, `[1.10,true]`, `{1.10,true}`, `[""]`, `{""}`), pairs(`"a"`, `a`)},
		{"varchar_3s", pairs(`["abc","ab "]`, `{abc,"ab "}`), pairs(`["abcd"]`, `{abcd}`)},
		{"char_3s", pairs(`["a","abc"]`, `{a,abc}`), pairs(`["abcd"]`, `{abcd}`)},
		{"bit_3s", pairs(`["101"]`, `{101}`), pairs(`["1010"]`, `{1010}`, `["10"]`, `{10}`)},
		{"names", pairs(`["Mixed",""]`, `{Mixed,""}`), nil},
		{"byteas", pairs(`["\\x00ff","\\x",null]`, `{"\\x00ff","\\x",NULL}`), pairs(`["\\xz"]`, `{"\\xz"}`)},
		{"uuids", pairs(`["6F1C2A9E-0D53-4B0E-9A39-0D6F5A1C7E11"]`, `{6F1C2A9E-0D53-4B0E-9A39-0D6F5A1C7E11}`), pairs(`["x"]`, `{x}`)},
		{"moods", pairs(`["sad",null,"very happy","","it's \"fine\", {really} \\ (so)"]`,
			`{sad,NULL,"very happy","","it's \"fine\", {really} \\ (so)"}`), pairs(`["Sad"]`, `{Sad}`)},
		{"dates", pairs(`["2026-02-28","infinity",null,"0044-03-15 BC"]`, `{2026-02-28,infinity,NULL,"0044-03-15 BC"}`), pairs(`["2024-02-30"]`, `{2024-02-30}`)},
		{"times", pairs(`["24:00:00"]`, `{24:00:00}`), pairs(`["25:00"]`, `{25:00}`)},
		{"timestamptzs", pairs(`["2026-02-28T12:00:00.123456+02:00","-infinity"]`, `{"2026-02-28 12:00:00.123456+02",-infinity}`), pairs(`["x"]`, `{x}`)},
		{"intervals", pairs(`["1 day 02:03:04"]`, `{"1 day 02:03:04"}`), pairs(`["x"]`, `{x}`)},
		{"jsons", pairs(`[{"a" : 1},"x",1e400,true]`, `{"{\"a\" : 1}","\"x\"",1e400,true}`), nil},
		{"jsonbs", pairs(`[{"a":1},"x",1.10,null]`, `{"{\"a\":1}","\"x\"",1.10,NULL}`, `[[{"a":1}],[{"b":2}]]`, `{{"{\"a\":1}"},{"{\"b\":2}"}}`), nil},
		{"inets", pairs(`["10.0.0.1/8"]`, `{10.0.0.1/8}`), pairs(`["x"]`, `{x}`)},
		{"points", pairs(`["(1,2)",null]`, `{"(1,2)",NULL}`), pairs(`["x"]`, `{x}`)},
		{"boxes", pairs(`["(1,1),(0,0)","(2,2),(1,1)"]`, `{(1,1),(0,0);(2,2),(1,1)}`), pairs(`["x"]`, `{x}`)},
		{"int4ranges", pairs(`["[1,5)","empty",null]`, `{"[1,5)",empty,NULL}`), pairs(`["[5,1)"]`, `{"[5,1)"}`)},
		{"multiranges", pairs(`["{[1,5),[7,9)}","{}"]`, `{"{[1,5),[7,9)}","{}"}`), pairs(`["x"]`, `{x}`)},
		{"tsvectors", pairs(`["'a':1 'b':2"]`, `{"'a':1 'b':2"}`), nil},
		{"xmls", pairs(`["<a/>"]`, `{<a/>}`), pairs(`["<a>"]`, `{<a>}`)},
		{"citexts", pairs(`["Mixed",null]`, `{Mixed,NULL}`), nil},
		{"ltrees", pairs(`["a.b",null]`, `{a.b,NULL}`), nil},
		{"pairs", pairs(`[{"a":1,"b":"x,y"},null,{}]`, `{"(1,\"x,y\")",NULL,"(,)"}`, `[]`, `{}`, `["(1,x)"]`, `{"(1,x)"}`, `[[{"a":1}],[{"a":2}]]`,
			`{{"(1,)"},{"(2,)"}}`), pairs(`[{"a":"x"}]`, `{"(x,)"}`)},
		{"positives", pairs(`[1,null,3]`, `{1,NULL,3}`), pairs(`[1,0]`, `{1,0}`)},
	}
}
