package proxy_test

import (
	"net/http"
	"strings"

	"github.com/fencegate/fencegate/internal/testenv"
)

// door is one way to ask for a write. In path and body, {target}, {row} and
// {locks} stand for the table or routine, the row that it is about, and the
// locks.
type door struct {
	name   string
	route  string // of the contract
	query  string
	body   string
	header []string // name, value, name, value…
	ops    string   // what the table must be configured for; "" of a call
	call   string   // the routine
	makes  bool     // rows that must not be there yet
	trial  bool     // what it does is taken back
	spare  bool     // it comes under a second lock, which is alive
}

// The routes of the contract that write rows.
const (
	postRows    = "POST /rest/{table}"
	patchRows   = "PATCH /rest/{table}"
	putRow      = "PUT /rest/{table}"
	deleteRows  = "DELETE /rest/{table}"
	callRoutine = "POST /rest/rpc/{name}"
	transact    = "POST /v1/transactions"
)

const (
	oneRow  = `{"sku":"{row}","line":0,"n":1}`
	anArray = `[` + oneRow + `]`
	twoRows = `[{"sku":"{row}","line":1},{"sku":"{row}","line":2,"note":"x"}]`
	theRow  = "?sku=eq.{row}&line=eq.0"
)

// doors are all the ways in; TestEveryRouteOfTheContractHasItsDoors says which
// one is missing.
func doors() []door {
	prefer := func(value string) []string { return []string{"Prefer", value} }
	profile := []string{"Content-Profile", "shop"}
	single := []string{"Accept", object, "Prefer", "return=representation"}
	list := []door{
		{name: "Insert", route: postRows, body: oneRow, ops: "insert", makes: true},
		{name: "InsertWithProfile", route: postRows, body: oneRow, header: profile, ops: "insert", makes: true},
		{name: "InsertTwoShapes", route: postRows, body: twoRows, ops: "insert"},
		{name: "InsertListedColumns", route: postRows, query: "?columns=sku,line,n", body: anArray, ops: "insert", makes: true},
		{name: "InsertWithDefaults", route: postRows, query: "?columns=sku,line,n,note", body: anArray, header: prefer("missing=default"), ops: "insert", makes: true},
		{name: "InsertForOneObject", route: postRows, query: "?select=sku&order=n", body: oneRow, header: single, ops: "insert", makes: true},
		{name: "InsertForItsLocation", route: postRows, body: oneRow, header: prefer("return=headers-only"), ops: "insert", makes: true},
		{name: "InsertAsATrial", route: postRows, body: oneRow, header: prefer("tx=rollback"), ops: "insert", makes: true, trial: true},
		{name: "Merge", route: postRows, query: "?on_conflict=sku,line", body: oneRow, header: prefer("resolution=merge-duplicates"), ops: "insert update"},
		{name: "MergeNothing", route: postRows, body: oneRow, header: prefer("resolution=merge-duplicates"), ops: "insert update", makes: true},
		{name: "MergeListedColumns", route: postRows, query: "?columns=sku,line,n", body: anArray, header: prefer("resolution=merge-duplicates"), ops: "insert update"},
		{name: "MergeAsATrial", route: postRows, body: oneRow, header: prefer("resolution=merge-duplicates,tx=rollback"), ops: "insert update", trial: true},
		{name: "Ignore", route: postRows, body: anArray, header: prefer("resolution=ignore-duplicates"), ops: "insert", makes: true},
		{name: "Update", route: patchRows, query: theRow, body: `{"n":1}`, ops: "update"},
		{name: "UpdateWithProfile", route: patchRows, query: theRow, body: `{"n":1}`, header: profile, ops: "update"},
		{name: "UpdateOfAll", route: patchRows, query: "?sku=eq.{row}&all=true", body: `{"n":1}`, ops: "update"},
		{name: "UpdateIfMatch", route: patchRows, query: theRow, body: `{"n":1}`, header: []string{"If-Match", "*"}, ops: "update"},
		{name: "UpdateForOneObject", route: patchRows, query: theRow + "&select=sku&order=n", body: `{"n":1}`, header: single, ops: "update"},
		{name: "UpdateAtMost", route: patchRows, query: theRow, body: `{"n":1}`, header: prefer("max-affected=1"), ops: "update"},
		{name: "UpdateAsATrial", route: patchRows, query: theRow, body: `{"n":1}`, header: prefer("tx=rollback"), ops: "update", trial: true},
		{name: "Put", route: putRow, query: theRow, body: oneRow, ops: "insert update"},
		{name: "PutWithProfile", route: putRow, query: theRow, body: oneRow, header: profile, ops: "insert update"},
		{name: "PutANewRow", route: putRow, query: theRow, body: oneRow, ops: "insert update", makes: true},
		{name: "PutForOneObject", route: putRow, query: theRow + "&select=sku", body: oneRow, header: single, ops: "insert update"},
		{name: "PutAsATrial", route: putRow, query: theRow, body: oneRow, header: prefer("tx=rollback"), ops: "insert update", trial: true},
		{name: "Delete", route: deleteRows, query: theRow, ops: "delete"},
		{name: "DeleteWithProfile", route: deleteRows, query: theRow, header: profile, ops: "delete"},
		{name: "DeleteOfAll", route: deleteRows, query: "?sku=eq.{row}&all=true", ops: "delete"},
		{name: "DeleteIfMatch", route: deleteRows, query: theRow, header: []string{"If-Match", "*"}, ops: "delete"},
		{name: "DeleteForOneObject", route: deleteRows, query: theRow + "&select=sku&order=n", header: single, ops: "delete"},
		{name: "DeleteAsATrial", route: deleteRows, query: theRow, header: prefer("tx=rollback"), ops: "delete", trial: true},
	}
	for _, routine := range []string{"raise", "lift", "lift_all"} {
		list = append(list,
			door{name: "Call/" + routine, route: callRoutine, body: `{"sku":"{row}"}`, call: routine},
			door{name: "CallWithProfile/" + routine, route: callRoutine, body: `{"sku":"{row}"}`, header: profile, call: routine},
			door{name: "CallAsATrial/" + routine, route: callRoutine, body: `{"sku":"{row}"}`, header: prefer("tx=rollback"), call: routine, trial: true},
		)
	}
	return append(list, transactions()...)
}

