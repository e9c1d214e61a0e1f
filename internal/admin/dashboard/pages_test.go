package dashboard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestEveryPage(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	id := fill(t, g)
	pages := []string{"", "locks", "refusals", "refusals?span=all&follow=1", "refusal?id=" + id, "refusal?id=1", "tables", "settings"}
	for _, text := range hostile {
		pages = append(pages, "lock?"+url.Values{"key": {text}}.Encode(), "locks?"+url.Values{"prefix": {text}}.Encode())
	}
	p := open(t, ui(g))
	p.goTo("")
	papers := map[string]bool{}
	for _, page := range pages {
		p.size(1280, 900)
		p.goTo(page)
		if headings := eval[int](p, `document.querySelectorAll('h1').length`); headings != 1 {
			t.Errorf("%s has %d headings", page, headings)
		}
		if bad := eval[int](p, `document.querySelectorAll('main script, main img, [style], [onerror]').length`); bad > 0 {
			t.Errorf("%s has markup that was a caller's text", page)
		}
		if unnamed := eval[int](p, `[...document.querySelectorAll('input:not([type=hidden]), select')].filter(e => !e.labels.length).length`); unnamed > 0 {
			t.Errorf("%s has %d fields without a label", page, unnamed)
		}
		for _, scheme := range []string{"dark", "light"} {
			p.prefer(scheme)
			papers[eval[string](p, `getComputedStyle(document.body).backgroundColor`)] = true
			if dim := eval[string](p, dimText); dim != "" {
				t.Errorf("%s in %s: %s", page, scheme, dim)
			}
		}
		for _, width := range []int64{1280, 360} {
			p.size(width, 800)
			if over := eval[int](p, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
				t.Errorf("%s is %d pixels too wide at %d", page, over, width)
			}
		}
	}
	if len(papers) != 2 {
		t.Errorf("in the dark and in the light it is %v", papers)
	}
}

// dimText lists texts whose contrast with what is behind them is below WCAG's AA.
const dimText = `(() => {
	const numbers = c => (c.match(/[\d.]+/g) ?? []).map(Number)
	const behind = e => {
		for (; e; e = e.parentElement) {
			const c = numbers(getComputedStyle(e).backgroundColor)
			if (c.length === 3 || c[3] === 1) return c
		}
		return [255, 255, 255]
	}
	const light = c => {
		const [r, g, b] = c.map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
		return .2126 * r + .7152 * g + .0722 * b
	}
	const dim = new Set()
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
	for (let node; node = texts.nextNode();) {
		const e = node.parentElement, style = getComputedStyle(e)
		if (!node.data.trim() || !e.checkVisibility()) continue
		const [a, b] = [light(numbers(e.closest('svg') ? style.fill : style.color)), light(behind(e))]
		const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05)
		if (contrast < 4.5) dim.add(e.className + ' ' + node.data.trim().slice(0, 20) + ' ' + contrast.toFixed(2))
	}
	return [...dim].join('; ')
})()`

func TestPagesWithoutAnythingSaySo(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	p := open(t, ui(g))
	for page, says := range map[string]string{
		"": "None in the last hour.", "locks": "Nobody holds a lock.", "refusals": "Nothing was refused.",
		"lock?key=a": "This lock was never granted.", "tables": "Nobody but the gateway can write",
	} {
		p.goTo(page)
		p.says(says)
	}
	p.goTo("")
	p.says("All is well.")
	p.says("no writes in the last 2 min")
}

func TestWritesAreCounted(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	p := open(t, ui(g))
	p.goTo("")
	l := acquire(t, g, "inventory:SKU-1", "worker", 60000)
	for range 5 {
		g.Patch(t, l, "inventory?sku=eq.SKU-1", `{"available":1}`)
	}
	p.wait(`parseFloat(document.querySelector('.stats dd').innerText) > 0`)
	p.wait(`document.querySelectorAll('.stats dd')[4].innerText.includes('ms')`)
}

// What a refusal's page draws is what is on record.
func TestARefusalIsDrawn(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	id := refuse(t, g, "SKU-1")
	p := open(t, ui(g))
	p.goTo("refusals")
	p.follow("#r" + id + " .time a")
	for _, says := range []string{"worker-a was granted the lock under token 1", "revoked it: “to make room”", "under token 1 was refused", "Nothing was written."} {
		if told := strings.NewReplacer("\u2068", "", "\u2069", "").Replace(p.text(".told")); !strings.Contains(told, says) {
			t.Errorf("%q is not in %q", says, told)
		}
	}
	if lanes := eval[int](p, `document.querySelectorAll('svg.story .held').length`); lanes != 2 {
		t.Errorf("%d lanes", lanes)
	}
	if !eval[bool](p, `(() => {
		const [a, b] = document.querySelectorAll('svg.story .held'), late = document.querySelector('svg.story .late')
		const [x, y, z] = [a, b, late].map(e => e.getBoundingClientRect())
		return x.right <= z.left + 1 && z.left <= y.left && y.left <= z.right
	})()`) {
		t.Error("the lanes do not follow one another")
	}
}

