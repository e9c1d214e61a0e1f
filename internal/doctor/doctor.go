// Package doctor looks at a real installation, its database, its lock service and
// its configuration, and says in plain words what makes the fence leak or fail,
// why, and which statement or setting mends it. It changes nothing.
package doctor

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/config"
)

// Severity says how much a finding matters.
type Severity string

// The severities, from the worst on.
const (
	Danger  Severity = "danger"  // late writers can commit, records get lost, or serve can't work
	Warning Severity = "warning" // the promise rests on something that may not hold
	Note    Severity = "note"    // good to know; nothing needs to change
)

// Finding is one thing that was found.
type Finding struct {
	Rule
	About string `json:"about"` // the role, table, server or setting
	Found string `json:"found"`
	Fix   string `json:"fix"` // statements end with a semicolon

	// Relations are those that a role can write, as SQL names them; none of other
	// findings.
	Relations []string `json:"-"`
}

// Unseen is something that could not be looked at.
type Unseen struct {
	About string `json:"about"`
	Why   string `json:"why"`
	// Blind says that a whole part of the installation stayed unseen, and not only
	// what this role has no right to see.
	Blind bool `json:"blind"`
}

// Report is what the doctor found, the most dangerous first.
type Report struct {
	Verdict  string    `json:"verdict"`
	Findings []Finding `json:"findings"`
	Unseen   []Unseen  `json:"not_looked_at"`
}

// Patient is the installation to look at.
type Patient struct {
	Config *config.Config
	Specs  catalog.Specs
	// Plain connects with the settings that the role and the database have by
	// themselves, Serve with those that a gateway asks for.
	Plain, Serve *pgx.ConnConfig
	// Redis are the servers that keep leases; none if the lock service is another.
	Redis []Server
	// AskLocks reads a lease; nil: the lock service is the database.
	AskLocks func(context.Context) error
	// Certificates are those that the listeners show.
	Certificates []Certificate
	// Timeout bounds each check; 0: 5 s.
	Timeout time.Duration
}

// Certificate is one that a listener shows.
type Certificate struct {
	Section string // of the configuration
	Ends    time.Time
	Fault   error // why it can't be used; nil: it can
}

// Server is one Redis server.
type Server struct {
	Name string                                    // without a password
	Info func(ctx context.Context) (string, error) // the answer to INFO
}

// Examine looks at everything it can reach. It never fails: what it could not look
// at is in the report.
func Examine(ctx context.Context, p Patient) *Report {
	v := newVisit(p)
	v.examineConfig()
	v.examineListeners()
	v.examineLocks(ctx)
	v.examineDatabase(ctx)
	return v.report()
}

func newVisit(p Patient) *visit {
	if p.Timeout == 0 {
		p.Timeout = 5 * time.Second
	}
	return &visit{Patient: p, rules: rulesByCode()}
}

// Count returns how many findings are of a severity.
func (r *Report) Count(s Severity) (n int) {
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// The exit codes of `gateway doctor`.
const (
	ExitSound    = 0 // nothing above a note
	ExitWarnings = 1
	ExitDangers  = 2
	ExitBlind    = 3 // no danger was seen, but a part could not be looked at
)

// ExitCode is what the report comes down to.
func (r *Report) ExitCode() int {
	switch {
	case r.Count(Danger) > 0:
		return ExitDangers
	case r.blind():
		return ExitBlind
	case r.Count(Warning) > 0:
		return ExitWarnings
	}
	return ExitSound
}

func (r *Report) blind() bool {
	return slices.ContainsFunc(r.Unseen, func(u Unseen) bool { return u.Blind })
}

func (r *Report) sort() {
	rank := map[Severity]int{Danger: 0, Warning: 1, Note: 2}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rank[a.Severity], rank[b.Severity]), cmp.Compare(a.Group, b.Group),
			cmp.Compare(a.Code, b.Code), cmp.Compare(a.About, b.About))
	})
}
