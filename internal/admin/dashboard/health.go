package dashboard

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fencegate/fencegate/internal/doctor"
)

// status is how something is: each has a shape and a word of its own besides its
// colour.
type status string

const (
	well    status = "ok"
	careful status = "warn"
	bad     status = "bad"
	unknown status = "unknown"
)

// light is one thing of the verdict strip.
type light struct {
	Name   string
	Status status
	Says   string
	Link   string // where more is told; "": nowhere
}

const (
	askTimeout = time.Second
	askedFor   = time.Second // is long enough for many open pages
)

// health remembers for a moment what the checks said.
type health struct {
	mu     sync.Mutex
	asked  time.Time
	lights []light
}

// lights asks all checks at once.
func (d *Dashboard) lights(ctx context.Context) []light {
	h := &d.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.asked) < askedFor {
		return slices.Clone(h.lights)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	h.lights = make([]light, len(d.Checks))
	var all sync.WaitGroup
	for i, c := range d.Checks {
		all.Go(func() { h.lights[i] = c.light(ctx) })
	}
	all.Wait()
	h.asked = time.Now()
	return slices.Clone(h.lights)
}

// light leaves the error out: it may hold addresses.
func (c Check) light(ctx context.Context) light {
	says, err := c.Ask(ctx)
	switch {
	case err == nil && says == "":
		return light{Name: c.Name, Status: well, Says: "reachable"}
	case err == nil:
		return light{Name: c.Name, Status: well, Says: says}
	case says != "":
		return light{Name: c.Name, Status: bad, Says: says}
	}
	return light{Name: c.Name, Status: bad, Says: "can’t be reached"}
}

// pastFor is how long an answer about who can write past the gateway is good for.
const pastFor = time.Minute

// past keeps the newest answer. It is looked for only while somebody looks here.
type past struct {
	wanted chan struct{}
	mu     sync.Mutex
	report *doctor.Report // nil: not looked yet
	looked time.Time
}

// newest returns the answer that there is, and has a newer one looked for if it is
// old. nil: there is none yet.
func (p *past) newest() (*doctor.Report, time.Time) {
	if !p.fresh() {
		select {
		case p.wanted <- struct{}{}:
		default: // under way
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.report, p.looked
}

func (p *past) fresh() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.looked) < pastFor
}

func (p *past) run(ctx context.Context, look func(context.Context) *doctor.Report) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.wanted:
		}
		if p.fresh() {
			continue // asked for again while it was looked for
		}
		report := look(ctx)
		p.mu.Lock()
		p.report, p.looked = report, time.Now()
		p.mu.Unlock()
	}
}

// light sums the answer up.
func (p *past) light() light {
	report, _ := p.newest()
	l := light{Name: "Bypass", Link: "tables"}
	switch {
	case report == nil:
		l.Status, l.Says = unknown, "looking…"
	case report.Count(doctor.Danger) > 0:
		l.Status, l.Says = bad, "writers past the gateway: "+roles(report, doctor.Danger)
	case len(report.Unseen) > 0:
		l.Status, l.Says = unknown, "could not be looked at"
	case report.Count(doctor.Warning) > 0:
		l.Status, l.Says = careful, "possible: "+roles(report, doctor.Warning)
	default:
		l.Status, l.Says = well, "nobody but superusers"
	}
	return l
}

// roles names those that findings of a severity are about, each once.
func roles(r *doctor.Report, s doctor.Severity) string {
	var names []string
	for _, f := range r.Findings {
		if f.Severity == s && !slices.Contains(names, f.About) {
			names = append(names, f.About)
		}
	}
	if len(names) > 2 {
		names = append(names[:2], "…")
	}
	return strings.Join(names, ", ")
}
