package main_test

import (
	"net/http"
	"os/exec"
	"regexp"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestAuditReportTellsWhatWouldHaveBeenRefused(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Tables: `tables:
  - {name: shop.inventory, lock: "inventory:{sku}", mode: observe}
  - {name: shop.orders, lock: "order:{order_no}", mode: observe}
  - {name: shop.order_lines, lock: "order:{order_no}"}
`})
	old := g.Acquire(t, "inventory:SKU-1", 60_000)
	g.Release(t, old)
	for _, h := range []http.Header{nil, nil, old.Header()} {
		if answer := g.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1", Header: h, Body: `{"available":1}`}); answer.Status != http.StatusNoContent {
			t.Fatalf("%d %s", answer.Status, answer.Body)
		}
	}
	story := `set -e
"$GATEWAY" audit report
"$GATEWAY" audit report --since 2100-01-01T00:00:00Z | tail -n +3
"$GATEWAY" audit report --json --since 1h | grep -o '"admitted":3,"cut":false'
"$GATEWAY" audit report --since soon || echo code $?
"$GATEWAY" audit ls --disposition admitted
"$GATEWAY" audit ls --disposition refused
"$GATEWAY" audit ls --disposition lost || echo code $?
"$GATEWAY" audit show 1
"$GATEWAY" audit show 3 | tail -n 1
"$GATEWAY" audit export --format csv --disposition admitted | cut -d, -f1,3,4,7,8`
	cmd := exec.Command("sh", "-c", story)
	cmd.Env = leaseEnv(t, g.URL)
	out, err := cmd.Output()
	got := string(out)
	for _, plain := range [][2]string{
		{`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{3})?`, "TIME"}, {`\d+ seconds`, "N seconds"}, {`request [0-9a-f]+`, "request ID"}, {`gateway \S+/\d+`, "gateway HOST"},
		{` {2,}`, " "}, {`(?m) +$`, ""},
	} {
		got = regexp.MustCompile(plain[0]).ReplaceAllString(got, plain[1])
	}
	name := t.Name()
	want := `since TIME: 3 writes would have been refused

shop.inventory: 3 would have been refused, the last one N seconds ago
shop.orders: nothing on record; if it was written to and observed all the time, it can be enforced

WRITES TABLE CODE WORKER FIRST LAST EXAMPLE
2 shop.inventory fencing_required anyone at 127.0.0.1 TIME TIME 2
1 shop.inventory lease_released ` + name + ` TIME TIME 3
shop.inventory: nothing on record; if it was written to and observed all the time, it can be enforced
shop.orders: nothing on record; if it was written to and observed all the time, it can be enforced
"admitted":3,"cut":false
code 64
TIME DISPOSITION CODE KEY TOKEN MARK CLIENT WHAT ID
TIME admitted lease_released inventory:SKU-1 1 1 ` + name + ` update shop.inventory 3
TIME admitted fencing_required - - - - update shop.inventory 2
TIME admitted fencing_required - - - - update shop.inventory 1
TIME DISPOSITION CODE KEY TOKEN MARK CLIENT WHAT ID
code 64
fencing_required of update shop.inventory under no lock key, token none
let through in observe mode: the write is there
client unknown, principal anyone, from 127.0.0.1, request ID, gateway HOST

TIME ADMITTED token none
TIME ADMITTED token 1 ` + name + `
id,code,disposition,key,presented_token
3,lease_released,admitted,inventory:SKU-1,1
2,fencing_required,admitted,,
1,fencing_required,admitted,,
`
	if err != nil || got != want {
		t.Errorf("%v:\n%s\nnot\n%s", err, got, want)
	}
}
