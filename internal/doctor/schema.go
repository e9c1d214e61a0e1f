package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	migrations "github.com/fencegate/fencegate/sql"
)

// examineSchema reports whether there is a schema fencegate with marks in it, of
// whatever version.
func (v *visit) examineSchema(ctx context.Context, conn *pgx.Conn) (there bool) {
	v.run(ctx, conn, check{"schema fencegate", func(_ *visit, ctx context.Context, tx pgx.Tx) error {
		const query = `
			SELECT EXISTS (
			       SELECT FROM pg_catalog.pg_class AS c
			         JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
			        WHERE n.nspname = 'fencegate' AND c.relname = 'marks')`
		return tx.QueryRow(ctx, query).Scan(&there)
	}})
	v.run(ctx, conn, check{"the version of schema fencegate", (*visit).checkVersion})
	return there
}

func (v *visit) checkVersion(ctx context.Context, tx pgx.Tx) error {
	at, err := migrations.Read(ctx, tx.Conn())
	if err != nil {
		return err
	}
	latest := migrations.Latest()
	found := fmt.Sprintf("the database is at version %d, this program at %d", at.Version, latest)
	switch {
	case at.Dirty:
		v.find("schema_dirty", "fencegate", fmt.Sprintf("migration %d stopped half-way", at.Version), "Mend what the migration says, then gateway migrate up")
	case at.Version == 0:
		v.find("schema_missing", "fencegate", "there is no schema fencegate", "gateway migrate up")
	case at.Version < latest:
		v.find("schema_behind", "fencegate", found, "gateway migrate up")
	case at.Version > latest:
		v.find("schema_ahead", "fencegate", found, "Run a newer gateway.")
	}
	return nil
}

// checkFenceTriggers looks for the triggers that keep marks from falling and
// records from changing.
func (v *visit) checkFenceTriggers(ctx context.Context, tx pgx.Tx) error {
	type trigger struct {
		Table, Name string
		State       string
	}
	all, err := read[trigger](ctx, tx, "the triggers of schema fencegate", `
		SELECT 'fencegate.' || quote_ident(c.relname), wanted.name, coalesce(t.tgenabled::text, 'missing')
		  FROM (VALUES ('marks', 'marks_never_deleted'), ('marks', 'marks_never_fall'),
		               ('grants', 'grants_append_only'), ('refusals', 'refusals_append_only'),
		               ('refusals', 'refusals_never_truncated')) AS wanted(relation, name)
		  JOIN pg_catalog.pg_namespace AS n ON n.nspname = 'fencegate'
		  JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = wanted.relation
		  LEFT JOIN pg_catalog.pg_trigger AS t ON t.tgrelid = c.oid AND t.tgname = wanted.name
		 WHERE coalesce(t.tgenabled NOT IN ('O', 'A'), true)
		 ORDER BY 1, 2`)
	for _, t := range all {
		if t.State == "missing" {
			v.find("fence_trigger_off", t.Table, "the trigger "+t.Name+" is missing", "Restore the schema, or make the trigger again as the migrations do (sql/migrations).")
			continue
		}
		v.find("fence_trigger_off", t.Table, "the trigger "+t.Name+" is disabled", "ALTER TABLE "+t.Table+" ENABLE TRIGGER "+t.Name+";")
	}
	return err
}

// checkReplicationRole finds sessions that run without triggers. The setting can
// be the server's, a database's, a role's, or a role's in a database.
func (v *visit) checkReplicationRole(ctx context.Context, tx pgx.Tx) error {
	type setting struct {
		Whose, Fix string
		Own        bool
	}
	all, err := read[setting](ctx, tx, "who runs without triggers", `
		SELECT coalesce('role ' || quote_ident(r.rolname), 'every role') || coalesce(' in database ' || quote_ident(d.datname), ''),
		       CASE WHEN r.oid IS NULL THEN format('ALTER DATABASE %I RESET session_replication_role;', d.datname)
		            WHEN d.oid IS NULL THEN format('ALTER ROLE %I RESET session_replication_role;', r.rolname)
		            ELSE format('ALTER ROLE %I IN DATABASE %I RESET session_replication_role;', r.rolname, d.datname) END,
		       coalesce(r.rolname = current_user, true)
		  FROM pg_catalog.pg_db_role_setting AS s
		  LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = s.setrole
		  LEFT JOIN pg_catalog.pg_database AS d ON d.oid = s.setdatabase
		 WHERE EXISTS (SELECT FROM unnest(s.setconfig) AS one WHERE one IN ('session_replication_role=replica'))
		   AND (s.setdatabase = 0 OR d.datname = current_database())
		 UNION ALL
		SELECT 'the server', 'ALTER SYSTEM RESET session_replication_role;', true
		  FROM pg_catalog.pg_settings
		 WHERE name = 'session_replication_role'
		   AND reset_val = 'replica'
		   AND source IN ('configuration file', 'command line')
		 ORDER BY 1`)
	for _, s := range all {
		code := "role_skips_triggers"
		if s.Own {
			code = "gateway_skips_triggers"
		}
		v.find(code, s.Whose, "session_replication_role is replica", s.Fix)
	}
	return err
}

