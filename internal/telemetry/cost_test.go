package telemetry

import (
	"net/http"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/proxy"
)

// BenchmarkWrite is all that is counted of one write.
func BenchmarkWrite(b *testing.B) {
	m := New("v0")
	o := m.Observer()
	checks := []gate.Check{{Verdict: gate.Live}}
	outcome := proxy.Outcome{Method: http.MethodPatch, Route: "/rest/{table}", Status: http.StatusNoContent, Took: time.Millisecond, Target: "shop.inventory"}
	b.ReportAllocs()
	for b.Loop() {
		o.Checked(time.Millisecond, checks, nil)
		o.Ran(gate.Writing, time.Millisecond)
		m.Served(outcome)
	}
}
