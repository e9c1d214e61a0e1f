package proxy_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/fencegate/fencegate"
)

// routes are all methods and paths of the contract.
func routes(t *testing.T) map[string]*openapi3.Operation {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(fencegate.Contract)
	if err != nil {
		t.Fatal(err)
	}
	routes := map[string]*openapi3.Operation{}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			routes[method+" "+path] = operation
		}
	}
	return routes
}

// lockRoutes are the routes that write, but never to a table.
var lockRoutes = []string{"POST /v1/leases", "POST /v1/leases/renew", "POST /v1/leases/release", "POST /v1/leases/revoke"}

func TestEveryRouteOfTheContractHasItsDoors(t *testing.T) {
	t.Parallel()
	byRoute := map[string][]door{}
	for _, d := range doors() {
		byRoute[d.route] = append(byRoute[d.route], d)
	}
	all := routes(t)
	for route, operation := range all {
		method, _, _ := strings.Cut(route, " ")
		reading := method == http.MethodGet || method == http.MethodHead
		switch {
		case reading && len(readings()[route]) == 0:
			t.Errorf("%s: what it may do is not tried in TestReadingChangesNothing", route)
		case reading || slices.Contains(lockRoutes, route):
		case len(byRoute[route]) == 0:
			t.Errorf("%s: no door of it is tried in TestNoDoorPassesTheFence", route)
		default:
			everyParameterIsUsed(t, route, operation, byRoute[route])
		}
	}
	for route := range byRoute {
		if all[route] == nil {
			t.Errorf("%s is no route of the contract", route)
		}
	}
}

// everyParameterIsUsed: what a parameter or a member of a body brings is a door
// of its own.
func everyParameterIsUsed(t *testing.T, route string, operation *openapi3.Operation, doors []door) {
	t.Helper()
	var text strings.Builder
	for _, d := range doors {
		text.WriteString(d.query + "&" + strings.Join(d.header, "=") + "=" + d.body)
	}
	for _, p := range operation.Parameters {
		always := []string{"Lock-Key", "Lock-Holder", "Fencing-Token", "Idempotency-Key"}
		if p.Value.In != "path" && !slices.Contains(always, p.Value.Name) && !strings.Contains(text.String(), p.Value.Name+"=") {
			t.Errorf("%s: no door uses %s", route, p.Value.Name)
		}
	}
	if route != transact {
		return
	}
	body := operation.RequestBody.Value.Content.Get("application/json").Schema.Value
	one := body.Properties["operations"].Value.Items.Value
	for _, members := range []openapi3.Schemas{body.Properties, one.Properties} {
		for name := range members {
			if !strings.Contains(text.String(), `"`+name+`":`) {
				t.Errorf("%s: no door uses %q", route, name)
			}
		}
	}
	for _, op := range one.Properties["op"].Value.Enum {
		if !strings.Contains(text.String(), `"op":"`+op.(string)+`"`) {
			t.Errorf("%s: no door uses op %q", route, op)
		}
	}
}
