package proxy_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// visitors are whom every route is asked by, in the order of the table in
// docs/security.md.
var visitors = []string{"", "wrong", "expired", "nobody", "tenant", "worker", "operator"}

const securityPage = "../../docs/security.md"

func TestEveryRouteIsForWhomTheDocumentationSays(t *testing.T) {
	t.Parallel()
	p := startPeople(t, doorsSQL, doorsTables+doorsRoutines, "")
	want := matrixOf(t)
	lines := []string{}
	for _, route := range slices.Sorted(maps.Keys(routes(t))) {
		var got []string
		for _, visitor := range visitors {
			got = append(got, strconv.Itoa(p.visit(t, route, visitor).Status))
		}
		lines = append(lines, fmt.Sprintf("| `%s` | %s |", route, strings.Join(got, " | ")))
		if !slices.Equal(got, want[route]) {
			t.Errorf("%s is answered with %v, and %s says %v", route, got, securityPage, want[route])
		}
	}
	t.Logf("route, %q:\n%s", visitors, strings.Join(lines, "\n"))
	if len(want) != len(lines) {
		t.Errorf("%s has %d routes, the contract %d", securityPage, len(want), len(lines))
	}
}

// matrixOf reads the table of docs/security.md.
func matrixOf(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(securityPage)
	if err != nil {
		t.Fatal(err)
	}
	matrix := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != len(visitors)+3 || !strings.Contains(cells[1], " /") {
			continue
		}
		for _, cell := range cells[2 : len(cells)-1] {
			route := strings.Trim(cells[1], " `")
			matrix[route] = append(matrix[route], strings.TrimSpace(cell))
		}
	}
	return matrix
}

// visit asks for what the route is there for, under a lock of the worker's. The
// answer to those who don't belong is the one for a path that is not there.
func (p people) visit(t *testing.T, route, visitor string) testenv.Response {
	t.Helper()
	l := p.as("worker").Acquire(t, "stock:live", 300_000)
	defer p.as("worker").Release(t, l)
	refusal := p.refusalOf(t, "worker", l)
	method, path, _ := strings.Cut(route, " ")
	q := testenv.Request{Method: method, Path: strings.NewReplacer("{table}", "stock", "{name}", "count_all?sku=live", "{id}", refusal).Replace(path), Header: http.Header{}}
	switch at := slices.IndexFunc(doors(), func(d door) bool {
		return d.route == route && !d.trial && !d.makes && !d.spare && (route != transact || d.ops == "update")
	}); {
	case at >= 0:
		d := doors()[at]
		q = d.ask(d.target(), "live", "", l)
	case route == "POST /v1/leases":
		q.Body = `{"key":"stock:free-` + visitor + `"}`
	case route == "POST /v1/leases/revoke":
		q.Body = `{"key":"stock:live","reason":"a test"}`
	case method == http.MethodPost:
		q.Body = l.Claim()
	case path == "/v1/grants", path == "/v1/leases":
		q.Path += "?key=stock:live"
	case path == "/v1/refusals/stream":
		return p.follow(t, method, visitor)
	}
	answer := p.as(visitor).Do(t, q)
	if answer.Status == http.StatusUnauthorized {
		p.knowsNothing(t, visitor, q, answer)
	}
	return answer
}

// refusalOf makes a record of somebody's.
func (p people) refusalOf(t *testing.T, name string, l testenv.Lease) string {
	t.Helper()
	answer := p.as(name).Do(t, door{route: deleteRows, query: theRow}.ask("stock", "there", "", l))
	return mustRefuse(t, answer, want{status: 403, slug: "lock_scope"}).AuditID
}

// follow begins to follow the refusals, and goes.
func (p people) follow(t *testing.T, method, visitor string) testenv.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, p.URL+"/v1/refusals/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	if key := p.keys[visitor]; key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return testenv.Response{Status: resp.StatusCode, Header: resp.Header}
}

func (p people) knowsNothing(t *testing.T, visitor string, q testenv.Request, answer testenv.Response) {
	t.Helper()
	if got := answer.Header.Get("WWW-Authenticate"); got != `Bearer realm="fencegate"` {
		t.Errorf("WWW-Authenticate is %q", got)
	}
	if q.Method == http.MethodHead {
		return
	}
	lines := []string{q.Method + " /v1/nothing/here"}
	if key := p.keys[visitor]; key != "" {
		lines = append(lines, "Authorization: Bearer "+key)
	}
	nowhere := wire(t, p.Gateway, lines...)
	if a, b := anonymous(answer.Body), anonymous(nowhere.Body); a != b {
		t.Errorf("%s %s tells %q\n%s\nand a path that is not there\n%s", q.Method, q.Path, visitor, a, b)
	}
}

var oneRequestID = regexp.MustCompile(`"request_id":"[^"]*"`)

// anonymous is a problem without what tells one request from another.
func anonymous(body string) string { return oneRequestID.ReplaceAllString(body, "") }
