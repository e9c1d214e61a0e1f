package legacy_test

const (
	seeSales    = `SELECT concat_ws('|', tableoid::regclass, day, id, v) FROM old.sales WHERE k = '$k' ORDER BY day, id`
	givenSale   = `INSERT INTO old.sales VALUES ('$k', '2025-12-31', 1, 'x')`
	seeVehicles = `SELECT concat_ws('|', tableoid::regclass, id, wheels) FROM old.vehicles WHERE k = '$k' ORDER BY 1`
	givenTruck  = `INSERT INTO old.trucks VALUES ('$k', 1, 6, 40)`
)

var partitionScenarios = map[string]scenario{
	"RowsFindTheirPartitions": {
		path: "sales", prefer: full + ",count=exact", body: `[{"k":"$k","day":"2025-01-01","id":1},{"k":"$k","day":"2026-12-31","id":2,"v":null}]`,
		header: "0-1/2", answer: `[{"k":"$k","day":"2025-01-01","id":1,"v":"v"},{"k":"$k","day":"2026-12-31","id":2,"v":null}]`,
		sees: `SELECT concat_ws('|', day, id, v) FROM old.sales WHERE k = '$k' ORDER BY day`, rows: "2025-01-01|1|v 2026-12-31|2",
	},
	"AMissingPartitionIsACheckWithoutAName": {
		path: "sales", body: `[{"k":"$k","day":"2025-01-01","id":1},{"k":"$k","day":"2027-01-01","id":1}]`,
		refused: "422 check_violation 23514", sees: seeSales,
	},
	"AnUpsertOnTheParentMerges": {
		given: givenSale,
		path:  "sales", prefer: merge, body: `[{"k":"$k","day":"2025-12-31","id":1,"v":"y"},{"k":"$k","day":"2025-01-01","id":1,"v":"z"}]`,
		sees: seeSales, rows: "old.sales_2025|2025-01-01|1|z old.sales_2025|2025-12-31|1|y",
	},
	"AnUpsertOnTheParentIgnores": {
		given: givenSale,
		path:  "sales?select=v", prefer: "resolution=ignore-duplicates," + full, body: `{"k":"$k","day":"2025-12-31","id":1,"v":"y"}`,
		answer: "[]", sees: seeSales, rows: "old.sales_2025|2025-12-31|1|x",
	},
	"AnUpsertIntoNoPartitionIsRefused": {
		path: "sales", prefer: merge, body: `{"k":"$k","day":"2030-01-01","id":1}`,
		refused: "422 check_violation 23514", sees: seeSales,
	},
	"ARowIsMovedToAnotherPartition": {
		given:  givenSale,
		method: patch, path: "sales?k=eq.$k&id=eq.1&select=day,v", prefer: full, body: `{"day":"2026-01-01"}`,
		answer: `[{"day":"2026-01-01","v":"x"}]`,
		sees:   `SELECT concat_ws('|', left(tableoid::regclass::text, 14), day, id, v) FROM old.sales WHERE k = '$k'`, rows: "old.sales_2026|2026-01-01|1|x",
	},
	"ARowIsNotMovedToNoPartition": {
		given:  givenSale,
		method: patch, path: "sales?k=eq.$k", body: `{"day":"2024-12-31"}`,
		refused: "422 check_violation 23514", sees: seeSales, rows: "old.sales_2025|2025-12-31|1|x",
	},
	"ARowIsNotMovedOutOfTheLock": {
		given:  givenSale,
		method: patch, path: "sales?k=eq.$k", body: `{"k":"another"}`,
		refused: "403 lock_scope lock_scope", sees: seeSales, rows: "old.sales_2025|2025-12-31|1|x",
	},
	"ARowIsDeletedWhereverItIs": {
		given:  givenSale,
		method: del, path: "sales?k=eq.$k&id=eq.1&select=id", prefer: full,
		answer: `[{"id":1}]`, sees: seeSales,
	},
	"APartitionIsWrittenUnderTheSameLock": {
		path: "sales_2025", body: `{"k":"$k","day":"2025-06-01","id":1}`,
		sees: seeSales, rows: "old.sales_2025|2025-06-01|1|v",
	},
	"APartitionTakesOnlyItsOwn": {
		path: "sales_2025", body: `{"k":"$k","day":"2026-06-01","id":1}`,
		refused: "422 check_violation 23514", sees: seeSales,
	},
	"ATablePartitionedByItsLockColumn": {
		path: "regions", prefer: merge, body: `{"k":"$k","v":"x"}`,
		sees: `SELECT tableoid::regclass || v FROM old.regions WHERE k = '$k'`, rows: "old.regions_restx",
	},
	"AParentsUpdateReachesItsChildren": {
		given:  givenTruck,
		method: patch, path: "vehicles?k=eq.$k&id=eq.1&select=id,wheels", prefer: full, body: `{"wheels":8}`,
		answer: `[{"id":1,"wheels":8}]`, sees: seeVehicles, rows: "old.trucks|1|8",
	},
	"AParentsDeleteReachesItsChildren": {
		given:  givenTruck,
		method: del, path: "vehicles?k=eq.$k",
		sees: seeVehicles,
	},
	"AParentsInsertStaysInTheParent": {
		path: "vehicles", body: `{"k":"$k","id":1,"wheels":4}`,
		sees: seeVehicles, rows: "old.vehicles|1|4",
	},
	"AParentDoesNotKnowItsChildrensColumns": {
		given:  givenTruck,
		method: patch, path: "vehicles?k=eq.$k", body: `{"load":1}`,
		refused: "422 unknown_column PGRST204", column: "load", sees: seeVehicles, rows: "old.trucks|1|6",
	},
	"AnUpsertIntoAParentDoesNotSeeItsChild": {
		given: givenTruck,
		path:  "vehicles", prefer: merge, body: `{"k":"$k","id":1,"wheels":4}`,
		sees: seeVehicles, rows: "old.trucks|1|6 old.vehicles|1|4",
	},
	"AChildIsWrittenUnderItsParentsLock": {
		path: "trucks", body: `{"k":"$k","id":1,"wheels":6,"load":40}`,
		sees: seeVehicles, rows: "old.trucks|1|6",
	},
	"AnUpdateThatReachesBothAnswersWithBoth": {
		given:  givenTruck + `; INSERT INTO old.vehicles VALUES ('$k', 2, 4)`,
		method: patch, path: "vehicles?k=eq.$k", prefer: "count=exact", body: `{"wheels":3}`,
		header: "0-1/2", sees: seeVehicles, rows: "old.trucks|1|3 old.vehicles|2|3",
	},
}
