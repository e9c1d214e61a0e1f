package telemetry

import (
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/proxy"
)

func write(m *Metrics, took time.Duration, code string) {
	m.Served(proxy.Outcome{Method: http.MethodPatch, Route: "/rest/{table}", Status: 200, Took: took, Code: code, Target: "shop.inventory"})
}

func TestTheLastMinutesAreKept(t *testing.T) {
	t.Parallel()
	m := New("test")
	write(m, time.Millisecond, "") // before the first sample: not in it
	r := m.Record()
	r.samples[0].at = r.samples[0].at.Add(-30 * time.Second)
	for range 98 {
		write(m, 1500*time.Microsecond, "")
	}
	write(m, 300*time.Millisecond, "stale_token")
	write(m, 300*time.Millisecond, "stale_token")
	m.Served(proxy.Outcome{Method: http.MethodGet, Route: "/rest/{table}", Status: 200, Took: 20 * time.Second})
	r.take()

	now := r.Recent()
	seconds := now.Covers.Seconds()
	if want := map[string]float64{"ok": 98 / seconds, "stale_token": 2 / seconds}; !maps.Equal(now.Writes, want) || seconds < 30 {
		t.Errorf("%v in %v s, not %v", now.Writes, seconds, want)
	}
	if now.P50 < time.Millisecond || now.P50 > 2500*time.Microsecond || now.P99 <= 250*time.Millisecond || now.P99 > 500*time.Millisecond {
		t.Errorf("p50 %s, p99 %s", now.P50, now.P99)
	}
}

func TestStepsAreThoseThatAreOver(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 5, 12, 0, 3, 0, time.UTC)
	r := &Recorder{}
	for i := range 28 { // until 12:00:30
		r.samples = append(r.samples, sample{at: began.Add(time.Duration(i) * time.Second),
			writes: map[string]float64{"ok": float64(i * 5)}, buckets: make([]uint64, len(requestBuckets))})
	}
	steps := r.Recent().Steps
	if len(steps) != 3 {
		t.Fatalf("%d steps: %v", len(steps), steps)
	}
	for i, step := range steps {
		if want := began.Truncate(Step).Add(time.Duration(i) * Step); !step.Began.Equal(want) || step.Writes["ok"] != 5 {
			t.Errorf("step %d began at %s, not %s, with %v", i, step.Began, want, step.Writes)
		}
	}
}

func TestWhatIsOldIsForgotten(t *testing.T) {
	t.Parallel()
	r := New("test").Record()
	r.samples[0].at = r.samples[0].at.Add(-kept - time.Second)
	r.take()
	if len(r.samples) != 1 || r.Recent().P99 != 0 || len(r.Recent().Writes) != 0 {
		t.Errorf("%v", r.samples)
	}
}
