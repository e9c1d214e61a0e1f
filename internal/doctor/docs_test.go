package doctor_test

import (
	"os"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/doctor"
)

func TestTheDocumentationExplainsEveryCode(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range doctor.Rules() {
		if !strings.Contains(string(text), "| `"+r.Code+"` | "+string(r.Severity)+" | ") {
			t.Errorf("docs/doctor.md has no line for %s, %s", r.Code, r.Severity)
		}
	}
	if lines := strings.Count(string(text), "\n| `"); lines != len(doctor.Rules()) {
		t.Errorf("docs/doctor.md explains %d codes, and there are %d", lines, len(doctor.Rules()))
	}
}
