package telemetry

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/client_golang/prometheus"
)

// metric is what the code knows of one.
type metric struct {
	labels []string
	kind   string // "": one of the libraries' own
}

var descOf = regexp.MustCompile(`^Desc\{fqName: "([a-z0-9_]+)".*variableLabels: \{(.*)\}\}$`)

// known lists every metric of a gateway that watches its sources.
func known(t *testing.T) map[string]metric {
	t.Helper()
	m := New("v0")
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		m.registry.Describe(descs)
		Sources{}.Describe(descs)
	}()
	all := map[string]metric{}
	for d := range descs {
		found := descOf.FindStringSubmatch(d.String())
		if found == nil {
			t.Fatalf("%s can't be read", d)
		}
		all[found[1]] = metric{labels: slices.DeleteFunc(strings.Split(found[2], ","), func(l string) bool { return l == "" })}
	}
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families { // those of the Go collector describe nothing
		if _, ok := all[f.GetName()]; !ok {
			all[f.GetName()] = metric{}
		}
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	metricRow = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (counter|gauge|histogram) \\| ([a-z_`, ]*) ?\\| (.+) \\|$")
	quoted    = regexp.MustCompile("`([^`]+)`")
)

func TestThePageListsEveryMetricWithItsLabels(t *testing.T) {
	t.Parallel()
	documented := map[string][]string{}
	types := map[string]string{}
	for _, row := range metricRow.FindAllStringSubmatch(read(t, "docs/metrics.md"), -1) {
		documented[row[1]], types[row[1]] = []string{}, row[2]
		for _, label := range quoted.FindAllStringSubmatch(row[3], -1) {
			documented[row[1]] = append(documented[row[1]], label[1])
		}
	}
	for name, m := range known(t) {
		if !strings.HasPrefix(name, namespace) {
			continue
		}
		labels, ok := documented[name]
		if !ok {
			t.Errorf("%s is not documented", name)
		} else if !slices.Equal(slices.Sorted(slices.Values(labels)), slices.Sorted(slices.Values(m.labels))) {
			t.Errorf("%s has the labels %q, documented are %q", name, m.labels, labels)
		}
		if counts := types[name] == "counter"; counts != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is documented as a %s", name, types[name])
		}
		if times := types[name] == "histogram"; times != strings.HasSuffix(name, "_duration_seconds") {
			t.Errorf("%s is documented as a %s", name, types[name])
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("%s is documented and does not exist", name)
	}
}

var (
	nameIn     = regexp.MustCompile(`\b(?:fencegate|process|go)_[a-z0-9_]+`)
	selectorIn = regexp.MustCompile(`([a-z0-9_:]+)\{([^}]*)\}`)
	matcherIn  = regexp.MustCompile(`([a-z_]+) *(?:=~|!~|!=|=) *"`)
	byIn       = regexp.MustCompile(`\bby \(([^)]*)\)`)
	legendIn   = regexp.MustCompile(`\{\{ *(?:\$labels\.)?([a-z_]+) *\}\}`)
)

// given are labels that Prometheus itself adds, or makes of a histogram.
var given = []string{"job", "instance", "le"}

// plain is the name of the metric that a series is of.
func plain(series string, all map[string]metric) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if name, ok := strings.CutSuffix(series, suffix); ok {
			if _, exists := all[name]; exists {
				return name
			}
		}
	}
	return series
}

// holdAgainst checks the names and labels of an expression, and the labels that a
// text about its result names.
func holdAgainst(t *testing.T, all map[string]metric, expr, text string) {
	t.Helper()
	var labels []string
	names := nameIn.FindAllString(expr, -1)
	for _, series := range names {
		m, ok := all[plain(series, all)]
		if !ok {
			t.Errorf("%s does not exist, in %s", series, expr)
		}
		labels = append(labels, m.labels...)
	}
	if len(names) == 0 && !strings.Contains(expr, "up{") {
		t.Errorf("%q names no metric", expr)
	}
	for _, selector := range selectorIn.FindAllStringSubmatch(expr, -1) {
		has := all[plain(selector[1], all)].labels
		for _, matcher := range matcherIn.FindAllStringSubmatch(selector[2], -1) {
			if !slices.Contains(given, matcher[1]) && !slices.Contains(has, matcher[1]) {
				t.Errorf("%s has no label %s, in %s", selector[1], matcher[1], expr)
			}
		}
	}
	left := []string{"instance", "job"}
	for _, by := range byIn.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(by[1], ",") {
			left = append(left, strings.TrimSpace(label))
		}
	}
	for _, label := range left {
		if !slices.Contains(given, label) && !slices.Contains(labels, label) {
			t.Errorf("no metric has the label %s, in %s", label, expr)
		}
	}
	for _, label := range legendIn.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(left, label[1]) {
			t.Errorf("%q names the label %s, which the result of %s does not have", text, label[1], expr)
		}
	}
}

func TestTheDashboardShowsOnlyWhatExists(t *testing.T) {
	t.Parallel()
	var dashboard struct {
		Panels []struct {
			Title   string
			Type    string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "deploy/grafana/fencegate.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	all := known(t)
	shown := 0
	for _, panel := range dashboard.Panels {
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("%q shows nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			holdAgainst(t, all, target.Expr, target.LegendFormat)
			shown++
		}
	}
	if shown == 0 {
		t.Error("the dashboard shows nothing")
	}
}

func TestEachAlertNamesWhatExistsAndHasItsRunbook(t *testing.T) {
	t.Parallel()
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Expr        string
				Labels      map[string]string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "deploy/prometheus/alerts.yaml")), &rules); err != nil {
		t.Fatal(err)
	}
	all := known(t)
	runbooks := sections(read(t, "docs/operations.md"))
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			holdAgainst(t, all, rule.Expr, rule.Annotations["summary"])
			if severity := rule.Labels["severity"]; severity != "critical" && severity != "warning" || rule.Annotations["summary"] == "" {
				t.Errorf("%s lacks its severity or summary", rule.Alert)
			}
			_, anchor, _ := strings.Cut(rule.Annotations["runbook_url"], "docs/operations.md#")
			body, ok := runbooks[anchor]
			if !ok || anchor != strings.ToLower(rule.Alert) {
				t.Errorf("the runbook of %s is %q", rule.Alert, rule.Annotations["runbook_url"])
			}
			if !strings.Contains(body, "Means: ") || !strings.Contains(body, "Look") || !strings.Contains(strings.ToLower(body), "do: ") {
				t.Errorf("the runbook of %s does not say what it means, where to look and what to do", rule.Alert)
			}
			delete(runbooks, anchor)
		}
	}
	for anchor := range maps.Keys(runbooks) {
		if strings.HasPrefix(anchor, namespace) {
			t.Errorf("there is no alert for the runbook %s", anchor)
		}
	}
	for _, name := range nameIn.FindAllString(read(t, "docs/operations.md"), -1) {
		if _, ok := all[plain(name, all)]; !ok && !strings.HasPrefix(name, "fencegate_test") {
			t.Errorf("docs/operations.md names %s, which does not exist", name)
		}
	}
}

// sections returns the text of each heading by its anchor.
func sections(markdown string) map[string]string {
	all := map[string]string{}
	anchor := ""
	for line := range strings.Lines(markdown) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			anchor = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(title)), " ", "-")
		}
		all[anchor] += line
	}
	return all
}
