package catalog

// The queries that read types join pg_type as typ, and typeBase and typeRow
// behind it.

// format_type with typmod -1 spells a type so that no length is implied, even
// for bpchar and bit. Only an interval's column keeps its fields: they say what
// unit a bare number has.

// typeColumns are the Type, Kind and KeyType of a parameter.
const typeColumns = `format_type(typ.oid, -1),
		       ` + keyColumns

// keyColumns are the Kind and KeyType of a column or parameter. Domains are
// rendered by what they are made of.
const keyColumns = `CASE
		         WHEN b.typtype = 'e' THEN 'plain'
		         WHEN b.oid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'text'::regtype,
		                        'varchar'::regtype, 'bpchar'::regtype, 'uuid'::regtype, 'bool'::regtype) THEN 'plain'
		         WHEN b.oid = 'date'::regtype THEN 'date'
		         ELSE ''
		       END,
		       format_type(b.oid, -1)`

// typeBase is b: typ, or what it is made of if that is a domain.
const typeBase = `CROSS JOIN LATERAL (
		         WITH RECURSIVE made AS (
		           SELECT typ.oid, typ.typtype, typ.typbasetype
		           UNION ALL
		           SELECT t.oid, t.typtype, t.typbasetype FROM made
		             JOIN pg_catalog.pg_type AS t ON made.typtype = 'd' AND t.oid = made.typbasetype)
		         SELECT oid, typtype FROM made WHERE typtype <> 'd') AS b`

// rowColumns are r as a readRow.
const rowColumns = `coalesce(r.oid, 0),
		       coalesce(format_type(r.oid, -1), ''),
		       coalesce((SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname)
		                   FROM pg_catalog.pg_class AS c
		                   JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
		                  WHERE c.oid = r.typrelid), ''),
		       coalesce(r.arrays, 0)`

// typeRow is r: the composite type that typ is, or is made of by domains and
// arrays, and the number of these; NULL if none.
const typeRow = `LEFT JOIN LATERAL (
		         WITH RECURSIVE made AS (
		           SELECT typ.oid, typ.typtype, typ.typrelid, coalesce(nullif(typ.typbasetype, 0), typ.typelem) AS below,
		                  (typ.typbasetype = 0)::int AS arrays
		           UNION ALL
		           SELECT t.oid, t.typtype, t.typrelid, coalesce(nullif(t.typbasetype, 0), t.typelem),
		                  made.arrays + (t.typbasetype = 0)::int
		             FROM made
		             JOIN pg_catalog.pg_type AS t ON t.oid = made.below)
		         SELECT oid, typrelid, arrays - 1 AS arrays FROM made WHERE typtype = 'c') AS r ON true`
