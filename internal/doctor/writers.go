package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/config"
)

// writing is who can write a set of relations past the gateway, by way of each
// right: a role's own, one of a group it can be or become, PUBLIC's, the owner's or
// pg_write_all_data's. Superusers are told apart.
//
// It reads what lies in the relations' access lists, since has_table_privilege does
// not say where a right comes from. $3 is the kind of membership that counts.
const writing = `,
		granted AS (
		  SELECT relation.oid, acl.grantee, acl.privilege_type AS privilege
		    FROM relation
		   CROSS JOIN LATERAL aclexplode(coalesce(relation.relacl, acldefault('r', relation.relowner))) AS acl
		   UNION
		  SELECT relation.oid, acl.grantee, acl.privilege_type
		    FROM relation
		    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = relation.oid AND a.attacl IS NOT NULL AND NOT a.attisdropped
		   CROSS JOIN LATERAL aclexplode(a.attacl) AS acl
		   UNION
		  SELECT relation.oid, r.oid, privilege
		    FROM relation
		    JOIN pg_catalog.pg_roles AS r ON r.rolname = 'pg_write_all_data'
		   CROSS JOIN unnest(ARRAY['INSERT', 'UPDATE', 'DELETE']) AS privilege),
		way AS (
		  SELECT relation.oid, relation.name, relation.relnamespace, relation.guard, granted.grantee, granted.privilege,
		         CASE WHEN granted.grantee = 0 THEN 'public'
		              WHEN granted.grantee = relation.relowner THEN 'owner'
		              WHEN via.rolname = 'pg_write_all_data' THEN 'all_data'
		              ELSE 'grant' END AS kind,
		         coalesce(via.rolname::text, 'PUBLIC') AS via
		    FROM granted
		    JOIN relation USING (oid)
		    LEFT JOIN pg_catalog.pg_roles AS via ON via.oid = granted.grantee
		   WHERE granted.privilege IN ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE'))
		SELECT way.kind,
		       CASE WHEN way.kind = 'public' THEN 'PUBLIC' ELSE quote_ident(login.rolname) END,
		       CASE WHEN way.kind = 'public' THEN 'PUBLIC' ELSE quote_ident(way.via) END,
		       string_agg(DISTINCT way.privilege, ', '),
		       array_agg(DISTINCT way.name),
		       way.guard
		  FROM way
		  JOIN pg_catalog.pg_roles AS login
		    ON login.rolcanlogin AND NOT login.rolsuper AND login.rolname <> current_user
		   AND (way.grantee = 0 OR login.oid = way.grantee OR pg_has_role(login.oid, way.grantee, $3))
		   AND (has_schema_privilege(login.oid, way.relnamespace, 'USAGE')
		        OR way.grantee <> 0 AND has_schema_privilege(way.grantee, way.relnamespace, 'USAGE'))
		 GROUP BY 1, 2, 3, way.guard
		 ORDER BY 1, 2, 3, way.guard`

type way struct {
	Kind, Login, Via, Privileges string
	Relations                    []string
	Guard                        string // mode of the guard that its writes meet, "" if they meet none
}

func (w way) names() string { return strings.Join(w.Relations, ", ") }

// says tells what the way lets its role do.
func (w way) says() string {
	through := ""
	if w.Via != w.Login {
		through = ", as " + w.Via
	}
	if w.Guard != "" {
		through += ", through a guard"
	}
	return fmt.Sprintf("can %s %s%s", w.Privileges, w.names(), through)
}

func (w way) revoke() string {
	fix := fmt.Sprintf("REVOKE %s ON %s FROM %s;", w.Privileges, w.names(), w.Via)
	if w.Via == w.Login {
		return fix
	}
	return fix + fmt.Sprintf("\nor REVOKE %s FROM %s;", w.Via, w.Login)
}

// membership is the kind that lets a role act as another: from PostgreSQL 16 on a
// member need not be allowed to.
func membership(tx pgx.Tx) string {
	if tx.Conn().PgConn().ParameterStatus("server_version") >= "16" {
		return "SET"
	}
	return "MEMBER"
}

