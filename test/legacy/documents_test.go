package legacy_test

import "strings"

// asTheyAre are values whose JSON is PostgreSQL's literal.
func asTheyAre(texts ...string) []value {
	values := make([]value, len(texts))
	for i, text := range texts {
		values[i] = value{text, quote(text)}
	}
	return values
}

func documentKinds() []kind {
	deep := strings.Repeat("[", 60) + strings.Repeat("]", 60)
	documents := asTheyAre(`{}`, `[]`, `""`, `"text"`, `0`, `-0`, `1.10`, `1e400`, `-1E-400`, `true`, `false`, `750727362669608961`, `9007199254740993`,
		`{"a":750727362669608961,"b":1e400,"c":1.10000}`, `{"b" : 1 ,  "a":[1, 2 ,null]}`, `{"z":1,"a":2,"m":3}`, `{"":1," ":2,"null":null}`, `[null]`, `{"a":null}`,
		`{"nested":{"deeper":[{"x":"\"\\"}]}}`, `"Grüße 中文 👩‍👩‍👧‍👦 é"`, `"line\nfeed\ttab"`, `{"👍":"e`+"\u0301"+`"}`, deep, strings.Repeat("1234567890", 100))
	return []kind{
		{"json", documents, nil},
		{"jsonb", documents, asTheyAre(`1e999999`, `[1e999999]`)},
		{"jsonpath", texts("$", "$.a[*] ? (@.x > 1)", "strict $.\"odd, name\"", "lax $[0 to last]"), nil},
		{"xml", texts("<a/>", `<?xml version="1.0" standalone="yes"?><a b="c">d &amp; e</a>`, "just content", "", "<a>ä中👍</a>", "<a/><b/>"),
			texts("<a>", "<a></b>", "&nope;")},
		{"tsvector", texts("", "a fat cat", "'a':1A 'fat':2,3B", "'it''s' 'odd, \"one\"'", "'größe':1"), nil},
		{"tsquery", texts("", "fat & rat", "'a' & !'b' | 'c':*AB <2> 'd'", "fat <-> rat"), nil},
	}
}

func placeKinds() []kind {
	return []kind{
		{"inet", texts("10.0.0.1", "10.0.0.1/8", "::1", "2001:db8::1/64", "::ffff:1.2.3.4", "0.0.0.0/0", "FE80::1"), texts("", "256.1.1.1", "10.0.0.1/33", "x")},
		{"cidr", texts("10.0.0.0/8", "10", "192.168.1.1/32", "2001:db8::/32", "::/0"), texts("10.0.0.1/8", "")},
		{"macaddr", texts("08:00:2b:01:02:03", "08-00-2B-01-02-03", "08002b:010203", "0800.2b01.0203"), texts("08:00:2b:01:02", "", "08:00:2b:01:02:0g")},
		{"macaddr8", texts("08:00:2b:01:02:03:04:05", "08:00:2b:01:02:03", "08002b0102030405"), texts("08", "")},
		{"point", texts("(1,2)", "-0.5,1e300", "(Infinity,NaN)", "(0.30000000000000004,5e-324)"), texts("", "(1)", "1", "(1e309,0)")},
		{"line", texts("{1,2,3}", "[(0,0),(1,1)]", "{0.1,-0.2,0}"), texts("{0,0,1}", "[(1,1),(1,1)]", "")},
		{"lseg", texts("[(0,0),(1,1)]", "((0,0),(1,1))", "0,0,1,1"), texts("[(0,0)]", "")},
		{"box", texts("((0,0),(1,1))", "(1,1),(0,0)", "(0,1),(1,0)"), texts("(1,1)", "")},
		{"path", texts("[(0,0),(1,1),(2,0)]", "((0,0),(1,1),(2,0))", "(0,0)"), texts("[]", "")},
		{"polygon", texts("((0,0),(1,1),(2,0))", "(0,0)", "(0,0),(0,1),(1,1),(1,0)"), texts("()", "")},
		{"circle", texts("<(0,0),1>", "((1,2),3)", "1,2,0", "<(0,0),Infinity>"), texts("<(0,0),-1>", "")},
	}
}

func systemKinds() []kind {
	return []kind{
		{"oid", numbers("0", "2147483648", "4294967295", "-1"), all(numbers("4294967296"), texts("", "x"))},
		{"xid", numbers("3", "4294967295"), nil},
		{"xid8", numbers("3", "18446744073709551615"), nil},
		{"cid", numbers("0", "4294967295"), nil},
		{"tid", texts("(0,1)", "(4294967295,65535)"), texts("", "(0,65536)", "0,1")},
		{"pg_lsn", texts("0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF"), texts("", "x", "1/100000000")},
		{"txid_snapshot", texts("10:20:10,14,15", "1:1:"), texts("20:10:", "")},
		{"pg_snapshot", texts("10:20:10,14,15", "1:1:"), texts("20:10:", "")},
		{"refcursor", texts("", "a cursor"), nil},
		{"aclitem", texts("postgres=arwdDxt/postgres", "=r/postgres"), texts("postgres=y/postgres", "")},
		{"regclass", texts("pg_class", "legacy.wide", "1259", "-", "4294967295"), texts("4294967296")},
		{"regcollation", texts(`"C"`, `pg_catalog."default"`, "-"), nil},
		{"regconfig", texts("english", "pg_catalog.simple", "-"), nil},
		{"regdictionary", texts("simple", "-"), nil},
		{"regnamespace", texts("legacy", "pg_catalog", "-"), nil},
		{"regoper", texts("||/", "|/"), nil},
		{"regoperator", texts("+(integer,integer)", "0"), nil},
		{"regproc", texts("now", "pg_catalog.now", "-"), nil},
		{"regprocedure", texts("now()", "pg_catalog.abs(numeric)", "-"), nil},
		{"regrole", texts("postgres", "-"), nil},
		{"regtype", texts("integer", "legacy.mood", "timestamp with time zone", `legacy."Odd, ""domain"""`, "integer[]", "-"), nil},
	}
}

func extensionKinds() []kind {
	return []kind{
		{"hstore", all(texts("", "a=>1", `"a b"=>"x,y", "c"=>NULL, "ö"=>""`), pairs(`{}`, ``, `{"a":"1","b":null,"c d":"\"\\"}`, `a=>1,b=>NULL,"c d"=>"\"\\"`)), nil},
		{"ltree", texts("", "Top", "Top.Science.Astronomy", "x_1.A"), nil},
		{"lquery", texts("Top.*", "Top.*{1,2}.sport*@|tennis.!football%"), nil},
		{"ltxtquery", texts("Europe & Russia*@ & !Transportation"), nil},
		{"cube", texts("1", "(1,2,3)", "(0,0),(1,1)", "(0.30000000000000004)"), texts("x", "(1,2),(1)")},
		{"seg", texts("1.50", "1 .. 2", "~5.0", "1(+-)0.1", "5 ..", ".. 7"), nil},
		{"isbn13", texts("978-0-393-04002-9", "9780393040029"), texts("978-0-393-04002-8", "x", "")},
		{"lo", numbers("0", "4294967295"), nil},
	}
}
