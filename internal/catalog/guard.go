package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// The names of a guard's triggers, on each table that has them.
const (
	GuardTrigger         = "fencegate_guard"
	GuardTruncateTrigger = "fencegate_guard_truncate"
)

// Relation is one table whose rows a guard watches: the table itself, a partition
// or a child.
type Relation struct {
	Schema, Name string
	Owner        string // a role
	Partition    bool   // its row trigger comes from its parent
	Mine         bool   // this role may act as its owner
	Kind         string // pg_class.relkind
}

// QualifiedName returns schema.table, as messages show it.
func (r Relation) QualifiedName() string { return r.Schema + "." + r.Name }

// GuardSite is where a guard goes: what a role must own, and which tables get
// triggers. Relations has the table first and those below it behind.
type GuardSite struct {
	Role        string // this role
	SchemaOwner string // of schema fencegate
	Mine        bool   // this role may act as it
	Relations   []Relation
}

// LoadGuardSite looks at t and the tables below it. An error says what can't have a
// guard.
func LoadGuardSite(ctx context.Context, db Querier, t *Table) (GuardSite, error) {
	const about = `
		SELECT current_user::text, pg_get_userbyid(nspowner)::text, pg_has_role(nspowner, 'USAGE')
		  FROM pg_catalog.pg_namespace
		 WHERE nspname = 'fencegate'`
	rows, _ := db.Query(ctx, about)
	type head struct {
		Role, SchemaOwner string
		Mine              bool
	}
	h, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[head])
	if err != nil {
		return GuardSite{}, fmt.Errorf("reading the owner of schema fencegate: %w", err)
	}
	site := GuardSite{Role: h.Role, SchemaOwner: h.SchemaOwner, Mine: h.Mine}
	const tree = `
		WITH RECURSIVE tree(oid, depth) AS (
		  SELECT c.oid, 0
		    FROM pg_catalog.pg_class AS c
		    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
		   WHERE n.nspname = $1
		     AND c.relname = $2
		   UNION ALL
		  SELECT i.inhrelid, depth + 1
		    FROM tree
		    JOIN pg_catalog.pg_inherits AS i ON i.inhparent = tree.oid)
		SELECT n.nspname::text, c.relname::text, pg_get_userbyid(c.relowner)::text, min(depth) > 0 AND c.relispartition,
		       pg_has_role(c.relowner, 'USAGE'), c.relkind::text
		  FROM tree
		  JOIN pg_catalog.pg_class AS c USING (oid)
		  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
		 GROUP BY n.nspname, c.oid, c.relname, c.relowner, c.relispartition, c.relkind
		 ORDER BY min(depth), 1, 2`
	rows, _ = db.Query(ctx, tree, t.Schema, t.Name)
	if site.Relations, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Relation]); err != nil {
		return site, fmt.Errorf("reading the tables below %s: %w", t.QualifiedName(), err)
	}
	return site, site.check(t)
}

func (s GuardSite) check(t *Table) error {
	for i, r := range s.Relations {
		switch {
		case i == 0 && r.Kind == "v":
			return fmt.Errorf("%s is a view, which holds no rows: protect the tables under it", t.QualifiedName())
		case r.Kind == "f":
			return fmt.Errorf("%s is a foreign table: its rows are written in another server too, where no trigger of this one sees them", r.QualifiedName())
		}
	}
	return nil
}

// Lacking says which rights this role lacks to make or remove the guard, nil if none.
func (s GuardSite) Lacking() error {
	var faults []error
	if !s.Mine {
		faults = append(faults, fmt.Errorf("role %q may not make functions in schema fencegate as its owner %q, who must own the guard's", s.Role, s.SchemaOwner))
	}
	for _, r := range s.Relations {
		if !r.Mine {
			faults = append(faults, fmt.Errorf("role %q may not change the triggers of %s: only its owner %q may (TRIGGER is not enough for one that always fires)", s.Role, r.QualifiedName(), r.Owner))
		}
	}
	if len(faults) > 0 {
		faults = append(faults, errors.New("connect as a superuser or a member of these roles, or let each run its part of the printed SQL"))
	}
	return errors.Join(faults...)
}

// Guard is a guard as the database has it. Of a table that is gone, Schema and Name
// are empty.
type Guard struct {
	Schema, Name string
	Template     string // as it was when the guard was made
	Observe      bool
	Function     string // in schema fencegate
	Tables       []GuardedTable
}

// QualifiedName returns schema.table, as messages show it.
func (g Guard) QualifiedName() string {
	if g.Name == "" {
		return "a table that is gone"
	}
	return g.Schema + "." + g.Name
}

// GuardedTable is the state of a guard's triggers on one table: as pg_trigger's
// tgenabled has it, "" if there is none.
type GuardedTable struct {
	OID      uint32
	Name     string // qualified and quoted
	Rows     string // AFTER INSERT, UPDATE, DELETE
	Truncate string
}

