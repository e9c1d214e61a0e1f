package dashboard

import (
	"context"
	"net/http"
	"time"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/auth"
)

const (
	overviewLive = 2 * time.Second
	overviewSpan = time.Hour
	latest       = 6
)

type overviewBody struct {
	Verdict  light
	Lights   []light
	Activity activity
	Lanes    lanes
	Latest   []audit.Record
	Trouble  string // why refusals are not known, "": they are
}

func (d *Dashboard) overview(r *http.Request, who auth.Principal) (page, error) {
	body := overviewBody{Lights: d.strip(r.Context()), Activity: newActivity(d.Recorder.Recent())}
	body.Verdict = verdict(body.Lights)
	now := time.Now()
	filter := audit.Filter{Since: now.Add(-overviewSpan)}
	var err error
	if body.Latest, err = d.gate().ListRefusals(r.Context(), who, audit.Filter{}, latest); err == nil {
		body.Lanes, err = d.lanes(r.Context(), filter, now, "")
	}
	body.Trouble = d.trouble(err)
	return page{Name: "overview", Title: "Overview", Tab: "overview", Live: overviewLive, Now: now, Body: body}, nil
}

// strip is what the verdict is made of.
func (d *Dashboard) strip(ctx context.Context) []light {
	serving := light{Name: "Serving", Status: well, Says: "since " + d.About.Started.UTC().Format("2006-01-02 15:04") + " UTC"}
	if d.Draining() {
		serving.Status, serving.Says = careful, "draining: it stops"
	}
	all := append(append([]light{}, d.lights(ctx)...), serving)
	if !principalIn(ctx).Admin {
		return all // whom the database lets past is for those who can change it
	}
	return append(all, d.past.light())
}

// verdict is the worst of the lights, in words.
func verdict(all []light) light {
	worst := light{Status: well, Says: "All is well."}
	rank := map[status]int{well: 0, unknown: 1, careful: 2, bad: 3}
	for _, l := range all {
		if rank[l.Status] > rank[worst.Status] {
			worst = light{Status: l.Status, Says: l.Name + ": " + l.Says + "."}
		}
	}
	return worst
}
