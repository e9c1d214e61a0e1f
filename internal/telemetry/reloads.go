package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// reloads is what is known of the configuration in force.
type reloads struct{ well, at prometheus.Gauge }

func newReloads() reloads {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
	}
	r := reloads{
		well: gauge("config_last_reload_successful", "Whether the configuration was taken over when it was last read: 1, or else 0."),
		at:   gauge("config_last_reload_timestamp_seconds", "When the configuration in force was read."),
	}
	r.taken()
	return r
}

func (r reloads) all() []prometheus.Collector { return []prometheus.Collector{r.well, r.at} }

func (r reloads) taken() {
	r.well.Set(1)
	r.at.Set(float64(time.Now().UnixMilli()) / 1000)
}

// Reloaded takes what became of reading the configuration anew; nil is well.
// Without metrics nobody is told.
func (m *Metrics) Reloaded(fault error) {
	if m == nil {
		return
	}
	if fault != nil {
		m.reloads.well.Set(0)
		return
	}
	m.reloads.taken()
}
