package dashboard_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/identity"
	"github.com/fencegate/fencegate/internal/testenv"
)

// startPeople starts a gateway that knows an operator and two workers, and returns
// their keys by their names.
func startPeople(t *testing.T) (g *testenv.Gateway, keys map[string]string) {
	t.Helper()
	keys = map[string]string{}
	who := `auth: required
roles:
  - {name: operator, admin: true}
  - {name: worker, tables: [{table: shop.inventory}], locks: ["inventory:*"]}
principals:
`
	for name, role := range map[string]string{"olga": "operator", "wim": "worker", "wanda": "worker"} {
		text, key := identity.NewKey(time.Time{})
		keys[name] = text
		who += fmt.Sprintf("  - {name: %s, roles: [%s], api_keys: [{id: '%s', sha256: '%x'}]}\n", name, role, key.ID, key.SHA256)
	}
	return testenv.StartGateway(t, testenv.GatewayOptions{Auth: who}), keys
}

// as sends a key as a browser does that has asked for it.
func as(key string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth("anything", key) }
}

func TestPeopleSeeWhatTheyMay(t *testing.T) {
	t.Parallel()
	g, keys := startPeople(t)
	l := acquire(t, g.As(keys["wim"]), "inventory:SKU-1", "w", 60000)
	g.As(keys["wim"]).Release(t, l)
	acquire(t, g.As(keys["wim"]), "inventory:SKU-1", "w", 60000)
	answer := g.As(keys["wim"]).Patch(t, l, "inventory?sku=eq.SKU-1", `{"available":1}`)
	record := "refusal?id=" + answer.Problem(t).AuditID
	const key = "lock?key=inventory:SKU-1"

	for _, c := range []struct {
		who, page string
		status    int
		has, not  string
	}{
		{"", "", 401, "Sign in", "Database"},
		{"nobody", "locks", 401, "Sign in", "inventory"},
		{"olga", "locks", 200, "inventory:SKU-1", "may only look"},
		{"olga", "refusals", 200, `<tr id="r`, ""},
		{"olga", key, 200, "Cut the holder off", "for administrators"},
		{"olga", record, 200, "took over", ""},
		{"olga", "settings", 200, "admin_listen", ""},
		{"wim", "", 200, "may only look", ""},
		{"wim", "refusals", 200, `<tr id="r`, ""},
		{"wim", key, 200, "is for administrators", "Cut the holder off"},
		{"wim", record, 200, "was refused", "took over under"},
		{"wim", "lock?key=order:1", 403, "not allowed", ""},
		{"wim", "settings", 200, "for administrators", "admin_listen"},
		{"olga", "tables", 200, "orders", ""},
		{"olga", "", 200, "Bypass", ""},
		{"wim", "tables", 403, "for administrators", "orders"},
		{"wim", "", 200, "Overview", "Bypass"},
		{"wanda", "refusals", 200, "Nothing was refused", `<tr id="r`},
		{"wanda", record, 404, "never there", "stale_token"},
		{"wanda", "refusals?principal=wim", 403, "for administrators", `<tr id="r`},
	} {
		change := as(keys[c.who])
		if c.who == "" {
			change = nil
		}
		answer := ask(t, "GET", ui(g)+c.page, "", change)
		if answer.Status != c.status || !strings.Contains(answer.Body, c.has) || c.not != "" && strings.Contains(answer.Body, c.not) {
			t.Errorf("%s at %q: %d, not %d with %q and without %q: %s", c.who, c.page, answer.Status, c.status, c.has, c.not, answer.Body)
		}
		if challenge := answer.Header.Get("WWW-Authenticate"); (challenge != "") != (c.status == 401) {
			t.Errorf("%s at %q is asked %q", c.who, c.page, challenge)
		}
		holdsHeaders(t, answer)
	}

	form := url.Values{"key": {"inventory:SKU-1"}, "token": {"2"}, "reason": {"why"}, "confirm": {"inventory:SKU-1"}}.Encode()
	if answer := ask(t, "POST", ui(g)+key, form, as(keys["wim"])); answer.Status != 403 {
		t.Errorf("a worker's revoking: %d %s", answer.Status, answer.Body)
	}
	if !look(t, g.As(keys["olga"]), "inventory:SKU-1").Live {
		t.Error("a worker has revoked")
	}
	if answer := ask(t, "POST", ui(g)+key, form, as(keys["olga"])); answer.Status != 303 {
		t.Errorf("an operator's revoking: %d %s", answer.Status, answer.Body)
	}
	if last := history(t, g.As(keys["olga"]), "inventory:SKU-1").Grants[0]; last.Event != "revoked" || last.Principal != "olga" {
		t.Errorf("on record is %+v", last)
	}
}