func TestADatabaseThatIsGone(t *testing.T) {
	t.Parallel()
	server := testenv.OwnPostgres(t)
	db := testenv.OwnDatabase(t, server)
	db.Exec(t, `CREATE SCHEMA shop; CREATE TABLE shop.inventory (sku text PRIMARY KEY)`)
	g := testenv.StartGateway(t, testenv.GatewayOptions{Database: db, Tables: "tables: [{name: shop.inventory, lock: 'inventory:{sku}'}]\n"})
	acquire(t, g, "inventory:SKU-1", "worker", 60000)
	p := open(t, ui(g))
	p.allow("status of 503")
	p.goTo("locks")
	p.says("inventory:SKU-1")
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	p.says("The database can’t be reached.") // on the page that was open
	for page, also := range map[string]string{"": "Database: can’t be reached.", "locks": "Key begins with", "refusals": "Follow live",
		"lock?key=inventory:SKU-1": "inventory:SKU-1", "tables": "inventory:{sku}", "settings": "admin_listen: localhost:0"} {
		p.goTo(page)
		p.says("can’t be reached")
		p.says(also)
	}
}

// What stands in front may have a path of its own.
func TestUnderAPrefix(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	id := refuse(t, g, "SKU-1")
	target, err := url.Parse(g.AdminURL)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(http.StripPrefix("/ops/fence", &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
		},
	}))
	t.Cleanup(front.Close)
	p := open(t, front.URL+"/ops/fence/")
	p.goTo("")
	if at := p.address(); at != front.URL+"/ops/fence/ui/" {
		t.Errorf("it leads to %s", at)
	}
	for _, link := range []string{"nav a[href=locks]", "#leases td a", "nav a[href=refusals]", "#r" + id + " .key", "nav a[href=tables]", "nav a[href=settings]", "a.brand"} {
		p.follow(link)
		if at := p.address(); !strings.HasPrefix(at, front.URL+"/ops/fence/ui/") {
			t.Errorf("%s leads to %s", link, at)
		}
	}
	p.goTo("ui/lock?key=inventory:SKU-1")
	p.revoke("inventory:SKU-1", "by way of a proxy")
	p.says("Revoked: nothing is admitted under token")
	if at := p.address(); !strings.HasPrefix(at, front.URL+"/ops/fence/ui/lock?") {
		t.Errorf("revoking leads to %s", at)
	}
}

func TestWithoutAScript(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	id := refuse(t, g, "SKU-1")
	record(t, g, 3, "lock_scope", "inventory:SKU-2")
	p := open(t, ui(g))
	call(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	p.goTo("")
	if eval[bool](p, `document.documentElement.classList.contains('scripted')`) {
		t.Fatal("scripts run")
	}
	p.follow("nav a[href=refusals]")
	p.fill("#code", "stale_token")
	p.follow(".filters button")
	if n := p.rows("#refused"); n != 1 {
		t.Errorf("%d refusals", n)
	}
	p.follow("#follow")
	if refresh := eval[string](p, `document.querySelector('meta[http-equiv=refresh]')?.content ?? ''`); refresh != "5" {
		t.Errorf("a page that follows loads anew every %q s", refresh)
	}
	p.goTo("refusal?id=" + id)
	p.says("worker-b")
	p.follow("nav a[href=locks]")
	p.follow("#leases td a")
	p.revoke("inventory:SKU-1", "no script was needed")
	p.says("Revoked: nothing is admitted")
	if s := look(t, g, "inventory:SKU-1"); s.Live || s.Mark.State != "revoked" {
		t.Errorf("%+v", s)
	}
}

// revoke fills the form of a lock's page and sends it.
func (p *tab) revoke(confirm, reason string) {
	p.t.Helper()
	p.fill("#reason", reason)
	p.fill("#confirm", confirm)
	p.follow("button.dangerous")
}

func TestTablesTellWhoWritesPastTheGateway(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Tables: `tables:
  - {name: shop.inventory, lock: "inventory:{sku}", record_payload: true, mode: observe, redact: [attributes], operations: [select, update]}
  - {name: shop.orders, lock: "order:{order_no}"}
`})
	role := strings.ReplaceAll(g.Database.Name, "fencegate_test_", "past_")
	g.Database.Exec(t, fmt.Sprintf(`CREATE ROLE %[1]s LOGIN; GRANT USAGE ON SCHEMA shop TO %[1]s; GRANT UPDATE ON shop.orders TO %[1]s`, role))
	defer g.Database.Exec(t, fmt.Sprintf(`DROP OWNED BY %[1]s; DROP ROLE %[1]s`, role))
	p := open(t, ui(g))
	p.goTo("tables")
	p.wait(`document.querySelector('#past .finding')`)
	for row, wanted := range map[string][]string{"1": {"inventory:{sku}", "observe", "select update", "recorded, without attributes", "nobody"}, "2": {"order:{order_no}", "enforce", "insert", "not kept", role}} {
		cells := strings.Join(strings.Fields(p.text("#tables tbody tr:nth-child("+row+") td")), " ")
		for _, text := range wanted {
			if !strings.Contains(cells, text) {
				t.Errorf("row %s lacks %q: %s", row, text, cells)
			}
		}
	}
	p.says("REVOKE UPDATE ON shop.orders FROM " + role)
	p.goTo("")
	p.says("Bypass: writers past the gateway: " + role)
}
