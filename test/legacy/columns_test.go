package legacy_test

const (
	seeAlways   = `SELECT v FROM old.always WHERE k = '$k' ORDER BY id`
	seeDefault  = `SELECT coalesce(id::text, '') || v FROM old.by_default WHERE k = '$k' ORDER BY id`
	seeDefaults = `SELECT concat_ws('|', id, a, b, coalesce(c::text, 'NULL'), u, s, o, coalesce(l, 'NULL'), needed) FROM old.defaults WHERE k = '$k' ORDER BY id`
	seeComputed = `SELECT a || '*2=' || double FROM old.computed WHERE k = '$k'`
)

// columnScenarios are about columns that fill themselves.
var columnScenarios = map[string]scenario{
	"AnIdentityIsGivenByTheDatabase": {
		path: "always?select=v", prefer: full, body: `{"k":"$k","v":"x"}`,
		answer: `[{"v":"x"}]`, sees: seeAlways, rows: "x",
	},
	"AnIdentityThatIsAlwaysGeneratedIsNotWritten": {
		path: "always", body: `{"k":"$k","id":5,"v":"x"}`,
		refused: "422 generated_column 428C9", sees: seeAlways,
	},
	"NorIsNullWrittenThere": {
		path: "always", body: `{"k":"$k","id":null}`,
		refused: "422 generated_column 428C9", sees: seeAlways,
	},
	"NorIsItListedAsMissing": {
		path: "always?columns=k,id,v", body: `[{"k":"$k"}]`,
		refused: "422 generated_column 428C9", sees: seeAlways,
	},
	"ListedAndMissingItIsGenerated": {
		path: "always?columns=k,id,v", prefer: "missing=default", body: `[{"k":"$k","v":"x"}]`,
		sees: seeAlways, rows: "x",
	},
	"NorIsItUpdated": {
		given:  `INSERT INTO old.always (k, v) VALUES ('$k', 'x')`,
		method: patch, path: "always?k=eq.$k", body: `{"id":5,"v":"y"}`,
		refused: "422 generated_column 428C9", sees: seeAlways, rows: "x",
	},
	"NorIsItMergedInto": {
		path: "always", prefer: merge, body: `{"k":"$k","id":5,"v":"y"}`,
		refused: "422 generated_column 428C9", sees: seeAlways,
	},
	"AMixedBatchIsRefusedAsAWhole": {
		path: "always", body: `[{"k":"$k","v":"x"},{"k":"$k","id":5,"v":"y"}]`,
		refused: "422 generated_column 428C9", sees: seeAlways,
	},
	"AnIdentityByDefaultCanBeWritten": {
		path: "by_default", body: `{"k":"$k","id":9007199254740993,"v":"x"}`,
		sees: seeDefault, rows: "9007199254740993x",
	},
	"AnIdentityByDefaultIsNoNull": {
		path: "by_default", body: `{"k":"$k","id":null,"v":"x"}`,
		refused: "422 not_null_violation 23502", column: "id", sees: seeDefault,
	},
	"AnIdentityByDefaultIsMergedInto": {
		given: `INSERT INTO old.by_default (k, id, v) VALUES ('$k', 777, 'old')`,
		path:  "by_default", prefer: merge, body: `{"k":"$k","id":777,"v":"new"}`,
		sees: seeDefault, rows: "777new",
	},
	"ASerialIsCountedOn": {
		path: "serials", body: `[{"k":"$k","v":"a"},{"k":"$k","v":"b"}]`,
		sees: `SELECT v || (id - min(id) OVER ()) FROM old.serials WHERE k = '$k' ORDER BY id`, rows: "a0 b1",
	},
	"ASerialTakesNoNull": {
		path: "serials", body: `{"k":"$k","id":null}`,
		refused: "422 not_null_violation 23502", column: "id", sees: `SELECT v FROM old.serials WHERE k = '$k'`,
	},

	"AComputedColumnComputes": {
		path: "computed", prefer: full, body: `{"k":"$k","a":21}`,
		answer: `[{"k":"$k","a":21,"double":42}]`, sees: seeComputed, rows: "21*2=42",
	},
	"AComputedColumnIsRefused": {
		path: "computed", body: `{"k":"$k","a":1,"double":2}`,
		refused: "422 generated_column 428C9", sees: seeComputed,
	},
	"AComputedColumnOverflows": {
		path: "computed", body: `{"k":"$k","a":2147483647}`,
		refused: "422 invalid_value 22003", sees: seeComputed,
	},
	"AComputedColumnFollowsAnUpdate": {
		given:  `INSERT INTO old.computed VALUES ('$k', 1)`,
		method: patch, path: "computed?k=eq.$k&select=double", prefer: full, body: `{"a":5}`,
		answer: `[{"double":10}]`, sees: seeComputed, rows: "5*2=10",
	},
	"AComputedColumnIsNotUpdated": {
		given:  `INSERT INTO old.computed VALUES ('$k', 1)`,
		method: patch, path: "computed?k=eq.$k", body: `{"double":10}`,
		refused: "422 generated_column 428C9", sees: seeComputed, rows: "1*2=2",
	},
	"AComputedColumnFollowsAnUpsert": {
		given: `INSERT INTO old.computed VALUES ('$k', 1)`,
		path:  "computed", prefer: merge, body: `{"k":"$k","a":6}`,
		sees: seeComputed, rows: "6*2=12",
	},

	"WhatIsAbsentTakesTheDefault": {
		path: "defaults", body: `{"k":"$k","id":1}`,
		sees: seeDefaults, rows: "1|7|b|NULL|0|5|9|LOUD|needed",
	},
	"NullIsNullAndNoDefault": {
		path: "defaults", body: `{"k":"$k","id":1,"a":null,"b":null,"c":null,"l":null}`,
		sees: seeDefaults, rows: "1|NULL|0|5|9|NULL|needed",
	},
	"EachRowOfABatchDecidesForItself": {
		path: "defaults", body: `[{"k":"$k","id":1},{"id":2,"b":null,"k":"$k"},{"k":"$k","id":3,"a":4},{"a":null,"k":"$k","id":4,"b":"x"}]`,
		sees: seeDefaults, rows: "1|7|b|NULL|0|5|9|LOUD|needed 2|7|NULL|0|5|9|LOUD|needed 3|4|b|NULL|0|5|9|LOUD|needed 4|x|NULL|0|5|9|LOUD|needed",
	},
	"MissingNullIsForTheListedColumnsOnly": {
		path: "defaults?columns=k,id,a", body: `[{"k":"$k","id":1}]`,
		sees: seeDefaults, rows: "1|b|NULL|0|5|9|LOUD|needed",
	},
	"AnUpdateTouchesWhatItNamesOnly": {
		given:  `INSERT INTO old.defaults (k, id, a, c) VALUES ('$k', 1, 1, 1)`,
		method: patch, path: "defaults?k=eq.$k", body: `{"b":"x"}`,
		sees: seeDefaults, rows: "1|1|x|1|0|5|9|LOUD|needed",
	},
	"AnUpsertTouchesWhatItNamesOnly": {
		given: `INSERT INTO old.defaults (k, id, a, c) VALUES ('$k', 1, 1, 1)`,
		path:  "defaults", prefer: merge, body: `{"k":"$k","id":1,"b":"x"}`,
		sees: seeDefaults, rows: "1|1|x|1|0|5|9|LOUD|needed",
	},
	"ADomainMayForbidNull": {
		path: "defaults", body: `{"k":"$k","id":1,"u":null}`,
		refused: "422 not_null_violation 23502", sees: seeDefaults,
	},
	"ADomainOfADomainForbidsItToo": {
		path: "defaults", body: `{"k":"$k","id":1,"s":null}`,
		refused: "422 not_null_violation 23502", sees: seeDefaults,
	},
	"ADomainForbidsNullInAnUpdate": {
		given:  `INSERT INTO old.defaults (k, id) VALUES ('$k', 1)`,
		method: patch, path: "defaults?k=eq.$k", body: `{"o":null}`,
		refused: "422 not_null_violation 23502", sees: seeDefaults, rows: "1|7|b|NULL|0|5|9|LOUD|needed",
	},
	"ADomainMayCheck": {
		path: "defaults", body: `{"k":"$k","id":1,"u":-1}`,
		refused: "422 check_violation 23514", constraint: "uint_check", sees: seeDefaults,
	},
	"ADomainOfADomainChecksBoth": {
		path: "defaults", body: `{"k":"$k","id":1,"s":-1}`,
		refused: "422 check_violation 23514", constraint: "uint_check", sees: seeDefaults,
	},
	"ADomainOfADomainChecksItsOwn": {
		path: "defaults", body: `{"k":"$k","id":1,"s":100}`,
		refused: "422 check_violation 23514", constraint: "small_uint_check", sees: seeDefaults,
	},
	"AMissingValueIsRefusedByName": {
		path: "defaults", body: `{"k":"$k"}`,
		refused: "422 not_null_violation 23502", column: "id", sees: seeDefaults,
	},
	"NullIntoWhatMustNotBeIsRefused": {
		path: "defaults", body: `{"k":"$k","id":1,"needed":null}`,
		refused: "422 not_null_violation 23502", column: "needed", sees: seeDefaults,
	},
	"NothingButDefaultsIsARow": {
		path: "uniques?columns=k,id", body: `[{"k":"$k","id":1}]`,
		sees: `SELECT num_nulls(t, i, z) FROM old.uniques WHERE k = '$k'`, rows: "3",
	},
	"NullIntoUniqueColumnsStaysNull": {
		path: "uniques", body: `[{"k":"$k","id":1,"t":null,"i":null,"z":null},{"k":"$k","id":2,"t":null,"i":null,"z":null}]`,
		sees: `SELECT num_nulls(t, i, z) FROM old.uniques WHERE k = '$k'`, rows: "3 3",
	},
	"TheEmptyStringIsNoNumber": {
		path: "uniques", body: `{"k":"$k","id":1,"i":""}`,
		refused: "422 invalid_value 22P02", sees: `SELECT id FROM old.uniques WHERE k = '$k'`,
	},
	"TheEmptyStringIsNoTime": {
		path: "uniques", body: `{"k":"$k","id":1,"z":""}`,
		refused: "422 invalid_value 22007", sees: `SELECT id FROM old.uniques WHERE k = '$k'`,
	},
	"TheEmptyStringIsTextAndNotNull": {
		path: "uniques", body: `{"k":"$k","id":1,"t":""}`,
		sees: `SELECT quote_nullable(t) FROM old.uniques WHERE k = '$k'`, rows: "''",
	},
	"APrimaryKeyIsNeverNull": {
		path: "uniques", body: `{"k":"$k","id":null}`,
		refused: "422 not_null_violation 23502", column: "id", sees: `SELECT id FROM old.uniques WHERE k = '$k'`,
	},
	"AnUpsertOfAPartNeedsWhatAnInsertDoes": {
		given: `INSERT INTO old.strict VALUES ('$k', 1, 'b', 1)`,
		path:  "strict", prefer: merge, body: `{"k":"$k","n":2}`,
		refused: "422 not_null_violation 23502", column: "a", sees: `SELECT n FROM old.strict WHERE k = '$k'`, rows: "1",
	},
}
