package dashboard

import (
	"math"
	"time"

	"github.com/fencegate/fencegate/internal/telemetry"
)

// activity is what this one gateway did in the last minutes.
type activity struct {
	telemetry.Recent
	Committed, Refused, Failed float64 // a second, in the last minute
	Most                       float64 // of Columns, together
	Columns                    []column
	Span                       time.Duration
}

// column is one step of the chart of writes. X and W are percents of its width, the
// rest are heights and places in its pixels, from above.
type column struct {
	X, W                 float64
	OKAt, OK             float64
	RefusedAt, Refused   float64
	FailedAt, Failed     float64
	Began                time.Time
	Writes, Turned, Lost float64 // a second: committed, refused, failed
}

const activityHeight = 72.

// activitySpans are what the chart may show: a gateway that has just started has
// little.
var activitySpans = []time.Duration{2 * time.Minute, 5 * time.Minute, 10 * time.Minute}

func newActivity(r telemetry.Recent) activity {
	a := activity{Recent: r}
	for _, a.Span = range activitySpans {
		if r.Covers <= a.Span {
			break
		}
	}
	a.Committed, a.Refused, a.Failed = split(r.Writes)
	began := r.Until.Truncate(telemetry.Step).Add(-a.Span)
	for _, step := range r.Steps {
		c := column{Began: step.Began}
		c.Writes, c.Turned, c.Lost = split(step.Writes)
		c.X = 100 * float64(step.Began.Sub(began)) / float64(a.Span)
		c.W = 100 * float64(telemetry.Step) / float64(a.Span) * .88
		if total := c.Writes + c.Turned + c.Lost; c.X >= 0 && total > 0 {
			a.Columns, a.Most = append(a.Columns, c), max(a.Most, total)
		}
	}
	for i := range a.Columns {
		a.Columns[i].stack(a.Most)
	}
	return a
}

// stack puts the three kinds on one another, what was committed at the bottom. What
// there is of a kind is seen, however little.
func (c *column) stack(most float64) {
	height := func(n float64) float64 {
		if n == 0 {
			return 0
		}
		return math.Max(2, n/most*(activityHeight-8))
	}
	c.OK, c.Refused, c.Failed = height(c.Writes), height(c.Turned), height(c.Lost)
	c.OKAt = activityHeight - c.OK
	c.RefusedAt = c.OKAt - c.Refused
	c.FailedAt = c.RefusedAt - c.Failed
}

// split tells writes that were committed from those that a fence refused, and these
// from all others: mistakes of callers, and faults.
func split(writes map[string]float64) (committed, refused, failed float64) {
	for outcome, n := range writes {
		switch {
		case outcome == "ok":
			committed += n
		case codeOf(outcome).Meaning != "" && !codeOf(outcome).Observe:
			refused += n
		default:
			failed += n
		}
	}
	return committed, refused, failed
}