// transactions are the doors of every operation: alone, under two locks, and as
// a trial.
func transactions() (list []door) {
	const where = `"table":"{target}","where":{"sku":"eq.{row}","line":"eq.0"}`
	for _, d := range []door{
		{name: "Insert", body: `{"op":"insert","table":"{target}","rows":` + anArray + `}`, ops: "insert", makes: true},
		{name: "InsertTwoShapes", body: `{"op":"insert","table":"{target}","rows":` + twoRows + `}`, ops: "insert"},
		{name: "Merge", body: `{"op":"upsert","table":"{target}","on_conflict":["sku","line"],"rows":` + anArray + `}`, ops: "insert update"},
		{name: "MergeNothing", body: `{"op":"upsert","schema":"shop","table":"{target}","rows":` + anArray + `}`, ops: "insert update", makes: true},
		{name: "Ignore", body: `{"op":"upsert","table":"{target}","resolution":"ignore-duplicates","rows":` + anArray + `}`, ops: "insert", makes: true},
		{name: "Set", body: `{"op":"update",` + where + `,"set":{"n":1},"max_rows":1}`, ops: "update"},
		{name: "SetIfMatch", body: `{"op":"update",` + where + `,"set":{"n":1},"if_match":"*","returning":["n"]}`, ops: "update"},
		{name: "SetOfAll", body: `{"op":"update","table":"{target}","where":{"sku":"eq.{row}"},"set":{"n":1},"all":true}`, ops: "update"},
		{name: "Increment", body: `{"op":"update",` + where + `,"increment":{"n":1},"expect_rows":1}`, ops: "update"},
		{name: "Delete", body: `{"op":"delete",` + where + `}`, ops: "delete"},
		{name: "InsertThenDelete", body: `{"op":"insert","table":"{target}","rows":` + twoRows + `},{"op":"delete",` + where + `}`, ops: "insert delete"},
		{name: "CallAStatement", body: `{"op":"call","name":"{target}","params":{"sku":"{row}"}}`, call: "raise"},
		{name: "CallAFunction", body: `{"op":"call","name":"{target}","params":{"sku":"{row}"}}`, call: "lift"},
		{name: "CallAVoid", body: `{"op":"call","schema":"shop","name":"{target}","params":{"sku":"{row}"}}`, call: "lift_all"},
	} {
		operations := d.body
		alone, under, trial, preferred := d, d, d, d
		alone.name, alone.body = "Operation/"+d.name, `{"locks":[{locks}],"operations":[`+operations+`]}`
		alone.header = []string{"Content-Profile", "shop"}
		under.name, under.body, under.spare = "OperationUnderTwoLocks/"+d.name, alone.body, true
		trial.name, trial.body, trial.trial = "OperationAsATrial/"+d.name, `{"locks":[{locks}],"dry_run":true,"operations":[`+operations+`]}`, true
		preferred.name, preferred.body, preferred.trial = "OperationPreferredAsATrial/"+d.name, alone.body, true
		preferred.header = []string{"Prefer", "tx=rollback"}
		list = append(list, alone, under, trial, preferred)
	}
	for i := range list {
		list[i].route = transact
	}
	return list
}

// target is what the door is for, configured for it.
func (d door) target() string {
	if d.call != "" {
		return d.call
	}
	return "stock"
}

// denied are tables that are not configured for what the door does, and of a
// call a function that is not exposed.
func (d door) denied() (targets []string) {
	if d.call != "" {
		return []string{"hidden", "stock"}
	}
	for op := range strings.FieldsSeq(d.ops) {
		targets = append(targets, "no_"+op)
	}
	return append(targets, "read_only")
}

// ask makes a request of the door. key is its Idempotency-Key, "" for none.
func (d door) ask(target, row, key string, locks ...testenv.Lease) testenv.Request {
	method, path, _ := strings.Cut(d.route, " ")
	header := http.Header{}
	claims := make([]string, len(locks))
	for i, l := range locks {
		claims[i] = l.Claim()
		if d.route != transact {
			header = l.Header()
		}
	}
	for i := 0; i < len(d.header); i += 2 {
		header.Set(d.header[i], d.header[i+1])
	}
	if key != "" {
		header.Set("Idempotency-Key", key)
	}
	fill := strings.NewReplacer("{target}", target, "{table}", target, "{name}", target, "{row}", row, "{locks}", strings.Join(claims, ","))
	return testenv.Request{Method: method, Path: fill.Replace(path + d.query), Header: header, Body: fill.Replace(d.body),
		Broken: d.route == transact && len(locks) == 0}
}
