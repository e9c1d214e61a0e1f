package legacy_test

const seeItems = `SELECT concat_ws('|', id, status, n) FROM old.items WHERE k = '$k' ORDER BY id`

const givenItem = `INSERT INTO old.items VALUES ('$k', 1, 'a', 1)`

var viewScenarios = map[string]scenario{
	"AViewIsWrittenThrough": {
		path: "plain_view", prefer: full, body: `{"number":1,"k":"$k","status":"x"}`,
		answer: `[{"number":1,"k":"$k","status":"x","n":1}]`, sees: seeItems, rows: "1|x|1",
	},
	"ABatchGoesThroughAView": {
		path: "plain_view", body: `[{"number":1,"k":"$k"},{"number":2,"k":"$k","n":null}]`,
		sees: seeItems, rows: "1|a|1 2|a",
	},
	"AViewIsUpdatedThrough": {
		given:  givenItem,
		method: patch, path: "plain_view?k=eq.$k&number=eq.1&select=n", prefer: full, body: `{"n":5}`,
		answer: `[{"n":5}]`, sees: seeItems, rows: "1|a|5",
	},
	"AViewIsDeletedThrough": {
		given:  givenItem,
		method: del, path: "plain_view?k=eq.$k&number=eq.1",
		sees: seeItems,
	},
	"AViewIsMergedIntoByAnyKey": {
		given: givenItem,
		path:  "plain_view?on_conflict=k,number", prefer: merge, body: `{"number":1,"k":"$k","n":9}`,
		sees: seeItems, rows: "1|a|9",
	},
	"AViewHasNoPrimaryKeyToMerge": {
		given: givenItem,
		path:  "plain_view", prefer: merge, body: `{"number":1,"k":"$k","n":9}`,
		refused: "422 no_conflict_key no_conflict_key", sees: seeItems, rows: "1|a|1",
	},
	"AKeyOfTheTableIsNoneOfAView": {
		path: "plain_view?on_conflict=number", prefer: merge, body: `{"number":1,"k":"$k"}`,
		refused: "422 no_conflict_key 42P10", sees: seeItems,
	},
	"ABarrierViewIsWrittenThrough": {
		given:  givenItem,
		method: patch, path: "barrier_view?k=eq.$k&id=eq.1", body: `{"n":200}`,
		sees: seeItems, rows: "1|a|200",
	},
	"WhatABarrierHidesIsNotThere": {
		given:  `INSERT INTO old.items VALUES ('$k', 1, 'a', 100)`,
		method: patch, path: "barrier_view?k=eq.$k", prefer: full, body: `{"n":5}`,
		answer: "[]", header: "*/*", sees: seeItems, rows: "1|a|100",
	},

	"ACheckedViewTakesWhatItShows": {
		path: "checked_view", body: `{"k":"$k","id":1,"status":"b"}`,
		sees: seeItems, rows: "1|b|1",
	},
	"ACheckedViewTakesNothingElse": {
		path: "checked_view", body: `{"k":"$k","id":10,"status":"b"}`,
		refused: "422 check_option_violation 44000", sees: seeItems,
	},
	"ACheckedViewAsksTheViewBelow": {
		path: "checked_view", body: `{"k":"$k","id":1,"status":"c"}`,
		refused: "422 check_option_violation 44000", sees: seeItems,
	},
	"ALocalCheckDoesNotAskIt": {
		path: "locally_checked_view", body: `{"k":"$k","id":1,"status":"c"}`,
		sees: seeItems, rows: "1|c|1",
	},
	"ACheckedViewIsNotLeftByAnUpdate": {
		given:  givenItem,
		method: patch, path: "checked_view?k=eq.$k&id=eq.1", body: `{"status":"c"}`,
		refused: "422 check_option_violation 44000", sees: seeItems, rows: "1|a|1",
	},
	"ACheckedViewIsNotLeftByAnUpsert": {
		given: givenItem,
		path:  "checked_view?on_conflict=k,id", prefer: merge, body: `{"k":"$k","id":1,"status":"c"}`,
		refused: "422 check_option_violation 44000", sees: seeItems, rows: "1|a|1",
	},
	"AColumnThatIsAnExpressionIsReadOnly": {
		path: "half_view", body: `{"k":"$k","id":1,"twice":4}`,
		refused: "422 not_possible_here 0A000", sees: seeItems,
	},
	"TheOtherColumnsAreNot": {
		given:  givenItem,
		method: patch, path: "half_view?k=eq.$k&id=eq.1&select=twice", prefer: full, body: `{"n":4}`,
		answer: `[{"twice":8}]`, sees: seeItems, rows: "1|a|4",
	},
	"AViewOfSumsIsNotInsertedInto": {
		path: "sums_view", body: `{"k":"$k","n":1}`,
		refused: "422 not_updatable 55000", sees: seeItems,
	},
	"AViewOfSumsIsNotUpdated": {
		given:  givenItem,
		method: patch, path: "sums_view?k=eq.$k", body: `{"n":1}`,
		refused: "422 not_updatable 55000", sees: seeItems, rows: "1|a|1",
	},
	"AViewOfSumsIsNotDeletedFrom": {
		given:  givenItem,
		method: del, path: "sums_view?k=eq.$k",
		refused: "422 not_updatable 55000", sees: seeItems, rows: "1|a|1",
	},
	"ATriggerInsteadOfInsertAnswersItsRow": {
		path: "instead_view?select=id,status,total", prefer: full, body: `{"k":"$k","id":1,"status":"new"}`,
		answer: `[{"id":1,"status":"NEW","total":null}]`, sees: seeItems, rows: "1|NEW|1",
	},
	"ATriggerInsteadOfUpdateAnswersItsRow": {
		given:  givenItem,
		method: patch, path: "instead_view?k=eq.$k&id=eq.1&select=status,total", prefer: full, body: `{"status":"b"}`,
		answer: `[{"status":"B","total":1}]`, sees: seeItems, rows: "1|B|1",
	},
	"ATriggerInsteadOfDeleteAnswersItsRow": {
		given:  givenItem,
		method: del, path: "instead_view?k=eq.$k&id=eq.1&select=id", prefer: full,
		answer: `[{"id":1}]`, sees: seeItems,
	},
	"ATriggerInsteadThatDeclinesTouchesNothing": {
		given:  givenItem,
		method: patch, path: "instead_view?k=eq.$k", prefer: full + ",count=exact", body: `{"status":"skip"}`,
		answer: "[]", header: "*/0", sees: seeItems, rows: "1|a|1",
	},
	"ATriggerInsteadDoesNotLeaveTheLock": {
		given:  givenItem,
		method: patch, path: "instead_view?k=eq.$k", body: `{"status":"stray"}`,
		refused: "403 lock_scope lock_scope", sees: seeItems, rows: "1|a|1",
	},
	"ATriggerInsteadDoesNotInsertElsewhere": {
		path: "instead_view", body: `{"k":"$k","id":1,"status":"stray"}`,
		refused: "403 lock_scope lock_scope", sees: seeItems,
	},
	"ARuleThatReturnsItsRowIsFollowed": {
		path: "ruled_view", prefer: full, body: `{"k":"$k","id":1,"status":"B"}`,
		answer: `[{"k":"$k","id":1,"status":"b"}]`, sees: seeItems, rows: "1|b|1",
	},
	"ATableWithARuleThatDoesMoreIsNotWritten": {
		given:  `INSERT INTO old.logged VALUES ('$k', 'a')`,
		method: patch, path: "logged?k=eq.$k", body: `{"v":"b"}`,
		refused: "422 not_possible_here 0A000",
		sees:    `SELECT v FROM old.logged WHERE k = '$k' UNION ALL SELECT v FROM old.log WHERE k = '$k'`, rows: "a",
	},
	"ATableWithARuleIsWrittenWhereTheRuleIsNotMeant": {
		path: "logged", body: `{"k":"$k","v":"b"}`,
		sees: `SELECT v FROM old.logged WHERE k = '$k' UNION ALL SELECT v FROM old.log WHERE k = '$k'`, rows: "b",
	},
	"ATableWithARuleThatDoesNothingIsNotDeletedFrom": {
		given:  `INSERT INTO old.kept VALUES ('$k', 'a')`,
		method: del, path: "kept?k=eq.$k",
		refused: "422 not_possible_here 0A000", sees: `SELECT v FROM old.kept WHERE k = '$k'`, rows: "a",
	},
	"WhatAnUpdateReturnsIsNotFilteredByItsNewValues": {
		given:  givenItem,
		method: patch, path: "items?k=eq.$k&status=eq.a", prefer: full, body: `{"status":"b"}`,
		answer: `[{"k":"$k","id":1,"status":"b","n":1}]`, sees: seeItems, rows: "1|b|1",
	},
	"WhatAViewNoLongerShowsIsStillReturned": {
		given:  givenItem,
		method: patch, path: "barrier_view?k=eq.$k&select=id,n", prefer: full, body: `{"n":101}`,
		answer: `[{"id":1,"n":101}]`, sees: seeItems, rows: "1|a|101",
	},
}
