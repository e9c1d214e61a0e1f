package dashboard_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	devlog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/fencegate/fencegate/internal/testenv/browser"
)

// patience is for what a page does, on a machine that has much else to do.
const patience = 30 * time.Second

var stopBrowser = func() {}

var theBrowser = sync.OnceValues(func() (context.Context, error) {
	ctx, stop, err := browser.Start(context.Background())
	if err == nil {
		stopBrowser = stop
	}
	return ctx, err
})

func endBrowser() { stopBrowser() }

// tab is a page in the one browser of this test program. Whatever it complains of in
// its console, and each request that goes elsewhere, fails the test.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string // of the dashboard, with a slash at its end

	mu      sync.Mutex
	origin  string
	faults  []string
	allowed []string
}

// open opens a tab for a dashboard at base.
func open(t *testing.T, base string) *tab {
	t.Helper()
	parent, err := theBrowser()
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	p := &tab{t: t, ctx: ctx, base: base, origin: at.Scheme + "://" + at.Host}
	p.must(chromedp.Do(ctx))
	p.must(chromedp.Listen(ctx, p.listen))
	call(p, network.Enable, network.EnableParams{})
	// A tab of many is hidden otherwise, and hidden pages don't ask anew.
	call(p, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	p.size(1280, 900)
	t.Cleanup(func() {
		end()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, fault := range p.faults {
			if !slices.ContainsFunc(p.allowed, func(allowed string) bool { return strings.Contains(fault, allowed) }) {
				t.Error(fault)
			}
		}
	})
	return p
}

func (p *tab) listen(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *devlog.EventEntryAdded:
		p.faults = append(p.faults, fmt.Sprintf("the console says: %s %s (%s)", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *runtime.EventConsoleAPICalled:
		p.faults = append(p.faults, fmt.Sprintf("the page said to the console: %s", e.Type))
	case *runtime.EventExceptionThrown:
		p.faults = append(p.faults, fmt.Sprintf("the script failed: %s", e.ExceptionDetails.Text))
	case *network.EventRequestWillBeSent:
		// The browser's own pictures in forms are data.
		if !strings.HasPrefix(e.Request.URL, p.origin+"/") && !strings.HasPrefix(e.Request.URL, "data:") {
			p.faults = append(p.faults, "a request went to "+e.Request.URL)
		}
	}
}

// allow expects a complaint.
func (p *tab) allow(fault string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.allowed = append(p.allowed, fault)
}

func (p *tab) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	p.must(chromedp.Do(ctx, actions...))
}

func (p *tab) size(width, height int64) { p.do(chromedp.EmulateViewport(width, height)) }

// goTo loads one of the pages.
func (p *tab) goTo(page string) {
	p.t.Helper()
	p.do(chromedp.Navigate(p.base + page))
}

// follow clicks what leads to another page, and returns when that is there.
func (p *tab) follow(selector string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if _, err := chromedp.RunResponse(ctx, chromedp.Click(chromedp.CSS(selector))); err != nil {
		p.t.Fatalf("following %s: %v", selector, err)
	}
}

func (p *tab) fill(selector, text string) {
	p.t.Helper()
	p.do(chromedp.SetValue(chromedp.CSS(selector), text))
}

// eval returns what an expression is in the page.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	value, err := tryEval[T](p, expression)
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

func tryEval[T any](p *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression))
}

func (p *tab) text(selector string) string {
	p.t.Helper()
	return eval[string](p, fmt.Sprintf(`[...document.querySelectorAll(%q)].map(e => e.innerText).join('\n')`, selector))
}

func (p *tab) address() string { return eval[string](p, `location.href`) }

// wait returns once an expression is true; while another page loads it may fail.
// Chromedp's own way needs the page to allow eval.
func (p *tab) wait(expression string) {
	p.t.Helper()
	for end := time.Now().Add(patience); ; {
		is, err := tryEval[bool](p, "Boolean("+expression+")")
		if err == nil && is {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("it never was that %s (%v); the page is %s\n%s", expression, err, p.address(), p.text("body"))
		}
		<-time.After(30 * time.Millisecond)
	}
}

// says waits for a text in the page.
func (p *tab) says(text string) {
	p.t.Helper()
	p.wait(fmt.Sprintf(`document.body.innerText.includes(%q)`, text))
}

// rows is how many rows a table has.
func (p *tab) rows(selector string) int {
	p.t.Helper()
	return eval[int](p, fmt.Sprintf(`document.querySelectorAll(%q).length`, selector+" tbody tr"))
}

func call[P, R any](p *tab, command cdp.Command[P, R], params P) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, command, params)
	p.must(err)
}

func (p *tab) prefer(scheme string) {
	p.t.Helper()
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}
