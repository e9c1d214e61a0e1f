package legacy_test

const (
	seeTriggered   = `SELECT concat_ws('|', id, v, changed) FROM old.triggered WHERE k = '$k' ORDER BY id`
	givenTriggered = `INSERT INTO old.triggered VALUES ('$k', 1, 'a')`
	seeNodes       = `SELECT concat_ws('|', id, parent) FROM old.nodes WHERE k = '$k' ORDER BY id`
	seeHasty       = `SELECT concat_ws('|', id, parent) FROM old.hasty_nodes WHERE k = '$k' ORDER BY id`
	seeRanks       = `SELECT concat_ws('|', id, rank) FROM old.ranks WHERE k = '$k' ORDER BY id`
	givenRanks     = `INSERT INTO old.ranks VALUES ('$k', 1, 1), ('$k', 2, 2)`
)

var triggerScenarios = map[string]scenario{
	"WhatATriggerChangesIsWhatIsAnswered": {
		path: "triggered", prefer: full, body: `{"k":"$k","id":1,"v":"x"}`,
		answer: `[{"k":"$k","id":1,"v":"X","changed":1}]`, sees: seeTriggered, rows: "1|X|1",
	},
	"ATriggerChangesAnUpdateToo": {
		given:  givenTriggered,
		method: patch, path: "triggered?k=eq.$k&select=v,changed", prefer: full, body: `{"v":"b"}`,
		answer: `[{"v":"B","changed":2}]`, sees: seeTriggered, rows: "1|B|2",
	},
	"ATriggerChangesAnUpsertTwice": {
		given: givenTriggered,
		path:  "triggered?select=v,changed", prefer: full + "," + merge, body: `{"k":"$k","id":1,"v":"b"}`,
		answer: `[{"v":"B","changed":2}]`, sees: seeTriggered, rows: "1|B|2",
	},
	"ATriggerThatDeclinesAnInsertIsNoError": {
		path: "triggered", prefer: full + ",count=exact", body: `{"k":"$k","id":1,"v":"skip"}`,
		answer: "[]", header: "*/0", sees: seeTriggered,
	},
	"ATriggerMayDeclineSomeRowsOfABatch": {
		path: "triggered?select=id", prefer: full + ",count=exact", body: `[{"k":"$k","id":1,"v":"x"},{"k":"$k","id":2,"v":"skip"},{"k":"$k","id":3,"v":"y"}]`,
		answer: `[{"id":1},{"id":3}]`, header: "0-1/2", sees: seeTriggered, rows: "1|X|1 3|Y|1",
	},
	"ATriggerThatDeclinesAnUpdateIsNoError": {
		given:  givenTriggered,
		method: patch, path: "triggered?k=eq.$k", prefer: "count=exact", body: `{"v":"skip"}`,
		header: "*/0", sees: seeTriggered, rows: "1|A|1",
	},
	"ATriggerThatDeclinesAnUpsertIsNoError": {
		given: givenTriggered,
		path:  "triggered", prefer: merge, body: `{"k":"$k","id":1,"v":"skip"}`,
		sees: seeTriggered, rows: "1|A|1",
	},
	"ATriggerThatKeepsTheOldRowCountsItAnyway": {
		given:  givenTriggered,
		method: patch, path: "triggered?k=eq.$k&select=v", prefer: full + ",count=exact", body: `{"v":"as it was"}`,
		answer: `[{"v":"A"}]`, header: "0-0/1", sees: seeTriggered, rows: "1|A|1",
	},
	"AnUpdateOfNothingNewMayBeDeclined": {
		given:  `INSERT INTO old.unchanging VALUES ('$k', 'x')`,
		method: patch, path: "unchanging?k=eq.$k", prefer: full, body: `{"v":"x"}`,
		answer: "[]", sees: `SELECT v FROM old.unchanging WHERE k = '$k'`, rows: "x",
	},
	"ATriggerDoesNotMoveARowOutOfTheLock": {
		given:  givenTriggered,
		method: patch, path: "triggered?k=eq.$k", body: `{"v":"stray"}`,
		refused: "403 lock_scope lock_scope", sees: seeTriggered, rows: "1|A|1",
	},
	"ATriggerDoesNotInsertUnderAnotherLock": {
		path: "triggered", body: `[{"k":"$k","id":1,"v":"x"},{"k":"$k","id":2,"v":"stray"}]`,
		refused: "403 lock_scope lock_scope", sees: seeTriggered,
	},
	"ATriggerDoesNotMergeUnderAnotherLock": {
		given: givenTriggered,
		path:  "triggered", prefer: merge, body: `{"k":"$k","id":1,"v":"stray"}`,
		refused: "403 lock_scope lock_scope", sees: seeTriggered, rows: "1|A|1",
	},
	"WhatATriggerWritesElsewhereIsNotAnswered": {
		path: "triggered", prefer: "count=exact", body: `{"k":"$k","id":1,"v":"log"}`,
		header: "0-0/1", sees: `SELECT v FROM old.log WHERE k = '$k'`, rows: "LOG",
	},
	"ATriggerThatRaisesTakesAllWithIt": {
		path: "triggered", body: `[{"k":"$k","id":1,"v":"x"},{"k":"$k","id":2,"v":"too late"},{"k":"$k","id":3}]`,
		refused: "422 raised_by_database P0001", sees: seeTriggered,
	},
	"ATriggerThatRaisesKeepsWhatWasThere": {
		given:  givenTriggered,
		method: patch, path: "triggered?k=eq.$k", body: `{"v":"too late"}`,
		refused: "422 raised_by_database P0001", sees: seeTriggered, rows: "1|A|1",
	},
	"ATriggerThatDividesByZero": {
		path: "triggered", body: `{"k":"$k","id":1,"v":"divide"}`,
		refused: "422 invalid_value 22012", sees: seeTriggered,
	},
	"AnOverflowInATriggerIsOutOfRange": {
		path: "triggered", body: `{"k":"$k","id":1,"v":"overflow"}`,
		refused: "422 invalid_value 22003", sees: seeTriggered,
	},
	"ATriggerOnTheStatementSeesTheBatch": {
		path: "triggered", body: `[{"k":"$k","id":1,"v":"crowd"},{"k":"$k","id":2,"v":"crowd"}]`,
		refused: "422 raised_by_database P0001", sees: seeTriggered,
	},
	"ATriggerAtTheEndRefusesTheCommit": {
		given: givenTriggered,
		path:  "triggered", body: `[{"k":"$k","id":2},{"k":"$k","id":3},{"k":"$k","id":4}]`,
		refused: "422 raised_by_database P0001", sees: seeTriggered, rows: "1|A|1",
	},
	"ATriggerAtTheEndRefusesARepresentationToo": {
		path: "triggered", prefer: full, body: `[{"k":"$k","id":1},{"k":"$k","id":2},{"k":"$k","id":3},{"k":"$k","id":4}]`,
		refused: "422 raised_by_database P0001", sees: seeTriggered,
	},
	"ATriggerAtTheEndThatIsContentLetsItCommit": {
		path: "triggered", body: `[{"k":"$k","id":1},{"k":"$k","id":2},{"k":"$k","id":3}]`,
		sees: seeTriggered, rows: "1|1 2|1 3|1",
	},
	"ATriggerAtTheEndSeesAllStatementsOfARequest": {
		path: "triggered", body: `[{"k":"$k","id":1},{"k":"$k","id":2,"v":"x"},{"k":"$k","id":3},{"k":"$k","id":4,"v":"x"}]`,
		refused: "422 raised_by_database P0001", sees: seeTriggered,
	},
}

