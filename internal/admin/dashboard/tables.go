package dashboard

import (
	"net/http"
	"strings"
	"time"

	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/doctor"
)

const tablesLive = 5 * time.Second

type tablesBody struct {
	Tables   []tableRow
	Routines []routineRow
	Report   *doctor.Report // nil: being looked for
	Looked   time.Time
}

type tableRow struct {
	catalog.Spec
	Name string
	Past light // who can write it past the gateway
}

type routineRow struct {
	Name, Kind, Lock string
	Observe          bool
}

func (d *Dashboard) tables(_ *http.Request, who auth.Principal) (page, error) {
	if err := auth.AllowAdmin(who, "the tables and who can write past the gateway"); err != nil {
		return page{}, err
	}
	body := tablesBody{}
	body.Report, body.Looked = d.past.newest()
	specs := d.Now().Specs
	for _, spec := range specs.Tables {
		name := spec.Schema + "." + spec.Name
		body.Tables = append(body.Tables, tableRow{spec, name, pastOf(name, body.Report)})
	}
	for _, r := range specs.Routines {
		row := routineRow{Name: r.Schema + "." + r.Name, Kind: "function", Lock: r.Lock.String(), Observe: r.Observe}
		if r.IsStatement() {
			row.Name, row.Kind = r.Name, "statement"
		}
		body.Routines = append(body.Routines, row)
	}
	return page{Name: "tables", Title: "Tables", Tab: "tables", Live: tablesLive, Body: body}, nil
}

// pastOf sums up what the report has about one table.
func pastOf(name string, report *doctor.Report) light {
	if report == nil {
		return light{Status: unknown, Says: "looking…"}
	}
	about := &doctor.Report{Unseen: report.Unseen}
	for _, f := range report.Findings {
		for _, relation := range f.Relations {
			if bare(relation) == bare(name) {
				about.Findings = append(about.Findings, f)
			}
		}
	}
	switch {
	case about.Count(doctor.Danger) > 0:
		return light{Status: bad, Says: roles(about, doctor.Danger)}
	case len(about.Unseen) > 0:
		return light{Status: unknown, Says: "not known"}
	case about.Count(doctor.Warning) > 0:
		return light{Status: careful, Says: roles(about, doctor.Warning)}
	}
	return light{Status: well, Says: "nobody"}
}

// bare makes a name as SQL writes it and one as it is comparable.
func bare(name string) string { return strings.ReplaceAll(name, `"`, "") }
