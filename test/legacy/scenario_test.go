package legacy_test

import (
	_ "embed"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

//go:embed relations.sql
var relationsSQL string

// scenario is one write to a relation and what it must leave. In all its texts
// $k is the lock key's value, which no other scenario uses.
type scenario struct {
	given  string // SQL before it
	method string // "": POST
	path   string
	prefer string
	body   string
	answer string // the whole body, "" if it must be empty or is a problem
	// refused is status, slug and code of the problem that it must be, "" if it
	// must succeed; column and constraint are what the problem names.
	refused            string
	column, constraint string
	broken             bool   // the request itself is outside openapi.yaml
	header             string // Content-Range, if any is expected
	sees               string // a query of one column
	rows               string // what it then finds, rows separated by spaces
}

var relationTables = []string{"always", "by_default", "serials", "computed", "defaults", "strict", "uniques",
	"items", "plain_view", "barrier_view", "checked_view", "locally_checked_view", "half_view", "sums_view", "instead_view", "ruled_view",
	"logged", "kept", "sales", "sales_2025", "regions", "vehicles", "trucks", "triggered", "unchanging",
	"nodes", "hasty_nodes", "ranks", "bookings", "owners", "pets", "bigs"}

func TestRelations(t *testing.T) {
	t.Parallel()
	var tables []table
	for _, name := range relationTables {
		tables = append(tables, table{"old", name, "old:{k}"})
	}
	w := build(t, relationsSQL, tables...)
	seen := map[string]scenario{}
	for group, scenarios := range map[string]map[string]scenario{
		"Columns": columnScenarios, "Views": viewScenarios, "Partitions": partitionScenarios,
		"Triggers": triggerScenarios, "Constraints": constraintScenarios, "Reports": reportScenarios,
	} {
		maps.Copy(seen, scenarios)
		for name, s := range scenarios {
			t.Run(group+"/"+name, func(t *testing.T) {
				t.Parallel()
				s.run(t, w)
			})
		}
	}
	t.Run("EveryRelationIsWritten", func(t *testing.T) {
		for _, name := range relationTables {
			used := false
			for _, s := range seen {
				path, _, _ := strings.Cut(s.path, "?")
				used = used || path == name
			}
			if !used {
				t.Errorf("no scenario writes %s", name)
			}
		}
	})
}

func (s scenario) run(t *testing.T, w *world) {
	k := strings.TrimPrefix(t.Name(), "TestRelations/")
	if strings.HasPrefix(s.path, "bigs") {
		k = bigKey(t)
	}
	fill := func(text string) string { return strings.ReplaceAll(text, "$k", k) }
	if s.given != "" {
		w.rows(t, fill(s.given))
	}
	if s.method == "" {
		s.method = http.MethodPost
	}
	l := w.Acquire(t, "old:"+k, 300_000)
	h := l.Header()
	if s.prefer != "" {
		h.Set("Prefer", s.prefer)
	}
	answer := w.Do(t, testenv.Request{Method: s.method, Path: "/rest/" + fill(s.path), Header: h, Body: fill(s.body), Broken: s.broken})
	switch {
	case s.refused != "":
		p := answer.Problem(t)
		if got := fmt.Sprintf("%d %s %s", answer.Status, p.Slug(), p.Code); got != s.refused || p.Column != s.column || p.Constraint != s.constraint {
			t.Errorf("%s, column %q, constraint %q, not %s: %s", got, p.Column, p.Constraint, s.refused, answer.Body)
		}
		if p.Outcome != "not_applied" || p.Retryable {
			t.Errorf("%s", answer.Body)
		}
	case answer.Status >= http.StatusBadRequest || answer.Body != fill(s.answer):
		t.Errorf("%d %s, not %s", answer.Status, answer.Body, fill(s.answer))
	}
	if got := answer.Header.Get("Content-Range"); s.header != "" && got != s.header {
		t.Errorf("Content-Range is %s, not %s", got, s.header)
	}
	if got := strings.ReplaceAll(w.text(t, fill(s.sees)), "\n", " "); got != fill(s.rows) {
		t.Errorf("there is %q, not %q", got, fill(s.rows))
	}
}

const (
	full  = "return=representation"
	merge = "resolution=merge-duplicates"
)

// patch and del are for tables of scenarios, where most insert.
const (
	patch = http.MethodPatch
	del   = http.MethodDelete
)
