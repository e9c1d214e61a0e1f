package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// checkOverlaps refuses a configuration that opens the same rows under two
// different lock templates: through a view, a partition or an inheritance child
// that is configured beside what it shares rows with. Two keys that guard one
// row guard nothing.
func checkOverlaps(ctx context.Context, db Querier, specs []Spec) error {
	reach := make([][]uint32, len(specs))
	for i, spec := range specs {
		var err error
		if reach[i], err = reachable(ctx, db, spec); err != nil {
			return err
		}
	}
	var faults []error
	for i, one := range specs {
		for j, other := range specs[:i] {
			if !shares(reach[i], reach[j]) {
				continue
			}
			if one.FenceColumn != other.FenceColumn {
				faults = append(faults, fmt.Errorf(
					"%q.%q and %q.%q share rows (a view, partition or inheritance child) but not their fence_column: a write through the one would pass by the other's tokens",
					other.Schema, other.Name, one.Schema, one.Name))
			}
			if one.Observe != other.Observe {
				faults = append(faults, fmt.Errorf(
					"%q.%q and %q.%q share rows (a view, partition or inheritance child) but not their mode: what the one refuses would be let through by the other",
					other.Schema, other.Name, one.Schema, one.Name))
			}
			if one.Lock.String() != other.Lock.String() {
				faults = append(faults, fmt.Errorf(
					"%q.%q and %q.%q share rows (a view, partition or inheritance child) but are locked differently, by %q and %q: a row would have two locks",
					other.Schema, other.Name, one.Schema, one.Name, other.Lock, one.Lock))
			}
		}
	}
	return errors.Join(faults...)
}

func shares(a, b []uint32) bool {
	return slices.ContainsFunc(a, func(oid uint32) bool { return slices.Contains(b, oid) })
}

// reachable lists the relations whose rows a write to spec can touch: itself,
// its partitions and children, and whatever a view among them reads.
func reachable(ctx context.Context, db Querier, spec Spec) ([]uint32, error) {
	const query = `
		WITH RECURSIVE reach(oid) AS (
		  SELECT c.oid
		    FROM pg_catalog.pg_class AS c
		    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
		   WHERE n.nspname = $1 AND c.relname = $2
		  UNION
		  SELECT next.oid
		    FROM reach
		   CROSS JOIN LATERAL (
		         SELECT i.inhrelid AS oid FROM pg_catalog.pg_inherits AS i WHERE i.inhparent = reach.oid
		         UNION ALL
		         SELECT d.refobjid
		           FROM pg_catalog.pg_rewrite AS r
		           JOIN pg_catalog.pg_depend AS d
		             ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = r.oid
		            AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid <> r.ev_class
		           JOIN pg_catalog.pg_class AS v ON v.oid = r.ev_class AND v.relkind = 'v'
		          WHERE r.ev_class = reach.oid) AS next)
		SELECT oid FROM reach`
	rows, _ := db.Query(ctx, query, spec.Schema, spec.Name)
	oids, err := pgx.CollectRows(rows, pgx.RowTo[uint32])
	if err != nil {
		return nil, fmt.Errorf("reading what %q.%q shares rows with: %w", spec.Schema, spec.Name, err)
	}
	return oids, nil
}
