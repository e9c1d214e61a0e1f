package telemetry

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/proxy"
)

// inside is what the gate announces.
type inside struct {
	checkDuration  *prometheus.HistogramVec
	checkFailures  prometheus.Counter
	checks         *prometheus.CounterVec
	refusals       *prometheus.CounterVec
	observations   *prometheus.CounterVec
	recordDuration *prometheus.HistogramVec
	recordFailures prometheus.Counter
	transactions   *prometheus.HistogramVec
	retries        *prometheus.CounterVec
	waits          *prometheus.HistogramVec
}

func newInside() inside {
	return inside{
		checkDuration:  histogram(stepBuckets, "lease_check_duration_seconds", "Asking the lock service about the leases of one write."),
		checkFailures:  single("lease_check_failures_total", "Lease checks that the lock service did not answer."),
		checks:         counter("lease_checks_total", "Claims that passed the lease check, by its verdict.", "verdict"),
		refusals:       counter("refusals_total", "Refusals of writes, renewals and releases.", "code", "operation", "table"),
		observations:   counter("observations_total", "Writes to tables in observe mode that would have been refused.", "code", "operation", "table"),
		recordDuration: histogram(stepBuckets, "refusal_record_duration_seconds", "Recording one refusal, before its answer leaves."),
		recordFailures: single("refusal_record_failures_total", "Refusals, and writes admitted in observe mode, that were answered without a record."),
		transactions:   histogram(stepBuckets, "database_transaction_duration_seconds", "Transactions from their connection to their end.", "kind"),
		retries:        counter("database_retries_total", "Transactions that ran once more.", "reason"),
		waits:          histogram(waitBuckets, "acquire_wait_duration_seconds", "Acquires with wait_ms, from joining the line to the answer."),
	}
}

func (i *inside) all() []prometheus.Collector {
	return []prometheus.Collector{i.checkDuration, i.checkFailures, i.checks, i.refusals, i.observations,
		i.recordDuration, i.recordFailures, i.transactions, i.retries, i.waits}
}

// Observer returns whom a gate has to tell what happens inside.
func (m *Metrics) Observer() *gate.Observer {
	i := &m.inside
	check, record, wait := i.checkDuration.WithLabelValues(), i.recordDuration.WithLabelValues(), i.waits.WithLabelValues()
	return &gate.Observer{
		Checked: func(took time.Duration, checks []gate.Check, unavailable error) {
			check.Observe(took.Seconds())
			if unavailable != nil {
				i.checkFailures.Inc()
			}
			for _, c := range checks {
				if c.Verdict != "" {
					i.checks.WithLabelValues(string(c.Verdict)).Inc()
				}
			}
		},
		Recorded: func(r audit.Record, took time.Duration, err error) {
			record.Observe(took.Seconds())
			if err != nil {
				i.recordFailures.Inc()
			}
			i.refusals.WithLabelValues(r.Code, r.Operation, tableOf(r)).Inc()
		},
		Admitted: func(r audit.Record) {
			if r.ID == 0 {
				i.recordFailures.Inc()
			}
			i.observations.WithLabelValues(r.Code, r.Operation, tableOf(r)).Inc()
		},
		Ran: func(kind gate.Kind, took time.Duration) {
			i.transactions.WithLabelValues(string(kind)).Observe(took.Seconds())
		},
		Again:  func(why gate.Reason) { i.retries.WithLabelValues(string(why)).Inc() },
		Waited: func(took time.Duration) { wait.Observe(took.Seconds()) },
	}
}

// tableOf keeps a list of tables, of which there are more than tables, out of the
// labels.
func tableOf(r audit.Record) string {
	if r.Operation == "transaction" {
		return proxy.Several
	}
	return cmp.Or(r.Table, none)
}
