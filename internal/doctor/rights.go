package doctor

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/config"
)

func (v *visit) checkOwnRole(ctx context.Context, tx pgx.Tx) error {
	type role struct {
		Name  string
		Super bool
	}
	all, err := read[role](ctx, tx, "the gateway's role", `
		SELECT quote_ident(rolname), rolsuper
		  FROM pg_catalog.pg_roles
		 WHERE rolname = current_user`)
	for _, r := range all {
		if r.Super {
			v.find("gateway_is_superuser", r.Name, "the gateway logs in as a superuser",
				"the role that `gateway migrate --print-roles` prints, in database.url")
		}
	}
	return err
}

// missing is a right that the gateway's role lacks.
type missing struct{ Role, On, Object, Privileges string }

func (v *visit) lacks(all []missing) {
	for _, m := range all {
		v.find("privilege_missing", m.Role, fmt.Sprintf("lacks %s on %s", m.Privileges, m.Object),
			fmt.Sprintf("GRANT %s ON %s%s TO %s;", m.Privileges, m.On, m.Object, m.Role))
	}
}

// checkTableRights counts a right on any column as one on the table: rights by
// column are for those who know which columns their workers write.
func (v *visit) checkTableRights(ctx context.Context, tx pgx.Tx) error {
	return v.eachActor(ctx, tx, func(a actor) error {
		schemas, names := namesOf(a.tables)
		operations := make([]string, len(a.tables))
		for i, t := range a.tables {
			operations[i] = "{" + a.privileges(t) + "}"
		}
		all, err := read[missing](ctx, tx, "the rights on the tables", `
		WITH `+protected+`,
		wanted AS (
		  SELECT p.oid, p.name, privilege
		    FROM protected AS p
		   CROSS JOIN LATERAL unnest(($3::text[])[p.position]::text[]) AS privilege)
		SELECT quote_ident($4), '', name, string_agg(privilege, ', ')
		  FROM wanted
		 WHERE NOT CASE privilege WHEN 'DELETE' THEN has_table_privilege($4, oid, 'DELETE')
		                          ELSE has_any_column_privilege($4, oid, privilege) END
		 GROUP BY name
		 UNION ALL
		SELECT DISTINCT quote_ident($4), 'SCHEMA ', quote_ident(n.nspname), 'USAGE'
		  FROM protected AS p
		  JOIN pg_catalog.pg_namespace AS n ON n.oid = p.relnamespace
		 WHERE NOT has_schema_privilege($4, n.oid, 'USAGE')
		 UNION ALL
		SELECT DISTINCT quote_ident($4), 'SEQUENCE ', format('%I.%I', n.nspname, s.relname), 'USAGE'
		  FROM wanted AS w
		  JOIN pg_catalog.pg_attrdef AS def ON def.adrelid = w.oid
		  JOIN pg_catalog.pg_depend AS d
		    ON d.classid = 'pg_catalog.pg_attrdef'::regclass AND d.objid = def.oid AND d.refclassid = 'pg_catalog.pg_class'::regclass
		  JOIN pg_catalog.pg_class AS s ON s.oid = d.refobjid AND s.relkind = 'S'
		  JOIN pg_catalog.pg_namespace AS n ON n.oid = s.relnamespace
		 WHERE w.privilege = 'INSERT'
		   AND CASE WHEN s.relkind = 'S' -- also where the planner asks first
		            THEN NOT has_sequence_privilege($4, s.oid, 'USAGE, UPDATE') END
		 ORDER BY 2, 3`, schemas, names, operations, a.role)
		v.lacks(all)
		return err
	})
}

func (v *visit) checkFunctionRights(ctx context.Context, tx pgx.Tx) error {
	return v.eachActor(ctx, tx, func(a actor) error {
		schemas, names := []string{}, []string{}
		for _, r := range a.functions {
			schemas, names = append(schemas, r.Schema), append(names, r.Name)
		}
		all, err := read[missing](ctx, tx, "the rights on the functions", `
		SELECT quote_ident($3), 'FUNCTION ', format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid)), 'EXECUTE'
		  FROM unnest($1::text[], $2::text[]) AS spec(schema, name)
		  JOIN pg_catalog.pg_namespace AS n ON n.nspname = spec.schema
		  JOIN pg_catalog.pg_proc AS p ON p.pronamespace = n.oid AND p.proname = spec.name AND p.prokind = 'f'
		 WHERE NOT has_function_privilege($3, p.oid, 'EXECUTE')
		 ORDER BY 3`, schemas, names, a.role)
		v.lacks(all)
		return err
	})
}

// checkFenceRights knows what each table of schema fencegate is used for. The lock
// that a new epoch takes needs UPDATE.
func (v *visit) checkFenceRights(ctx context.Context, tx pgx.Tx) error {
	all, err := read[missing](ctx, tx, "the rights on schema fencegate", `
		WITH schema AS (
		  SELECT oid, nspname FROM pg_catalog.pg_namespace WHERE nspname = 'fencegate'),
		wanted(relation, privileges) AS (VALUES
		  ('marks', ARRAY['SELECT', 'INSERT', 'UPDATE']),
		  ('epochs', ARRAY['SELECT', 'INSERT', 'UPDATE']),
		  ('grants', ARRAY['SELECT', 'INSERT']),
		  ('refusals', ARRAY['SELECT', 'INSERT']),
		  ('answers', ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']),
		  ('answer_parts', ARRAY['SELECT']),
		  ('acquired', ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']),
		  ('leases', CASE WHEN $1 THEN ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'] END),
		  ('guards', ARRAY['SELECT']),
		  ('schema_migrations', ARRAY['SELECT']))
		SELECT quote_ident(current_user), '', format('%I.%I', schema.nspname, c.relname), string_agg(privilege, ', ')
		  FROM wanted
		 CROSS JOIN schema
		 CROSS JOIN LATERAL unnest(privileges) AS privilege
		  JOIN pg_catalog.pg_class AS c ON c.relnamespace = schema.oid AND c.relname = wanted.relation
		 WHERE NOT has_table_privilege(c.oid, privilege)
		 GROUP BY schema.nspname, c.relname
		 UNION ALL
		SELECT quote_ident(current_user), 'SCHEMA ', nspname, 'USAGE'
		  FROM schema
		 WHERE NOT has_schema_privilege(oid, 'USAGE')
		 UNION ALL
		SELECT quote_ident(current_user), 'FUNCTION ',
		       string_agg(format('%I.%I(%s)', schema.nspname, p.proname, pg_get_function_identity_arguments(p.oid)), ', ' ORDER BY p.proname), 'EXECUTE'
		  FROM schema
		  JOIN pg_catalog.pg_proc AS p ON p.pronamespace = schema.oid
		 WHERE p.proname NOT IN ('add_refusal_week', 'remember', 'unfenced')
		   AND NOT (p.proname = 'admit' AND p.pronargs = 3) -- for those who connect directly
		   AND p.prorettype <> 'trigger'::regtype
		   AND NOT has_function_privilege(p.oid, 'EXECUTE')
		HAVING count(*) > 0
		 ORDER BY 2, 3`, v.Config.Leases.Backend == config.BackendPostgres)
	v.lacks(all)
	return err
}
