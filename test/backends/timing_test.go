package backends_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

// job is a worker that holds a lease while its time passes.
type job struct {
	name   string
	ttl    time.Duration
	renews []time.Duration // when, after the grant
	ends   time.Duration   // when it writes
	late   bool            // the renewals come after its end
	refuse string          // how that is refused; "": it is not
}

var jobs = []job{
	{name: "a job longer than its lease", ttl: 2000 * time.Millisecond, ends: 3500 * time.Millisecond, refuse: "lease_expired"},
	{name: "renewed at every third", ttl: 3000 * time.Millisecond, ends: 7000 * time.Millisecond,
		renews: every(1000*time.Millisecond, 6)},
	{name: "renewed once, then crashed", ttl: 2000 * time.Millisecond, ends: 3500 * time.Millisecond,
		renews: every(1000*time.Millisecond, 1), refuse: "lease_expired"},
	{name: "renewed 500 ms late", ttl: 1500 * time.Millisecond, ends: 2500 * time.Millisecond,
		renews: []time.Duration{2000 * time.Millisecond}, late: true, refuse: "lease_expired"},
	{name: "renewed 500 ms before its end", ttl: 2000 * time.Millisecond, ends: 3000 * time.Millisecond,
		renews: []time.Duration{1500 * time.Millisecond}},
}

func every(step time.Duration, times int) (all []time.Duration) {
	for n := range times {
		all = append(all, time.Duration(n+1)*step)
	}
	return all
}

func TestJobsAndTheirLeases(t *testing.T) {
	t.Parallel()
	for name, lockService := range map[string]string{"redis": onRedis(testenv.OwnRedis(t).URL()), "postgres": onPostgres} {
		p := build(t, lockService)
		for _, j := range jobs {
			t.Run(name+"/"+j.name, func(t *testing.T) {
				t.Parallel()
				for range tries {
					if j.run(t, p) {
						return
					}
				}
				t.Fatalf("the machine was too slow for it %d times", tries)
			})
		}
	}
}

// tries is how often a machine may be too slow for a job: a call took so long that
// nobody can say on which side of the lease's end it fell.
const tries = 5

// clock is a lease as the worker knows it: set at some time between from and to.
type clock struct {
	ttl      time.Duration
	from, to time.Time
}

// margin is what a busy machine may add to a moment.
const margin = 250 * time.Millisecond

// isOver says whether the lease was over when something was asked at asked and has
// been answered; unclear: it ended in between.
func (c clock) isOver(asked time.Time) (over, clear bool) {
	return asked.Sub(c.to) > c.ttl, asked.Sub(c.to) > c.ttl || time.Since(c.from) < c.ttl
}

// run reports whether the job went as planned; what it meets otherwise fails the
// test.
func (j job) run(t *testing.T, p *plant) bool {
	sku, key := p.item(t)
	from := time.Now()
	l := p.Acquire(t, key, int(j.ttl.Milliseconds()))
	granted := time.Now()
	c := clock{j.ttl, from, granted}
	renews := j.renews
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	for now := range pace.C {
		if passed := now.Sub(granted); passed > j.ends && (j.refuse == "" || now.Sub(c.to) > c.ttl) {
			break
		}
		c.wantState(t, p, key)
		if len(renews) == 0 || now.Sub(granted) < renews[0] {
			continue
		}
		renews = renews[1:]
		asked := time.Now()
		answer := p.renew(t, l, int(j.ttl.Milliseconds()))
		over, clear := c.isOver(asked)
		switch {
		case !clear || over != j.late:
			return false
		case over:
			wantRefused(t, answer, "lease_expired")
		default:
			wantStatus(t, answer, http.StatusOK)
			c = clock{j.ttl, asked, time.Now()}
		}
	}
	asked := time.Now()
	answer := p.set(t, l, sku, 1)
	over, clear := c.isOver(asked)
	if !clear || over != (j.refuse != "") {
		return false
	}
	if !over {
		wantStatus(t, answer, http.StatusNoContent)
		return true
	}
	wantRefused(t, answer, j.refuse)
	wantOvertaken(t, p, sku, l, 60000)
	return true
}

// wantState checks that the lease is alive before its end and not after it, and
// that it never has more left than it was given.
func (c clock) wantState(t *testing.T, p *plant, key string) {
	t.Helper()
	asked := time.Now()
	answer := p.Do(t, testenv.Request{Path: "/v1/leases?key=" + url.QueryEscape(key)})
	wantStatus(t, answer, http.StatusOK)
	var state struct {
		Live bool
		Left int64 `json:"remaining_ms"`
	}
	answer.JSON(t, &state)
	left := time.Duration(state.Left) * time.Millisecond
	least, most := c.ttl-time.Since(c.from), c.ttl-asked.Sub(c.to)
	switch {
	case state.Live != (left > 0):
		t.Fatalf("%s", answer.Body)
	case left > c.ttl || left > max(most, 0)+time.Millisecond:
		t.Fatalf("%s are left of %s, %s after it was set", left, c.ttl, asked.Sub(c.to))
	case left < least-margin:
		t.Fatalf("%s are left of %s, at least %s are due", left, c.ttl, least)
	}
}
