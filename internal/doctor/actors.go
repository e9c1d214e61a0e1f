package doctor

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/config"
)

// actor is a role of PostgreSQL that statements of principals run as, the gateway's
// own or a database_role, and what they may touch then.
type actor struct {
	role      string
	own       bool
	tables    []catalog.Spec
	functions []catalog.RoutineSpec
	may       map[config.Name][]catalog.Operation // with each of tables
}

// privileges lists what a needs on t. A write reads the rows that it meets, and a
// grant asks for the highest token in a fence column, as the gateway's own role.
func (a actor) privileges(t catalog.Spec) string {
	ops := a.may[config.Name{Schema: t.Schema, Name: t.Name}]
	if len(ops) == 0 && (!a.own || t.FenceColumn == "") {
		return ""
	}
	list := "SELECT"
	for _, p := range []struct {
		op        catalog.Operation
		privilege string
	}{{catalog.Insert, ",INSERT"}, {catalog.Update, ",UPDATE"}, {catalog.Delete, ",DELETE"}} {
		if slices.Contains(ops, p.op) {
			list += p.privilege
		}
	}
	return list
}

// databaseRoles are those that the configuration names, sorted, each once.
func (v *visit) databaseRoles() (names []string) {
	for _, role := range v.Config.Roles {
		if role.DatabaseRole != "" {
			names = append(names, role.DatabaseRole)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// own is the gateway's role with what some principal does as it. What only
// principals with a database role may touch is not among it; the gateway itself
// looks up the names of all.
func (v *visit) own(role string) actor {
	a := actor{role: role, own: true, tables: v.Specs.Tables, may: map[config.Name][]catalog.Operation{}}
	as := func(name config.Name) bool { return v.reachedAs(name, "") || !v.reached(name) }
	for _, t := range v.Specs.Tables {
		if name := (config.Name{Schema: t.Schema, Name: t.Name}); as(name) {
			a.may[name] = t.Operations
		}
	}
	for _, r := range v.Specs.Routines {
		if !r.IsStatement() && as(config.Name{Schema: r.Schema, Name: r.Name}) {
			a.functions = append(a.functions, r)
		}
	}
	return a
}

// actorOf is a database role with what the configuration's roles do as it.
func (v *visit) actorOf(databaseRole string) actor {
	a := actor{role: databaseRole, may: map[config.Name][]catalog.Operation{}}
	for _, role := range v.Config.Roles {
		if role.DatabaseRole != databaseRole {
			continue
		}
		for _, grant := range role.Tables {
			for _, op := range grant.Operations {
				a.may[grant.Table] = append(a.may[grant.Table], catalog.Operation(op))
			}
		}
	}
	for _, t := range v.Specs.Tables {
		if len(a.may[config.Name{Schema: t.Schema, Name: t.Name}]) > 0 {
			a.tables = append(a.tables, t)
		}
	}
	for _, r := range v.Specs.Routines {
		if !r.IsStatement() && v.reachedAs(config.Name{Schema: r.Schema, Name: r.Name}, databaseRole) {
			a.functions = append(a.functions, r)
		}
	}
	return a
}

// reached reports whether a role allows something with a table or function.
func (v *visit) reached(name config.Name) bool {
	return slices.ContainsFunc(v.Config.Roles, func(r config.Role) bool { return reaches(r, name) })
}

// reachedAs is reached by roles of one database role.
func (v *visit) reachedAs(name config.Name, databaseRole string) bool {
	return slices.ContainsFunc(v.Config.Roles, func(r config.Role) bool {
		return r.DatabaseRole == databaseRole && reaches(r, name)
	})
}

func reaches(r config.Role, name config.Name) bool {
	return slices.Contains(r.Call, name) || slices.ContainsFunc(r.Tables, func(g config.Grant) bool { return g.Table == name })
}

// eachActor goes through the gateway's role and the database roles that are there.
func (v *visit) eachActor(ctx context.Context, tx pgx.Tx, look func(actor) error) error {
	here, err := read[struct{ Name string }](ctx, tx, "the roles", `
		SELECT current_user::text
		 UNION ALL
		(SELECT rolname::text
		   FROM pg_catalog.pg_roles
		  WHERE rolname = ANY ($1)
		  ORDER BY 1)`, append([]string{}, v.databaseRoles()...))
	for i, role := range here {
		a := v.own(role.Name)
		if i > 0 {
			a = v.actorOf(role.Name)
		}
		if err := look(a); err != nil {
			return err
		}
	}
	return err
}

// maySetRole is the privilege that SET ROLE asks for: from PostgreSQL 16 on a member
// need not have it.
const maySetRole = `CASE WHEN current_setting('server_version_num')::integer < 160000 THEN 'MEMBER' ELSE 'SET' END`

// checkDatabaseRoles looks whether the gateway may become what it is to become, and
// whether these may use schema fencegate: its functions check what they write.
func (v *visit) checkDatabaseRoles(ctx context.Context, tx pgx.Tx) error {
	type role struct {
		Name, Gateway              string
		There, Super, Member, Uses bool
	}
	all, err := read[role](ctx, tx, "the database roles", `
		SELECT quote_ident(named.role), quote_ident(current_user), r.oid IS NOT NULL, coalesce(r.rolsuper, false),
		       coalesce(pg_has_role(r.oid, `+maySetRole+`), false),
		       coalesce(has_schema_privilege(r.oid, (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'fencegate'), 'USAGE'), false)
		  FROM unnest($1::text[]) AS named(role)
		  LEFT JOIN pg_catalog.pg_roles AS r ON r.rolname = named.role
		 ORDER BY 1`, append([]string{}, v.databaseRoles()...))
	for _, r := range all {
		if !r.There {
			v.find("privilege_missing", r.Name, "there is no such role, and principals are to act as it", "CREATE ROLE "+r.Name+" NOLOGIN;")
			continue
		}
		if r.Super {
			v.find("gateway_is_superuser", r.Name, "principals act as a superuser, by database_role", "another role, as `gateway migrate --print-roles` prints it")
		}
		if !r.Member {
			v.find("privilege_missing", r.Gateway, fmt.Sprintf("may not act as %s", r.Name), fmt.Sprintf("GRANT %s TO %s;", r.Name, r.Gateway))
		}
		if !r.Uses {
			v.lacks([]missing{{Role: r.Name, On: "SCHEMA ", Object: "fencegate", Privileges: "USAGE"}})
		}
	}
	return err
}
