package dashboard_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestALeaseRunsDownBeforeOnesEyes(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	p := open(t, ui(g))
	acquire(t, g, "inventory:SKU-1", "short", 6000)
	acquire(t, g, "inventory:SKU-2", "long", 60000)
	asked := time.Now()
	p.goTo("locks")
	const seconds = `parseFloat(document.querySelectorAll('#leases .left')[1].innerText)`
	first := eval[float64](p, seconds)
	p.wait(seconds + " < " + strings.TrimSpace(eval[string](p, seconds+".toFixed(1)")))
	later := eval[float64](p, seconds)
	if past := time.Since(asked).Seconds(); first > 60 || later >= first || first-later > past+.2 {
		t.Errorf("from %v to %v in %v s", first, later, past)
	}
	p.wait(`document.querySelectorAll('#leases tbody tr').length === 1`)
	if left := p.text("#leases tbody"); !strings.Contains(left, "SKU-2") {
		t.Errorf("what is left is %s", left)
	}
}

func TestLocksArePickedByPrefix(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	for _, key := range []string{"a:1", "a:2", "b:1"} {
		acquire(t, g, key, "worker", 60000)
	}
	p := open(t, ui(g))
	p.goTo("locks")
	p.fill("#prefix", "a:")
	p.follow(".filters button")
	if n := p.rows("#leases"); n != 2 || !strings.HasSuffix(p.address(), "/locks?prefix=a%3A") {
		t.Errorf("%d locks at %s", n, p.address())
	}
	p.follow("#leases tr:nth-child(2) a")
	p.says("a:2")
}

func TestFiltersStandInTheAddress(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	record(t, g, 120, "stale_token", "inventory:SKU-1")
	record(t, g, 3, "lock_scope", "inventory:SKU-2")
	p := open(t, ui(g))
	p.goTo("refusals")
	p.fill("#code", "stale_token")
	p.fill("#key", "inventory:SKU-1")
	p.follow(".filters button")
	at, err := url.Parse(p.address())
	if err != nil {
		t.Fatal(err)
	}
	if got := at.Query().Encode(); got != "code=stale_token&key=inventory%3ASKU-1&span=24h" {
		t.Errorf("the address says %s", got)
	}
	p.do(chromedp.Reload())
	if code, key := eval[string](p, `document.querySelector('#code').value`), eval[string](p, `document.querySelector('#key').value`); code != "stale_token" || key != "inventory:SKU-1" {
		t.Errorf("after loading again the form has %q and %q", code, key)
	}
	seen := map[string]bool{}
	for _, want := range []int{50, 50, 20} {
		for _, id := range strings.Fields(eval[string](p, `[...document.querySelectorAll('#refused tbody tr')].map(r => r.id).join(' ')`)) {
			seen[id] = true
			want--
		}
		if want != 0 {
			t.Errorf("%d rows too few on a page", want)
		}
		if eval[bool](p, `!!document.querySelector('a[rel=next]')`) {
			p.follow("a[rel=next]")
		}
	}
	if len(seen) != 120 {
		t.Errorf("%d refusals on three pages", len(seen))
	}
	p.follow(".pager a")
	p.follow(".lane a")
	if n := p.rows("#refused"); n != 50 {
		t.Errorf("%d rows", n)
	}
	p.goTo("refusals?code=lock_scope&table=shop.inventory&principal=anyone")
	if n := p.rows("#refused"); n != 3 {
		t.Errorf("%d rows", n)
	}
	g.Database.Exec(t, `
		INSERT INTO fencegate.refusals (code, disposition, operation, table_name, lock_key, presented_token, holder_digest, principal, request_id, remote_address, instance)
		VALUES ('stale_token', 'admitted', 'update', 'shop.inventory', 'inventory:SKU-1', 1, 'abcdef0123456789', 'anyone', 'request', '127.0.0.1', 'test')`)
	p.goTo("refusals")
	p.fill("#disposition", "admitted")
	p.follow(".filters button")
	if n, chosen := p.rows("#refused"), eval[string](p, `document.querySelector('#disposition').value`); n != 1 || chosen != "admitted" {
		t.Errorf("%d rows, %q is chosen", n, chosen)
	}
	p.goTo("refusals?disposition=event&span=all")
	p.says("Nothing was refused.")
	p.goTo("refusals?since=2020-01-01T00:00:00&until=2020-01-02T00:00:00")
	p.says("Nothing was refused.")
}

func TestFollowing(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	p := open(t, ui(g))
	p.allow("ERR_") // once the gateway is gone
	p.goTo("refusals?code=stale_token")
	p.follow("#follow")
	p.says("Following")
	refuse(t, g, "SKU-1")
	p.wait(`document.querySelectorAll('#refused tbody tr').length === 1`)
	refuse(t, g, "SKU-2")
	p.wait(`document.querySelectorAll('#refused tbody tr').length === 2`)
	p.wait(`document.querySelector('#said').innerText.includes('new refusals')`)
	if !eval[bool](p, `document.querySelector('#lost').hidden`) {
		t.Error("the connection seems lost")
	}
	g.Stop(t)
	p.says("Connection lost.")
}