var constraintScenarios = map[string]scenario{
	"AReferenceMayComeBeforeWhatItRefersTo": {
		path: "nodes", body: `[{"k":"$k","id":1,"parent":2},{"k":"$k","id":2}]`,
		sees: seeNodes, rows: "1|2 2",
	},
	"AReferenceThatIsOpenAtTheEndIsRefused": {
		path: "nodes", body: `[{"k":"$k","id":1,"parent":2}]`,
		refused: "409 foreign_key_violation 23503", constraint: "nodes_parent", sees: seeNodes,
	},
	"AReferenceThatAnUpdateBreaksIsRefused": {
		given:  `INSERT INTO old.nodes VALUES ('$k', 1, 2), ('$k', 2, NULL)`,
		method: del, path: "nodes?k=eq.$k&id=eq.2",
		refused: "409 foreign_key_violation 23503", constraint: "nodes_parent", sees: seeNodes, rows: "1|2 2",
	},
	"AReferenceThatMustHoldAtOnceIsRefused": {
		path: "hasty_nodes", body: `[{"k":"$k","id":1,"parent":2},{"k":"$k","id":2}]`,
		refused: "409 foreign_key_violation 23503", constraint: "hasty_nodes_parent", sees: seeHasty,
	},
	"WithinOneStatementItMayComeBefore": {
		path: "hasty_nodes", body: `[{"k":"$k","id":1,"parent":2},{"k":"$k","id":2,"parent":null}]`,
		sees: seeHasty, rows: "1|2 2",
	},
	"RanksAreSwappedInOneUpsertByTheOtherKey": {
		given: givenRanks,
		path:  "ranks", prefer: merge, body: `[{"k":"$k","id":1,"rank":2},{"k":"$k","id":2,"rank":1}]`,
		sees: seeRanks, rows: "1|2 2|1",
	},
	"TwoOfOneRankAreRefusedAtTheEnd": {
		given:  givenRanks,
		method: patch, path: "ranks?k=eq.$k&id=eq.2", body: `{"rank":1}`,
		refused: "409 unique_violation 23505", constraint: "ranks_once", sees: seeRanks, rows: "1|1 2|2",
	},
	"AConstraintThatCanWaitIsNoConflictKey": {
		given: givenRanks,
		path:  "ranks?on_conflict=k,rank", prefer: merge, body: `{"k":"$k","id":1,"rank":1}`,
		refused: "422 not_updatable 55000", constraint: "ranks_once", sees: seeRanks, rows: "1|1 2|2",
	},
	"AnOverlapIsExcluded": {
		given: `INSERT INTO old.bookings VALUES ('$k', '[1,5)')`,
		path:  "bookings", body: `{"k":"$k","span":"[4,6)"}`,
		refused: "409 exclusion_violation 23P01", constraint: "no_overlap",
		sees: `SELECT span FROM old.bookings WHERE k = '$k'`, rows: "[1,5)",
	},
	"AKeyThatIsNotUniqueIsNoConflictKey": {
		path: "ranks?on_conflict=rank", prefer: merge, body: `{"k":"$k","id":1,"rank":1}`,
		refused: "422 no_conflict_key 42P10", sees: seeRanks,
	},
	"OneRowTwiceInAnUpsertIsRefused": {
		path: "ranks", prefer: merge, body: `[{"k":"$k","id":1,"rank":1},{"k":"$k","id":1,"rank":2}]`,
		refused: "422 same_row_twice 21000", sees: seeRanks,
	},
	"ADeleteCascadesAndAnswersItsOwn": {
		given:  `INSERT INTO old.owners VALUES ('$k', 1); INSERT INTO old.pets VALUES ('$k', 1, 1), ('$k', 2, 1)`,
		method: del, path: "owners?k=eq.$k&id=eq.1", prefer: "count=exact",
		header: "0-0/1", sees: `SELECT id FROM old.pets WHERE k = '$k'`,
	},
	"AReferenceToNothingIsRefusedByName": {
		path: "pets", body: `{"k":"$k","id":3,"owner":404}`,
		refused: "409 foreign_key_violation 23503", constraint: "pets_owner_fkey",
		sees: `SELECT id FROM old.pets WHERE k = '$k'`,
	},
}
