package auth

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/lease"
)

// Role is a set of rights. The zero value has none.
type Role struct {
	Name   string
	Admin  bool
	Tables []Grant
	Calls  []Callable
	Locks  []lease.Pattern // keys that may be held
	// DatabaseRole is the role of PostgreSQL that Tables and Calls are used as; "":
	// the gateway's own.
	DatabaseRole string
	Limits
}

// Grant is what a role may do with one table.
type Grant struct {
	Schema, Name string
	catalog.Narrowing
}

// Callable names a registered statement, with no Schema, or an exposed function.
type Callable struct{ Schema, Name string }

// Policy knows the roles. Safe for concurrent use.
type Policy struct {
	roles map[string]Role
	mu    sync.Mutex
	known map[string]*rights // by the names of roles, sorted; guarded by mu
}

// NewPolicy returns the policy of roles, whose names differ.
func NewPolicy(roles []Role) *Policy {
	p := &Policy{roles: map[string]Role{}, known: map[string]*rights{}}
	for _, role := range roles {
		p.roles[role.Name] = role
	}
	return p
}

// Principal returns the principal of that name who has what any of the named roles
// has. A role that is not known gives nothing.
func (p *Policy) Principal(name string, roles []string, claims map[string]string) Principal {
	var held []string
	for _, role := range roles {
		if _, known := p.roles[role]; known && !slices.Contains(held, role) {
			held = append(held, role)
		}
	}
	slices.Sort(held)
	r := p.rightsOf(held)
	return Principal{Name: name, Admin: r.admin, rights: r, claims: claims}
}

// mostKnown is how many sets of roles are kept: which ones come, tokens say.
const mostKnown = 256

// rightsOf makes the rights of a set of roles once, as long as there are not too many
// sets: their view of the tables is kept with them.
func (p *Policy) rightsOf(held []string) *rights {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := strings.Join(held, "\x00")
	if r, ok := p.known[name]; ok {
		return r
	}
	r := &rights{tables: map[[2]string]*catalog.Narrowing{}, calls: map[Callable]bool{}}
	for _, role := range held {
		r.add(p.roles[role])
	}
	if r.torn() {
		r.tables, r.calls = nil, nil
	}
	if len(p.known) >= mostKnown {
		for any := range p.known {
			delete(p.known, any)
			break
		}
	}
	p.known[name] = r
	return r
}

// rights are what several roles allow together. Nil allows nothing.
type rights struct {
	all    bool
	admin  bool
	tables map[[2]string]*catalog.Narrowing
	calls  map[Callable]bool
	locks  []lease.Pattern
	limits Limits
	runsAs []string // the database role of each role that has tables or calls
	last   atomic.Pointer[sight]
}

// sight is a snapshot and its view.
type sight struct{ of, is *catalog.Snapshot }

func (r *rights) add(role Role) {
	r.admin = r.admin || role.Admin
	r.locks = append(r.locks, role.Locks...)
	r.limits = Limits{InFlight: max(r.limits.InFlight, role.InFlight), PerSecond: max(r.limits.PerSecond, role.PerSecond)}
	if len(role.Tables)+len(role.Calls) > 0 {
		r.runsAs = append(r.runsAs, role.DatabaseRole)
	}
	for _, callable := range role.Calls {
		r.calls[callable] = true
	}
	for _, grant := range role.Tables {
		name := [2]string{grant.Schema, grant.Name}
		n := r.tables[name]
		if n == nil {
			n = &catalog.Narrowing{Columns: map[catalog.Operation]catalog.ColumnSet{}}
			r.tables[name] = n
		}
		for op, columns := range grant.Columns {
			n.Columns[op] = n.Columns[op].With(columns)
		}
		n.Search = n.Search.With(grant.Search)
	}
}

func (r *rights) table(t *catalog.Table) *catalog.Narrowing {
	if r == nil {
		return nil
	}
	return r.tables[[2]string{t.Schema, t.Name}]
}

func (r *rights) call(routine *catalog.Routine) bool {
	return r != nil && (r.all || r.calls[Callable{routine.Schema, routine.Name}])
}

func (r *rights) holds(key lease.Key, claims map[string]string) bool {
	return r.all || slices.ContainsFunc(r.locks, func(p lease.Pattern) bool { return p.Matches(key, claims) })
}

func (r *rights) view(tables *catalog.Snapshot) *catalog.Snapshot {
	if r.all {
		return tables
	}
	if last := r.last.Load(); last != nil && last.of == tables {
		return last.is
	}
	is := tables.Narrowed(r.table, r.call)
	r.last.Store(&sight{of: tables, is: is})
	return is
}

// Check returns an error for the first column in a grant that its table does not
// have: it would be denied without a word.
func Check(roles []Role, tables *catalog.Snapshot) error {
	for _, role := range roles {
		for _, grant := range role.Tables {
			table, err := tables.Table(grant.Schema, grant.Name)
			if err != nil {
				return fmt.Errorf("role %q: %w", role.Name, err)
			}
			sets := append(slices.Collect(maps.Values(grant.Columns)), grant.Search)
			for _, set := range sets {
				for _, name := range set.Names {
					if _, ok := table.Column(name); !ok {
						return fmt.Errorf("role %q: table %q has no column %q", role.Name, table.QualifiedName(), name)
					}
				}
			}
		}
	}
	return nil
}
