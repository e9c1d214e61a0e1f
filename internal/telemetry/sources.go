package telemetry

import (
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/proxy"
)

// Sources are read at each scrape. All are needed, but for Traces.
type Sources struct {
	Server  func() *proxy.Server // that serves now
	Gate    *gate.Gate
	Catalog func() *catalog.Catalog     // that is served now
	Pools   map[string]*pgxpool.Pool    // by the kind of their work
	Ready   func() bool                 // what /readyz says
	Ends    func() map[string]time.Time // of the certificates, by listener
	Traces  *Traces                     // nil: off
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

var (
	ready = describe("ready", "Whether /readyz answers 200: 1, or else 0.")

	certificateEnds = describe("certificate_expiry_timestamp_seconds", "When the certificate that a listener shows ends.", "listener")

	inFlight      = describe("http_requests_in_flight", "Requests that hold a slot.", "kind")
	inFlightLimit = describe("http_requests_in_flight_limit", "Requests that may hold a slot at once.", "kind")

	acquiresWaiting = describe("acquires_waiting", "Acquires in line for a lock key that is held.")
	writesWaiting   = describe("writes_waiting", "Writes in line behind others under their lock key.")

	catalogLooks    = describe("catalog_looks_total", "Looks at what the protected tables look like.")
	catalogChanges  = describe("catalog_changes_total", "Looks that found a change.")
	catalogFailures = describe("catalog_look_failures_total", "Looks that could not read all that is configured.")

	poolConnections = describe("pool_connections", "Open database connections.", "pool", "state")
	poolLimit       = describe("pool_connections_limit", "Database connections that may be open.", "pool")
	poolAcquires    = describe("pool_acquires_total", "Connections taken from the pool.", "pool")
	poolWaits       = describe("pool_waits_total", "Connections that were waited for, because none was idle.", "pool")
	poolWaitSeconds = describe("pool_wait_seconds_total", "Time spent waiting for connections that were then taken.", "pool")
	poolGivenUp     = describe("pool_acquires_given_up_total", "Waits for a connection that ended without one.", "pool")

	spansSent    = describe("trace_spans_sent_total", "Spans that the receiver of traces has taken.")
	spansDropped = describe("trace_spans_dropped_total", "Spans that were not sent.", "reason")
)

// Describe implements prometheus.Collector.
func (s Sources) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		ready, certificateEnds, inFlight, inFlightLimit, acquiresWaiting, writesWaiting, catalogLooks, catalogChanges, catalogFailures,
		poolConnections, poolLimit, poolAcquires, poolWaits, poolWaitSeconds, poolGivenUp,
		spansSent, spansDropped,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s Sources) Collect(to chan<- prometheus.Metric) {
	r := reading{to}
	r.flag(ready, s.Ready())
	for listener, end := range s.Ends() {
		r.gauge(certificateEnds, int(end.Unix()), listener)
	}
	server := s.Server()
	now, most := server.InFlight(), server.MostInFlight()
	for _, kind := range []struct {
		name      string
		now, most int
	}{{"write", now.Writes, most.Writes}, {"read", now.Reads, most.Reads}, {"stream", now.Streams, most.Streams}} {
		r.gauge(inFlight, kind.now, kind.name)
		r.gauge(inFlightLimit, kind.most, kind.name)
	}
	acquires, writes := s.Gate.Waiting()
	r.gauge(acquiresWaiting, acquires)
	r.gauge(writesWaiting, writes)
	looks := s.Catalog().Looks()
	r.counter(catalogLooks, float64(looks.Done))
	r.counter(catalogChanges, float64(looks.Changed))
	r.counter(catalogFailures, float64(looks.Failed))
	if s.Traces != nil {
		box := s.Traces.outbox
		r.counter(spansSent, float64(box.sent.Load()))
		r.counter(spansDropped, float64(box.full.Load()), "queue_full")
		r.counter(spansDropped, float64(box.lost.Load()), "send_failed")
	}
	for name, pool := range s.Pools {
		r.pool(name, pool.Stat())
	}
}

// reading sends what was read.
type reading struct{ to chan<- prometheus.Metric }

func (r reading) gauge(d *prometheus.Desc, value int, labels ...string) {
	r.to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
}

func (r reading) flag(d *prometheus.Desc, set bool) {
	value := 0
	if set {
		value = 1
	}
	r.gauge(d, value)
}

func (r reading) counter(d *prometheus.Desc, value float64, labels ...string) {
	r.to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
}

func (r reading) pool(name string, s *pgxpool.Stat) {
	r.gauge(poolConnections, int(s.AcquiredConns()), name, "acquired")
	r.gauge(poolConnections, int(s.IdleConns()), name, "idle")
	r.gauge(poolConnections, int(s.ConstructingConns()), name, "opening")
	r.gauge(poolLimit, int(s.MaxConns()), name)
	r.counter(poolAcquires, float64(s.AcquireCount()), name)
	r.counter(poolWaits, float64(s.EmptyAcquireCount()), name)
	r.counter(poolWaitSeconds, s.EmptyAcquireWaitTime().Seconds(), name)
	r.counter(poolGivenUp, float64(s.CanceledAcquireCount()), name)
}
