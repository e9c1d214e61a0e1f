package telemetry

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencegate/fencegate/internal/proxy"
)

// served is what is known at the end of each request.
type served struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	writes   *prometheus.CounterVec
	leases   *prometheus.CounterVec
	replays  *prometheus.CounterVec
}

func newServed() served {
	return served{
		requests: counter("http_requests_total", "Requests answered.", "method", "route", "status"),
		duration: histogram(requestBuckets, "http_request_duration_seconds", "From the request's headers to the end of its answer.", "method", "route"),
		writes:   counter("writes_total", "Writes by what became of them.", "door", "table", "operation", "outcome"),
		leases:   counter("lease_calls_total", "Lease calls by what became of them.", "call", "outcome"),
		replays:  counter("idempotent_replays_total", "Requests answered from an earlier attempt under the same idempotency key.", "call"),
	}
}

func (s *served) all() []prometheus.Collector {
	return []prometheus.Collector{s.requests, s.duration, s.writes, s.leases, s.replays}
}

// Values of labels.
const (
	ok      = "ok"
	none    = "none"    // no route
	unknown = "unknown" // a table that was not read so far, or is not configured
	other   = "other"   // a method that no route has
)

// door is a route that writes.
type door struct{ method, route, name, operation string }

var doors = []door{
	{http.MethodPost, "/rest/{table}", "rest", "insert"},
	{http.MethodPatch, "/rest/{table}", "rest", "update"},
	{http.MethodPut, "/rest/{table}", "rest", "put"},
	{http.MethodDelete, "/rest/{table}", "rest", "delete"},
	{http.MethodPost, "/rest/rpc/{name}", "rpc", "call"},
	{http.MethodPost, "/v1/transactions", "transaction", "transaction"},
}

// leaseCalls are the routes of POSTs.
var leaseCalls = map[string]string{
	"/v1/leases":         "acquire",
	"/v1/leases/renew":   "renew",
	"/v1/leases/release": "release",
	"/v1/leases/revoke":  "revoke",
}

var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete}

// Served takes the outcome of one request.
func (m *Metrics) Served(o proxy.Outcome) {
	s := &m.served
	method, route := o.Method, cmp.Or(o.Route, none)
	if !slices.Contains(methods, method) {
		method = other
	}
	s.requests.WithLabelValues(method, route, strconv.Itoa(o.Status)).Inc()
	s.duration.WithLabelValues(method, route).Observe(o.Took.Seconds())
	if method == http.MethodPost && leaseCalls[route] != "" {
		s.lease(leaseCalls[route], o)
		return
	}
	for _, d := range doors {
		if d.method == method && d.route == route {
			s.write(d, o)
			return
		}
	}
}

func (s *served) lease(call string, o proxy.Outcome) {
	s.leases.WithLabelValues(call, cmp.Or(o.Code, o.Reason, ok)).Inc()
	if o.Replayed {
		s.replays.WithLabelValues(call).Inc()
	}
}

func (s *served) write(d door, o proxy.Outcome) {
	s.writes.WithLabelValues(d.name, cmp.Or(o.Target, unknown), d.operation, cmp.Or(o.Code, ok)).Inc()
	if o.Replayed {
		s.replays.WithLabelValues("write").Inc()
	}
}
