// Package telemetry counts and times what the rooms below announce, and reads the
// rest from them when it is asked for. They don't know it. docs/metrics.md lists
// every metric.
//
// No label is ever made of a lock key, a holder, a principal or anything else that
// callers can think up: what can be known of those is in the refusals and the log.
package telemetry

import (
	"log/slog"
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const namespace = "fencegate"

// Upper bounds in seconds.
var (
	requestBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	stepBuckets    = []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 10}
	waitBuckets    = []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 60, 90}
)

// Metrics is all that is counted of one gateway. Safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	served   served
	inside   inside
	reloads  reloads
}

// New returns the metrics of a gateway of this version.
func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), served: newServed(), inside: newInside(), reloads: newReloads()}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "Always 1; the labels tell what runs.",
	}, []string{"version", "go_version"})
	build.WithLabelValues(version, runtime.Version()).Set(1)
	m.registry.MustRegister(build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(m.served.all()...)
	m.registry.MustRegister(m.inside.all()...)
	m.registry.MustRegister(m.reloads.all()...)
	return m
}

// Watch adds what is read from its source at each scrape. To be called once.
func (m *Metrics) Watch(s Sources) error { return m.registry.Register(s) }

// Handler answers with all metrics, as OpenMetrics if that is asked for.
func (m *Metrics) Handler(log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ErrorHandling:     promhttp.ContinueOnError,
	})
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func single(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

func histogram(buckets []float64, name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
}
