package auth_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/lease"
)

func some(names ...string) catalog.ColumnSet { return catalog.ColumnSet{Names: names} }

func pattern(t *testing.T, text string) lease.Pattern {
	t.Helper()
	p, err := lease.ParsePattern(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func grant(name string, columns map[catalog.Operation]catalog.ColumnSet) auth.Grant {
	return auth.Grant{Schema: "shop", Name: name, Narrowing: catalog.Narrowing{Columns: columns}}
}

func roles(t *testing.T) []auth.Role {
	all := catalog.ColumnSet{All: true}
	return []auth.Role{
		{Name: "reader", Tables: []auth.Grant{grant("shelf", map[catalog.Operation]catalog.ColumnSet{catalog.Select: some("sku", "n")})}},
		{Name: "writer", Tables: []auth.Grant{grant("shelf", map[catalog.Operation]catalog.ColumnSet{catalog.Update: some("n")})},
			Locks: []lease.Pattern{pattern(t, "shelf:*")}, Limits: auth.Limits{InFlight: 2, PerSecond: 9}},
		{Name: "owner", Tables: []auth.Grant{grant("shelf", map[catalog.Operation]catalog.ColumnSet{
			catalog.Select: all, catalog.Insert: all, catalog.Update: all, catalog.Delete: {}})}},
		{Name: "tenant", Locks: []lease.Pattern{pattern(t, "tenant:{claim.tenant}:*")}, Calls: []auth.Callable{{Name: "take"}, {Schema: "shop", Name: "give"}}},
		{Name: "operator", Admin: true, Limits: auth.Limits{InFlight: 5}},
	}
}

func shelf() *catalog.Table {
	return &catalog.Table{Spec: catalog.Spec{Schema: "shop", Name: "shelf", Lock: lease.Template{Literals: []string{"shelf:", ""}, Columns: []string{"sku"}},
		Operations: []catalog.Operation{catalog.Select, catalog.Insert, catalog.Update}}, PrimaryKey: []string{"id"}}
}

func TestWhatNoRoleAllowsIsDenied(t *testing.T) {
	t.Parallel()
	policy := auth.NewPolicy(roles(t))
	ops := []catalog.Operation{catalog.Select, catalog.Insert, catalog.Update, catalog.Delete}
	for _, c := range []struct {
		name  string
		roles []string
		ops   string // that are allowed; "": the table is not there
		reads []string
		sets  []string
	}{
		{name: "no role"},
		{name: "a role that is not known", roles: []string{"root", ""}},
		{name: "a role without tables", roles: []string{"tenant"}},
		{name: "an administrator", roles: []string{"operator"}},
		{name: "a reader", roles: []string{"reader"}, ops: "select", reads: []string{"sku", "n"}},
		{name: "a writer", roles: []string{"writer"}, ops: "update", sets: []string{"n"}},
		{name: "both", roles: []string{"writer", "reader", "writer"}, ops: "select update", reads: []string{"sku", "n"}, sets: []string{"n"}},
		{name: "more than the table is configured for", roles: []string{"owner"}, ops: "select insert update",
			reads: []string{"sku", "n", "secret"}, sets: []string{"sku", "n", "secret"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := policy.Principal("p", c.roles, nil)
			table, err := p.Narrow(shelf())
			if c.ops == "" {
				if !errors.Is(err, catalog.ErrUnknownTable) {
					t.Fatalf("the table is %v, %v", table, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			allowed := ""
			for _, op := range ops {
				if auth.Allow(p, table, op) == nil {
					allowed += " " + string(op)
				}
			}
			if allowed != " "+c.ops {
				t.Errorf("allowed are%s, want %s", allowed, c.ops)
			}
			for _, column := range []string{"sku", "n", "secret"} {
				if got := table.May(catalog.Select, column); got != slices.Contains(c.reads, column) {
					t.Errorf("reading %s: %t", column, got)
				}
				if got := table.May(catalog.Update, column); got != slices.Contains(c.sets, column) {
					t.Errorf("setting %s: %t", column, got)
				}
				if search := table.MaySearch(column); search != (column == "sku" || slices.Contains(c.reads, column)) {
					t.Errorf("searching by %s: %t", column, search)
				}
			}
			if !table.MaySearch("id") {
				t.Error("the primary key can't be searched by")
			}
			if again, err := p.Narrow(table); again != table || err != nil {
				t.Error("narrowing twice is not narrowing once")
			}
		})
	}
}

func TestKeysAreHeldByPattern(t *testing.T) {
	t.Parallel()
	policy := auth.NewPolicy(roles(t))
	for _, c := range []struct {
		roles  []string
		claims map[string]string
		yes    []lease.Key
		no     []lease.Key
	}{
		{[]string{"reader"}, nil, nil, []lease.Key{"shelf:1", ""}},
		{[]string{"operator"}, nil, nil, []lease.Key{"shelf:1"}},
		{[]string{"writer"}, nil, []lease.Key{"shelf:1"}, []lease.Key{"shelf", "tenant:acme:1"}},
		{[]string{"tenant"}, map[string]string{"tenant": "acme"}, []lease.Key{"tenant:acme:1"}, []lease.Key{"tenant:other:1", "shelf:1"}},
		{[]string{"tenant"}, nil, nil, []lease.Key{"tenant::1", "tenant:acme:1"}},
	} {
		p := policy.Principal("p", c.roles, c.claims)
		for _, key := range c.yes {
			if err := auth.AllowKey(p, key); err != nil {
				t.Errorf("%v: %q: %v", c.roles, key, err)
			}
		}
		for _, key := range c.no {
			if err := auth.AllowKey(p, key); !errors.Is(err, auth.ErrDenied) {
				t.Errorf("%v: %q: %v", c.roles, key, err)
			}
		}
		if err := auth.AllowLook(p, "shelf:1"); (err == nil) != (p.Admin || slices.Contains(c.yes, "shelf:1")) {
			t.Errorf("%v: looking at shelf:1: %v", c.roles, err)
		}
	}
}

func TestCallsAreNamed(t *testing.T) {
	t.Parallel()
	policy := auth.NewPolicy(roles(t))
	take := &catalog.Routine{RoutineSpec: catalog.RoutineSpec{Name: "take"}}
	for routine, allowed := range map[*catalog.Routine]bool{
		take: true,
		{RoutineSpec: catalog.RoutineSpec{Schema: "shop", Name: "give"}}:  true,
		{RoutineSpec: catalog.RoutineSpec{Schema: "shop", Name: "take"}}:  false,
		{RoutineSpec: catalog.RoutineSpec{Schema: "other", Name: "give"}}: false,
	} {
		if err := auth.AllowCall(policy.Principal("p", []string{"tenant"}, nil), routine); (err == nil) != allowed {
			t.Errorf("%s: %v", routine.QualifiedName(), err)
		}
	}
	if err := auth.AllowCall(policy.Principal("p", []string{"operator"}, nil), take); !errors.Is(err, catalog.ErrUnknownRoutine) {
		t.Errorf("an administrator's call: %v", err)
	}
}

func TestNobodyMayDoNothing(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]auth.Principal{"nobody": {}, "made by hand": {Name: "root"}, "nobody with rights": auth.Unrestricted("")} {
		if table, err := p.Narrow(shelf()); err == nil && auth.Allow(p, table, catalog.Select) == nil {
			t.Errorf("%s may read", name)
		}
		if auth.AllowKey(p, "k") == nil || auth.AllowLook(p, "k") == nil || auth.AllowAdmin(p, "x") == nil ||
			auth.AllowCall(p, &catalog.Routine{}) == nil {
			t.Errorf("%s may do something", name)
		}
	}
}

func TestStatementsRunAsOneDatabaseRole(t *testing.T) {
	t.Parallel()
	grants := roles(t)[2].Tables
	policy := auth.NewPolicy([]auth.Role{
		{Name: "app", Tables: grants, DatabaseRole: "app"}, {Name: "caller", Calls: []auth.Callable{{Name: "take"}}, DatabaseRole: "app"},
		{Name: "house", Tables: grants}, {Name: "operator", Admin: true}, {Name: "holder", Locks: []lease.Pattern{pattern(t, "*")}},
	})
	for _, c := range []struct {
		roles []string
		as    string
		torn  bool
	}{
		{nil, "", false},
		{[]string{"house", "operator"}, "", false},
		{[]string{"operator", "holder", "app", "caller"}, "app", false},
		{[]string{"house", "app"}, "app", true},
		{[]string{"caller", "house"}, "app", true},
	} {
		p := policy.Principal("p", c.roles, nil)
		if p.DatabaseRole() != c.as || p.Torn() != c.torn {
			t.Errorf("%v run as %q, torn %t", c.roles, p.DatabaseRole(), p.Torn())
		}
		_, err := p.Narrow(shelf())
		if c.torn && (err == nil || auth.AllowCall(p, &catalog.Routine{RoutineSpec: catalog.RoutineSpec{Name: "take"}}) == nil) {
			t.Errorf("%v may do something", c.roles)
		}
	}
}

func TestLimitsAreTheHighestOfAllRoles(t *testing.T) {
	t.Parallel()
	policy := auth.NewPolicy(roles(t))
	if got := policy.Principal("p", []string{"writer", "operator"}, nil).Limits(); got != (auth.Limits{InFlight: 5, PerSecond: 9}) {
		t.Errorf("limits are %+v", got)
	}
	if got := auth.Anyone.Limits(); got != (auth.Limits{}) {
		t.Errorf("anyone's limits are %+v", got)
	}
}

// heap is what is in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Which roles come together tokens say: no number of combinations, nor of names that
// are no roles, may take memory that stays. Not parallel: it measures the heap.
func TestSetsOfRolesTakeNoMemoryThatStays(t *testing.T) {
	const sets, bits = 100_000, 17
	var all []auth.Role
	for n := range bits {
		columns := map[catalog.Operation]catalog.ColumnSet{catalog.Select: some(fmt.Sprintf("c%d", n))}
		all = append(all, auth.Role{Name: fmt.Sprintf("role %d", n), Tables: []auth.Grant{grant("shelf", columns)}})
	}
	policy := auth.NewPolicy(all)
	before := heap()
	for n := range sets {
		held := []string{fmt.Sprintf("unknown %d", n)}
		for bit := range bits {
			if n>>bit&1 == 1 {
				held = append(held, all[bit].Name)
			}
		}
		p := policy.Principal("jwt:one", held, nil)
		if table, err := p.Narrow(shelf()); (err == nil) != (n > 0) || n > 0 && !table.Allows(catalog.Select) {
			t.Fatalf("%v: %v", held, err)
		}
	}
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("%d sets of roles keep %d KiB", sets, grown>>10)
	}
	runtime.KeepAlive(policy)
}