// Fires reports whether the guard sees what ordinary sessions write to the table.
func (t GuardedTable) Fires() bool { return fires(t.Rows) && fires(t.Truncate) }

// Always reports whether it sees all sessions, those of replication too.
func (t GuardedTable) Always() bool { return t.Rows == "A" && t.Truncate == "A" }

func fires(state string) bool { return state == "A" || state == "O" }

// Faults says what is wrong with the triggers, table by table.
func (g Guard) Faults() (faults []string) {
	for _, t := range g.Tables {
		for _, trigger := range [][2]string{{GuardTrigger, t.Rows}, {GuardTruncateTrigger, t.Truncate}} {
			switch {
			case trigger[1] == "":
				faults = append(faults, fmt.Sprintf("%s has no trigger %s", t.Name, trigger[0]))
			case !fires(trigger[1]):
				faults = append(faults, fmt.Sprintf("the trigger %s of %s is disabled", trigger[0], t.Name))
			}
		}
	}
	return faults
}

// NotAlways names the tables on which sessions of replication pass unseen.
func (g Guard) NotAlways() string {
	var names []string
	for _, t := range g.Tables {
		if t.Fires() && !t.Always() {
			names = append(names, t.Name)
		}
	}
	return strings.Join(names, ", ")
}

// LoadGuards reads the guards of the database. None, if it has no schema fencegate
// that knows guards, or this role may not look there.
func LoadGuards(ctx context.Context, db Querier) ([]Guard, error) {
	const known = `
		SELECT EXISTS (
		       SELECT FROM pg_catalog.pg_class AS c
		         JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
		        WHERE n.nspname = 'fencegate'
		          AND c.relname = 'guards'
		          AND has_schema_privilege(n.oid, 'USAGE')
		          AND has_table_privilege(c.oid, 'SELECT'))`
	rows, _ := db.Query(ctx, known)
	if there, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool]); err != nil || !there {
		return nil, err
	}
	const query = `
		WITH RECURSIVE tree(root, oid) AS (
		  SELECT relation::oid, relation::oid FROM fencegate.guards
		   UNION
		  SELECT tree.root, i.inhrelid
		    FROM tree
		    JOIN pg_catalog.pg_inherits AS i ON i.inhparent = tree.oid)
		SELECT coalesce(rn.nspname::text, ''), coalesce(root.relname::text, ''), g.lock_template, g.mode = 'observe', g.function_name,
		       coalesce(c.oid, 0), CASE WHEN c.oid IS NULL THEN '' ELSE format('%I.%I', n.nspname, c.relname) END,
		       coalesce(max(t.tgenabled::text) FILTER (WHERE t.tgtype & 29 = 29), ''),
		       coalesce(max(t.tgenabled::text) FILTER (WHERE t.tgtype & 32 = 32), '')
		  FROM fencegate.guards AS g
		  JOIN tree ON tree.root = g.relation
		  LEFT JOIN pg_catalog.pg_class AS root ON root.oid = g.relation
		  LEFT JOIN pg_catalog.pg_namespace AS rn ON rn.oid = root.relnamespace
		  LEFT JOIN pg_catalog.pg_class AS c ON c.oid = tree.oid
		  LEFT JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
		  LEFT JOIN (pg_catalog.pg_trigger AS t
		        JOIN pg_catalog.pg_proc AS p ON p.oid = t.tgfoid
		        JOIN pg_catalog.pg_namespace AS pn ON pn.oid = p.pronamespace AND pn.nspname = 'fencegate')
		    ON t.tgrelid = tree.oid AND p.proname = g.function_name
		 GROUP BY g.relation, g.lock_template, g.mode, g.function_name, rn.nspname, root.relname, c.oid, n.nspname, c.relname
		 ORDER BY 1, 2, g.relation, c.oid <> g.relation, 7`
	rows, _ = db.Query(ctx, query)
	var guards []Guard
	var g Guard
	var t GuardedTable
	_, err := pgx.ForEachRow(rows, []any{&g.Schema, &g.Name, &g.Template, &g.Observe, &g.Function, &t.OID, &t.Name, &t.Rows, &t.Truncate}, func() error {
		if n := len(guards); n == 0 || guards[n-1].Function != g.Function {
			guards = append(guards, g)
		}
		if last := &guards[len(guards)-1]; t.OID != 0 {
			last.Tables = append(last.Tables, t)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the guards: %w", err)
	}
	return guards, nil
}

// Differs says in what the guard is not what the configuration would make it, "" if
// in nothing.
func (g Guard) Differs(configured []Spec) string {
	if g.Name == "" {
		return "its table is gone"
	}
	for _, spec := range configured {
		switch {
		case spec.Schema != g.Schema || spec.Name != g.Name:
		case spec.Lock.String() != g.Template:
			return fmt.Sprintf("it asks for the lock %q, the configuration for %q", g.Template, spec.Lock)
		default:
			return ""
		}
	}
	return "the configuration does not have its table"
}
