package doctor

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/lease"
)

// foreignKey is one whose action changes rows of a protected table, the child.
type foreignKey struct {
	Name, Child, Parent string
	ChildAt, ParentAt   int64 // 0: the parent is not configured
	ChildColumns        []string
	ParentColumns       []string
	OnDelete, OnUpdate  bool // it changes the child's rows
}

func (v *visit) checkCascades(ctx context.Context, tx pgx.Tx) error {
	schemas, names := v.tableNames()
	all, err := read[foreignKey](ctx, tx, "the foreign keys", `
		WITH `+protected+`
		SELECT quote_ident(k.conname), child.name, k.confrelid::regclass::text, child.position, coalesce(parent.position, 0),
		       ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY AS c(num, place)
		               JOIN pg_catalog.pg_attribute AS a ON a.attrelid = k.conrelid AND a.attnum = c.num ORDER BY c.place),
		       ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY AS c(num, place)
		               JOIN pg_catalog.pg_attribute AS a ON a.attrelid = k.confrelid AND a.attnum = c.num ORDER BY c.place),
		       k.confdeltype IN ('c', 'n', 'd'), k.confupdtype IN ('c', 'n', 'd')
		  FROM protected AS child
		  JOIN pg_catalog.pg_constraint AS k ON k.conrelid = child.oid AND k.contype = 'f'
		  LEFT JOIN protected AS parent ON parent.oid = k.confrelid
		 ORDER BY 2, 1`, schemas, names)
	for _, k := range all {
		if action := v.leaks(k); action != "" {
			v.find("cascade_past_lock", k.Child, fmt.Sprintf("the foreign key %s changes its rows when a row of %s is %s", k.Name, k.Parent, action),
				fmt.Sprintf("ALTER TABLE %s DROP CONSTRAINT %s; and add it again with NO ACTION,\nor give both tables the same lock template", k.Child, k.Name))
		}
	}
	return err
}

// leaks says which change of the parent changes rows of the child under another
// lock key than the parent's.
func (v *visit) leaks(k foreignKey) string {
	sameKey := k.ParentAt != 0 && sameLock(v.at(k.ParentAt).Lock, v.at(k.ChildAt).Lock, k)
	allows := func(op catalog.Operation) bool {
		return k.ParentAt == 0 || slices.Contains(v.at(k.ParentAt).Operations, op)
	}
	switch {
	case k.OnDelete && allows(catalog.Delete) && !sameKey:
		return "deleted"
	case k.OnUpdate && allows(catalog.Update) && !sameKey:
		return "updated"
	}
	return ""
}

// sameLock reports whether a child's row has the lock key of its parent's: the
// templates are alike, and their columns are those that the foreign key ties.
func sameLock(parent, child lease.Template, k foreignKey) bool {
	if !slices.Equal(parent.Literals, child.Literals) {
		return false
	}
	for i, column := range child.Columns {
		at := slices.Index(k.ChildColumns, column)
		if at < 0 || k.ParentColumns[at] != parent.Columns[i] {
			return false
		}
	}
	return true
}
