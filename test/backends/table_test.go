package backends_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/fencegate/fencegate/internal/lockclient/locktest"
)

var update = flag.Bool("update", false, "write the table of backends and guarantees into docs/leases.md")

const (
	page       = "../../docs/leases.md"
	tableBegin = "<!-- The table is what test/backends found: go test ./test/backends -update -->\n"
	tableEnd   = "<!-- End of the table. -->\n"
)

// table collects the results: a cell for each rule and backend.
type table struct {
	mu    sync.Mutex
	cells map[string]locktest.Results
}

func newTable() *table { return &table{cells: map[string]locktest.Results{}} }

func (t *table) add(name string, results locktest.Results) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cells[name] == nil {
		t.cells[name] = locktest.Results{}
	}
	maps.Copy(t.cells[name], results)
}

// text is the table in Markdown. It is not whole if some tests were left out.
func (t *table) text() (text string, whole bool) {
	whole = true
	head, line := "| |", "|---|"
	for _, b := range backends {
		head, line = head+" "+b.name+" |", line+"---|"
	}
	text = head + "\n" + line + "\n"
	for _, rule := range append(locktest.Rules(), everyDayWorks, allLost, oldHolder, notBelieved, serverLost) {
		text += fmt.Sprintf("| %s |", rule)
		for _, b := range backends {
			cell, tried := t.cells[b.name][rule]
			whole = whole && tried
			text += " " + cell + " |"
		}
		text += "\n"
	}
	return text, whole
}

// compare holds docs/leases.md against the table, if all tests have run.
func (t *table) compare(tb testing.TB) {
	tb.Helper()
	text, whole := t.text()
	tb.Logf("\n%s", text)
	if !whole {
		return // -run left some out
	}
	raw, err := os.ReadFile(page)
	must(tb, err)
	before, rest, begun := strings.Cut(string(raw), tableBegin)
	written, after, ended := strings.Cut(rest, tableEnd)
	if !begun || !ended {
		tb.Fatalf("%s lacks the lines around the table", page)
	}
	if written == text {
		return
	}
	if !*update {
		tb.Fatalf("%s has another table; after a look at the difference, write it with -update:\n%s", page, written)
	}
	must(tb, os.WriteFile(page, []byte(before+tableBegin+text+tableEnd+after), 0o644))
}
