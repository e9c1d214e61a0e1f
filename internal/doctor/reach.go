package doctor

import "github.com/fencegate/fencegate/internal/catalog"

// protected is the configured tables, $1 their schemas and $2 their names.
const protected = `protected AS (
		  SELECT c.oid, c.relname, c.relnamespace, c.relkind, c.relowner, c.relrowsecurity, c.relforcerowsecurity,
		         format('%I.%I', n.nspname, c.relname) AS name,
		         spec.position
		    FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS spec(schema, name, position)
		    JOIN pg_catalog.pg_namespace AS n ON n.nspname = spec.schema
		    JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = spec.name)`

// relations is every relation through which a row of a protected table can be
// written: partitions, children and what a view reads, then parents and the views
// above any of these, if they can be written. guard is the mode of the guard that
// its writes meet: $4 are the tables of guards that enforce and $5 of those that
// observe, $6 the weakest of all, which counts for what lies above.
const relations = protected + `,
		below(oid) AS (
		  SELECT oid FROM protected
		   UNION
		  SELECT next.oid
		    FROM below
		   CROSS JOIN LATERAL (
		         SELECT i.inhrelid AS oid FROM pg_catalog.pg_inherits AS i WHERE i.inhparent = below.oid
		         UNION ALL
		         SELECT d.refobjid
		           FROM pg_catalog.pg_rewrite AS r
		           JOIN pg_catalog.pg_depend AS d
		             ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = r.oid
		            AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid <> r.ev_class
		           JOIN pg_catalog.pg_class AS view ON view.oid = r.ev_class AND view.relkind = 'v'
		          WHERE r.ev_class = below.oid) AS next),
		around(oid) AS (
		  SELECT oid FROM below
		   UNION
		  SELECT next.oid
		    FROM around
		   CROSS JOIN LATERAL (
		         SELECT i.inhparent AS oid FROM pg_catalog.pg_inherits AS i WHERE i.inhrelid = around.oid
		         UNION ALL
		         SELECT r.ev_class
		           FROM pg_catalog.pg_rewrite AS r
		           JOIN pg_catalog.pg_depend AS d
		             ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = r.oid
		            AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid <> r.ev_class
		           JOIN pg_catalog.pg_class AS view ON view.oid = r.ev_class AND view.relkind = 'v'
		          WHERE d.refobjid = around.oid) AS next),
		relation AS (
		  SELECT c.oid, c.relacl, c.relowner, c.relnamespace,
		         format('%I.%I', n.nspname, c.relname) AS name,
		         CASE WHEN c.oid = ANY ($4::oid[]) THEN 'enforce'
		              WHEN c.oid = ANY ($5::oid[]) THEN 'observe'
		              WHEN c.relkind = 'v' OR c.oid NOT IN (SELECT oid FROM below) THEN $6
		              ELSE '' END AS guard
		    FROM around
		    JOIN pg_catalog.pg_class AS c USING (oid)
		    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
		   WHERE c.relkind IN ('r', 'p', 'f')
		      OR c.relkind = 'v' AND pg_relation_is_updatable(c.oid, true) & 28 <> 0)`

func (v *visit) tableNames() (schemas, names []string) { return namesOf(v.Specs.Tables) }

func namesOf(tables []catalog.Spec) (schemas, names []string) {
	for _, t := range tables {
		schemas, names = append(schemas, t.Schema), append(names, t.Name)
	}
	return schemas, names
}

// at returns the table at a position that a query over protected gave.
func (v *visit) at(position int64) catalog.Spec { return v.Specs.Tables[position-1] }