func TestALostConnectionIsTold(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	p := open(t, ui(g))
	p.allow("ERR_")
	p.goTo("locks")
	g.Stop(t)
	p.says("Connection lost.")
	p.says("Nobody holds a lock.") // what was known stays
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	key := `a<b>&"c` + "\u202E"
	acquire(t, g, key, "worker", 60000)
	p := open(t, ui(g))
	p.allow("status of 422")
	p.goTo("lock?" + url.Values{"key": {key}}.Encode())
	p.revoke("something else", "its worker hangs")
	p.says("That is not this lock’s key. Nothing was revoked.")
	escaped := url.QueryEscape(key)
	if s := look(t, g, escaped); !s.Live {
		t.Error("it was revoked all the same")
	}
	if reason := eval[string](p, `document.querySelector('#reason').value`); reason != "its worker hangs" {
		t.Errorf("the reason became %q", reason)
	}
	if !eval[bool](p, `document.activeElement.id === 'confirm'`) {
		t.Error("the focus is not where the mistake is")
	}
	p.fill("#block", "90")
	p.revoke(key, "its worker hangs")
	p.says("Revoked: nothing is admitted under token 1 any more.")
	if s := look(t, g, escaped); s.Live || s.Mark.State != "revoked" {
		t.Errorf("%+v", s)
	}
	last := history(t, g, escaped).Grants[0]
	if last.Event != "revoked" || last.Token != "1" || last.Reason != "its worker hangs" || last.Principal != "anyone" {
		t.Errorf("on record is %+v", last)
	}
	p.wait(`document.querySelector('#history tbody tr .event.revoked')`)
	p.says("blocked")
	if answer := g.TryAcquire(t, key, 1000); answer.Status != 423 {
		t.Errorf("it could be taken again: %d %s", answer.Status, answer.Body)
	}
}

// A holder that nobody has seen is not cut off by a form that was shown before.
func TestARevokeOfAnotherHolderIsAskedAgain(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	g.Release(t, acquire(t, g, "a", "worker-a", 60000))
	p := open(t, ui(g))
	p.allow("status of 422")
	p.goTo("lock?key=a")
	acquire(t, g, "a", "worker-b", 60000)
	p.revoke("a", "it hangs")
	p.says("The lock changed hands meanwhile: token 2, worker-b.")
	if s := look(t, g, "a"); !s.Live {
		t.Error("it was revoked")
	}
	p.do(chromedp.Click(chromedp.CSS("button.dangerous")))
	p.says("Revoked: nothing is admitted under token 2 any more.")
}

func TestRevokingTakesNoMouse(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	acquire(t, g, "inventory:SKU-1", "worker", 60000)
	p := open(t, ui(g))
	p.goTo("locks")
	p.do(chromedp.KeyEvent(kb.Tab))
	if at := eval[string](p, `document.activeElement.innerText`); at != "Skip to content" {
		t.Errorf("the first stop is %q", at)
	}
	p.tabTo(`.matches('#leases td a')`)
	if outline := eval[string](p, `getComputedStyle(document.activeElement).outlineStyle`); outline == "none" {
		t.Error("the focus is not to be seen")
	}
	p.do(chromedp.KeyEvent(kb.Enter))
	p.says("Cut the holder off")
	p.tabTo(`.id === 'reason'`)
	p.do(chromedp.KeyEvent("it hangs"))
	p.tabTo(`.id === 'confirm'`)
	p.do(chromedp.KeyEvent("inventory:SKU-1"))
	p.tabTo(`.matches('button.dangerous')`)
	p.do(chromedp.KeyEvent(kb.Enter))
	p.says("Revoked: nothing is admitted under token 1")
	if s := look(t, g, "inventory:SKU-1"); s.Live {
		t.Errorf("%+v", s)
	}
}

// tabTo presses Tab until the focus is where it should be.
func (p *tab) tabTo(wanted string) {
	p.t.Helper()
	for range 60 {
		p.do(chromedp.KeyEvent(kb.Tab))
		if eval[bool](p, "document.activeElement"+wanted) {
			return
		}
	}
	p.t.Fatalf("the keyboard does not get to where %s", wanted)
}

// Asking anew must not take the focus away.
func TestTheFocusStays(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	acquire(t, g, "b", "worker", 60000)
	p := open(t, ui(g))
	p.goTo("locks")
	p.do(chromedp.Focus(chromedp.CSS("#leases td a")))
	acquire(t, g, "c", "worker", 60000)
	p.wait(`document.querySelectorAll('#leases tbody tr').length === 2`)
	if !eval[bool](p, `document.activeElement.matches('#leases td a')`) {
		t.Error("the focus is gone")
	}
}
