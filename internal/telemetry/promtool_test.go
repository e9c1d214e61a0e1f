package telemetry

import (
	"os/exec"
	"regexp"
	"testing"
)

// promtool is Prometheus' own judgement of the rules. It must be there:
// scripts/deps.sh promtool.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("promtool", args...)
	cmd.Dir = "../../deploy/prometheus"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %q: %v\n%s", args, err, out)
	}
}

func TestPrometheusTakesTheRules(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", "alerts.yaml")
}

func TestEachAlertFiresWhenItShouldAndNotBefore(t *testing.T) {
	t.Parallel()
	promtool(t, "test", "rules", "alerts_test.yaml")
	tests := read(t, "deploy/prometheus/alerts_test.yaml")
	for _, rule := range regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(read(t, "deploy/prometheus/alerts.yaml"), -1) {
		quiet := regexp.MustCompile(`alertname: ` + rule[1] + `, eval_time: \w+, exp_alerts: \[\]`)
		fires := regexp.MustCompile(`alertname: ` + rule[1] + `\n +eval_time: \w+\n +exp_alerts:\n +- exp_labels:`)
		if !quiet.MatchString(tests) || !fires.MatchString(tests) {
			t.Errorf("alerts_test.yaml does not say when %s fires and when not", rule[1])
		}
	}
}