func (v *visit) checkFenceFunctions(ctx context.Context, tx pgx.Tx) error {
	type function struct {
		Name, Owner, SchemaOwner string
		Foreign, Loose           bool
	}
	all, err := read[function](ctx, tx, "the functions of schema fencegate", `
		SELECT format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid)),
		       quote_ident(pg_get_userbyid(p.proowner)),
		       quote_ident(pg_get_userbyid(n.nspowner)),
		       p.proowner <> n.nspowner,
		       p.prosecdef AND NOT EXISTS (SELECT FROM unnest(p.proconfig) AS one WHERE starts_with(one, 'search_path='))
		  FROM pg_catalog.pg_proc AS p
		  JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
		 WHERE n.nspname = 'fencegate'
		 ORDER BY 1`)
	for _, f := range all {
		if f.Foreign {
			v.find("fence_function_foreign", f.Name, "it belongs to "+f.Owner+", the schema to "+f.SchemaOwner, "ALTER FUNCTION "+f.Name+" OWNER TO "+f.SchemaOwner+"; once its body is known to be the migration's")
		}
		if f.Loose {
			v.find("definer_without_search_path", f.Name, "it runs with its owner's rights and the caller's search_path", "ALTER FUNCTION "+f.Name+" SET search_path = pg_catalog, pg_temp;")
		}
	}
	return err
}

// overdue is how long after its time a partition may be there: partitions are
// weeks, and gateways drop them hourly, when nobody reads them.
const overdue = 8 * 24 * time.Hour

func (v *visit) checkPartitions(ctx context.Context, tx pgx.Tx) error {
	type partition struct {
		Name string
		Kind string
	}
	all, err := read[partition](ctx, tx, "the partitions of the refusals", `
		WITH existing AS (
		  SELECT c.relname::text AS name
		    FROM pg_catalog.pg_namespace AS n
		    JOIN pg_catalog.pg_class AS parent ON parent.relnamespace = n.oid AND parent.relname = 'refusals'
		    JOIN pg_catalog.pg_inherits AS i ON i.inhparent = parent.oid
		    JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid
		   WHERE n.nspname = 'fencegate')
		SELECT 'refusals_' || to_char(date_trunc('week', moment, 'UTC') AT TIME ZONE 'UTC', 'YYYYMMDD'), 'missing'
		  FROM (VALUES (clock_timestamp()), (clock_timestamp() + interval '7 days')) AS wanted(moment)
		 WHERE NOT EXISTS (SELECT FROM existing
		                    WHERE name = 'refusals_' || to_char(date_trunc('week', moment, 'UTC') AT TIME ZONE 'UTC', 'YYYYMMDD'))
		 UNION ALL
		SELECT name, 'overdue'
		  FROM existing
		 WHERE name ~ '^refusals_[0-9]{8}$'
		   AND to_timestamp(right(name, 8) || '+00', 'YYYYMMDDTZH') + interval '7 days' < clock_timestamp() - $1::interval
		 ORDER BY 1`, v.Config.Audit.KeepRefusals+overdue)
	for _, p := range all {
		if p.Kind == "missing" {
			v.find("refusals_partition_missing", "fencegate."+p.Name, "there is no partition for its week", v.keepRefusals())
			continue
		}
		v.find("refusals_overdue", "fencegate."+p.Name, "all its records are older than audit.keep_refusals, "+v.Config.Audit.KeepRefusals.String(), v.keepRefusals())
	}
	return err
}

func (v *visit) keepRefusals() string {
	return fmt.Sprintf("SELECT fencegate.keep_refusals('%d hours'); -- as any running gateway does: see its log for why it could not", int(v.Config.Audit.KeepRefusals.Hours()))
}
