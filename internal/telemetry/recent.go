package telemetry

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// What a Recorder keeps.
const (
	sampleEvery = time.Second
	kept        = 10 * time.Minute
	// Step is how long each of the steps of Recent is.
	Step = 10 * time.Second

	rateOver    = time.Minute
	latencyOver = 5 * time.Minute
)

// Recorder keeps what was counted in the last minutes, for a look at one gateway
// where nobody scrapes. Safe for concurrent use.
type Recorder struct {
	metrics *Metrics
	mu      sync.Mutex
	samples []sample // oldest first
}

// sample is what had been counted by a moment.
type sample struct {
	at      time.Time
	writes  map[string]float64 // by outcome
	buckets []uint64           // of their duration, each with those before it
	count   uint64
}

// Record returns a recorder that has its first sample; Run takes the others.
func (m *Metrics) Record() *Recorder {
	r := &Recorder{metrics: m}
	r.take()
	return r
}

// Run takes samples until ctx ends, and returns nil.
func (r *Recorder) Run(ctx context.Context) error {
	every := time.NewTicker(sampleEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
			r.take()
		}
	}
}

func (r *Recorder) take() {
	s := r.metrics.sample()
	r.mu.Lock()
	defer r.mu.Unlock()
	old := 0
	for old < len(r.samples) && s.at.Sub(r.samples[old].at) > kept {
		old++
	}
	r.samples = append(slices.Delete(r.samples, 0, old), s)
}

// sample reads the few counters that it needs, and not the registry: that would
// ask the process and the runtime too.
func (m *Metrics) sample() sample {
	s := sample{at: time.Now(), writes: map[string]float64{}, buckets: make([]uint64, len(requestBuckets))}
	each(m.served.writes, func(one *dto.Metric) {
		s.writes[label(one, "outcome")] += one.GetCounter().GetValue()
	})
	each(m.served.duration, func(one *dto.Metric) {
		if !slices.ContainsFunc(doors, func(d door) bool { return d.method == label(one, "method") && d.route == label(one, "route") }) {
			return
		}
		s.count += one.GetHistogram().GetSampleCount()
		for i, b := range one.GetHistogram().GetBucket() {
			s.buckets[i] += b.GetCumulativeCount()
		}
	})
	return s
}

func each(of prometheus.Collector, do func(*dto.Metric)) {
	found := make(chan prometheus.Metric)
	go func() {
		of.Collect(found)
		close(found)
	}()
	for metric := range found {
		var one dto.Metric
		if metric.Write(&one) == nil { // what was registered can be written
			do(&one)
		}
	}
}

func label(of *dto.Metric, name string) string {
	for _, pair := range of.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}

// Recent is what one gateway did in the last minutes.
type Recent struct {
	Until time.Time
	// Covers is how long samples have been taken, 10 minutes at most.
	Covers time.Duration
	// Writes are writes a second in the last minute, by outcome as in
	// fencegate_writes_total.
	Writes map[string]float64
	// Steps are the steps of 10 s that are over, oldest first: writes a second by
	// outcome.
	Steps []Activity
	// P50 and P99 are durations of writes in the last 5 minutes, estimated from the
	// buckets of fencegate_http_request_duration_seconds. 0: there were none.
	P50, P99 time.Duration
}

// Activity is what happened in one step.
type Activity struct {
	Began  time.Time
	Writes map[string]float64
}

// Recent returns what is known now.
func (r *Recorder) Recent() Recent {
	r.mu.Lock()
	defer r.mu.Unlock()
	first, last := r.samples[0], r.samples[len(r.samples)-1]
	now := Recent{
		Until: last.at, Covers: last.at.Sub(first.at),
		Writes: rates(r.at(last.at.Add(-rateOver)), last),
	}
	earlier := r.at(last.at.Add(-latencyOver))
	now.P50, now.P99 = quantile(.5, earlier, last), quantile(.99, earlier, last)
	for began := first.at.Truncate(Step); !began.Add(Step).After(last.at); began = began.Add(Step) {
		now.Steps = append(now.Steps, Activity{began, rates(r.at(began), r.at(began.Add(Step)))})
	}
	return now
}

// at returns the last sample that had been taken by a moment, or the first one.
func (r *Recorder) at(moment time.Time) sample {
	i, _ := slices.BinarySearchFunc(r.samples, moment, func(s sample, t time.Time) int { return s.at.Compare(t) })
	if i < len(r.samples) && r.samples[i].at.Equal(moment) {
		return r.samples[i]
	}
	return r.samples[max(0, i-1)]
}

// rates are what was counted between two samples, by the second.
func rates(from, to sample) map[string]float64 {
	took := to.at.Sub(from.at).Seconds()
	all := map[string]float64{}
	for outcome, n := range to.writes {
		if n -= from.writes[outcome]; n > 0 && took > 0 {
			all[outcome] = n / took
		}
	}
	return all
}

// quantile takes durations as spread evenly within each bucket, as Prometheus does;
// one past the last bucket as its bound.
func quantile(q float64, from, to sample) time.Duration {
	total := to.count - from.count
	if total == 0 {
		return 0
	}
	rank, below, lower := q*float64(total), 0., 0.
	for i, upper := range requestBuckets {
		upTo := float64(to.buckets[i] - from.buckets[i])
		if upTo >= rank && upTo > below {
			return time.Duration((lower + (upper-lower)*(rank-below)/(upTo-below)) * float64(time.Second))
		}
		below, lower = upTo, upper
	}
	return time.Duration(lower * float64(time.Second))
}