func (v *visit) checkTableWriters(ctx context.Context, tx pgx.Tx) error {
	schemas, names := v.tableNames()
	g, err := v.loadGuards(ctx, tx)
	if err != nil {
		return err
	}
	ways, err := read[way](ctx, tx, "who may write the tables", `
		WITH RECURSIVE `+relations+writing, schemas, names, membership(tx), g.enforced, g.observed, g.weakest)
	for _, w := range ways {
		switch {
		case w.Guard == config.ModeEnforce:
			v.findWay("guard_fences_writer", w, "Nothing; see that the program calls fencegate.admit (docs/guard.md).")
			continue
		case w.Guard == config.ModeObserve:
			v.findWay("guard_observes_writer", w,
				"gateway protect "+w.names()+" --apply, once gateway audit report shows no unfenced_write that must go on")
			continue
		}
		switch w.Kind {
		case "public":
			v.findWay("public_writes_past_gateway", w, w.revoke())
		case "owner":
			v.findWay("owner_writes_past_gateway", w, fmt.Sprintf("CREATE ROLE … NOLOGIN; then ALTER TABLE %s OWNER TO …;\nor ALTER ROLE %s NOLOGIN; outside of migrations", w.names(), w.Login))
		case "all_data":
			v.findWay("role_writes_past_gateway", w, fmt.Sprintf("REVOKE %s FROM %s;", w.Via, w.Login))
		default:
			v.findWay("role_writes_past_gateway", w, w.revoke())
		}
	}
	return err
}

// fenceRelations are the tables of schema fencegate. The empty arrays keep the
// numbers of the parameters.
const fenceRelations = `relation AS (
		  SELECT c.oid, c.relacl, c.relowner, c.relnamespace, format('%I.%I', n.nspname, c.relname) AS name, '' AS guard
		    FROM pg_catalog.pg_class AS c
		    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
		   WHERE n.nspname = 'fencegate'
		     AND c.relkind IN ('r', 'p')
		     AND $1::text[] IS NOT NULL AND $2::text[] IS NOT NULL)`

func (v *visit) checkMarkWriters(ctx context.Context, tx pgx.Tx) error {
	ways, err := read[way](ctx, tx, "who may write the marks", `
		WITH `+fenceRelations+writing, []string{}, []string{}, membership(tx))
	for _, w := range ways {
		switch w.Kind {
		case "owner":
			v.findWay("owner_writes_marks", w, fmt.Sprintf("ALTER ROLE %s NOLOGIN; outside of migrations, if nothing else needs it", w.Login))
		case "all_data":
			v.findWay("role_writes_marks", w, fmt.Sprintf("REVOKE %s FROM %s;", w.Via, w.Login))
		default:
			v.findWay("role_writes_marks", w, w.revoke())
		}
	}
	return err
}

func (v *visit) checkSchemaCreators(ctx context.Context, tx pgx.Tx) error {
	type creator struct{ Role, Via string }
	all, err := read[creator](ctx, tx, "who may create in schema fencegate", `
		SELECT CASE WHEN acl.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(login.rolname) END,
		       coalesce(quote_ident(via.rolname), 'PUBLIC')
		  FROM pg_catalog.pg_namespace AS n
		 CROSS JOIN LATERAL aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) AS acl
		  LEFT JOIN pg_catalog.pg_roles AS via ON via.oid = acl.grantee
		  JOIN pg_catalog.pg_roles AS login
		    ON login.rolcanlogin AND NOT login.rolsuper
		   AND (acl.grantee = 0 OR login.oid = acl.grantee OR pg_has_role(login.oid, acl.grantee, $1))
		 WHERE n.nspname = 'fencegate'
		   AND acl.privilege_type = 'CREATE'
		   AND acl.grantee <> n.nspowner
		 GROUP BY 1, 2
		 ORDER BY 1, 2`, membership(tx))
	for _, c := range all {
		v.find("role_creates_in_fencegate", c.Role, "can create functions and tables in schema fencegate, as "+c.Via,
			"REVOKE CREATE ON SCHEMA fencegate FROM "+c.Via+";")
	}
	return err
}

// checkSuperusers also finds who can become one.
func (v *visit) checkSuperusers(ctx context.Context, tx pgx.Tx) error {
	type superuser struct{ Role, Via string }
	all, err := read[superuser](ctx, tx, "the superusers", `
		SELECT quote_ident(login.rolname), string_agg(quote_ident(super.rolname), ', ' ORDER BY super.rolname)
		  FROM pg_catalog.pg_roles AS super
		  JOIN pg_catalog.pg_roles AS login
		    ON login.oid = super.oid
		    OR NOT login.rolsuper AND pg_has_role(login.oid, super.oid, $1)
		 WHERE super.rolsuper
		   AND login.rolcanlogin
		   AND login.rolname <> current_user
		 GROUP BY login.rolname
		 ORDER BY 1`, membership(tx))
	for _, s := range all {
		if s.Via == s.Role {
			v.find("superuser", s.Role, "is a superuser that can log in", "ALTER ROLE "+s.Role+" NOSUPERUSER; if a program uses it")
			continue
		}
		v.find("role_becomes_superuser", s.Role, "is a member of "+s.Via, "REVOKE "+s.Via+" FROM "+s.Role+";")
	}
	return err
}
