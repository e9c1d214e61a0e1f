package dashboard

import (
	"cmp"
	"context"
	"math"
	"net/url"
	"slices"
	"time"

	"github.com/fencegate/fencegate/internal/audit"
)

// lanes is how many refusals there were when: a lane for each code, all to one
// scale of time and number.
type lanes struct {
	Since, Until time.Time
	Step         time.Duration
	Lanes        []lane
	Ticks        []tick
	Most         int64 // of one code in one step
	Total        int64
	Cut          bool // only the newest were counted
}

type lane struct {
	Code  code
	Total int64
	Link  string // to these refusals alone
	Bars  []bar
}

// bar is one step. X and W are percents of the width; Y and H are pixels, from above.
type bar struct {
	X, W, Y, H float64
	Began      time.Time
	N          int64
	Link       string // to these refusals alone
}

type tick struct {
	X    float64 // percent
	Text string
}

const (
	laneHeight = 26.
	laneBars   = 60
	countMost  = 50_000
)

// steps are those that a chart may have.
var steps = []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute,
	15 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 2 * 24 * time.Hour, 7 * 24 * time.Hour}

func stepFor(span time.Duration) time.Duration {
	for _, step := range steps {
		if span <= laneBars*step {
			return step
		}
	}
	return 30 * 24 * time.Hour
}

// lanes draws the refusals that f picks from f.Since on; query is what else the
// links of its parts keep.
func (d *Dashboard) lanes(ctx context.Context, f audit.Filter, now time.Time, query string) (lanes, error) {
	l := lanes{Since: f.Since, Until: f.Until}
	if l.Until.IsZero() {
		l.Until = now
	}
	l.Step = stepFor(l.Until.Sub(l.Since))
	counts, err := d.gate().CountRefusals(ctx, principalIn(ctx), f, l.Step, countMost)
	if err != nil {
		return l, err
	}
	kept, _ := url.ParseQuery(query)
	for _, c := range counts {
		l.add(c, kept)
	}
	l.finish()
	return l, nil
}

// add takes counts in the order of their codes.
func (l *lanes) add(c audit.Count, kept url.Values) {
	if len(l.Lanes) == 0 || l.Lanes[len(l.Lanes)-1].Code.Name != c.Code {
		l.Lanes = append(l.Lanes, lane{Code: codeOf(c.Code), Link: "refusals?" + with(kept, "code", c.Code).Encode()})
	}
	last := &l.Lanes[len(l.Lanes)-1]
	began, ended := c.Began, c.Began.Add(l.Step)
	x, end := l.percent(began), l.percent(ended)
	last.Bars = append(last.Bars, bar{X: x, W: math.Max(.35, (end-x)*.8), Began: began, N: c.N,
		Link: "refusals?" + with(kept, "code", c.Code, "span", "", "since", formTime(began), "until", formTime(ended)).Encode()})
	last.Total += c.N
	l.Total += c.N
	l.Most = max(l.Most, c.N)
}

func (l *lanes) finish() {
	l.Cut = l.Total >= countMost
	slices.SortStableFunc(l.Lanes, func(a, b lane) int { return cmp.Compare(b.Total, a.Total) })
	for _, one := range l.Lanes {
		for i := range one.Bars {
			b := &one.Bars[i]
			b.H = math.Max(3, float64(b.N)/float64(l.Most)*laneHeight)
			b.Y = laneHeight - b.H
		}
	}
	l.Ticks = ticks(l.Since, l.Until)
}

// percent may lie a little outside: the first step can have begun before.
func (l *lanes) percent(t time.Time) float64 {
	whole := l.Until.Sub(l.Since)
	return math.Min(100, math.Max(0, 100*float64(t.Sub(l.Since))/float64(max(whole, 1))))
}

// ticks are round moments, of which at most six fit.
func ticks(since, until time.Time) []tick {
	span := until.Sub(since)
	every := 30 * 24 * time.Hour
	for _, step := range steps {
		if span <= 6*step {
			every = step
			break
		}
	}
	form := "15:04"
	switch {
	case every < time.Minute:
		form = "15:04:05"
	case every >= 24*time.Hour:
		form = "Jan 2"
	case span > 24*time.Hour:
		form = "Jan 2 15:04"
	}
	var all []tick
	for at := since.Truncate(every).Add(every); at.Before(until); at = at.Add(every) {
		all = append(all, tick{100 * float64(at.Sub(since)) / float64(span), at.UTC().Format(form)})
	}
	return all
}

// with is a query with some of its parameters set, or left out where they are "".
func with(query url.Values, pairs ...string) url.Values {
	changed := url.Values{}
	for name, values := range query {
		changed[name] = values
	}
	for i := 0; i < len(pairs); i += 2 {
		changed.Del(pairs[i])
		if pairs[i+1] != "" {
			changed.Set(pairs[i], pairs[i+1])
		}
	}
	return changed
}
