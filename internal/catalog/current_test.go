package catalog_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/testenv"
)

// counted counts the queries that pass through it.
type counted struct {
	*pgxpool.Pool
	queries atomic.Int64
}

func (c *counted) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	c.queries.Add(1)
	return c.Pool.Query(ctx, sql, args...)
}

func open(t *testing.T, specs ...catalog.Spec) (*testenv.Database, *counted, *catalog.Catalog) {
	t.Helper()
	db := testenv.EmptyPostgres(t)
	db.Exec(t, schema)
	asked := &counted{Pool: db.Pool(t)}
	c, err := catalog.Open(t.Context(), asked, catalog.Specs{Schemas: []string{"public"}, Tables: specs})
	if err != nil {
		t.Fatal(err)
	}
	return db, asked, c
}

func has(t *testing.T, c *catalog.Catalog, table, column string) bool {
	t.Helper()
	found, err := c.Snapshot().Table("", table)
	if err != nil {
		t.Fatal(err)
	}
	_, ok := found.Column(column)
	return ok
}

func TestFollow(t *testing.T) {
	t.Parallel()
	t.Run("NothingHasChanged", func(t *testing.T) {
		t.Parallel()
		_, _, c := open(t, spec(t, "item", "item:{id}"))
		seen := c.Snapshot()
		if changed, err := c.Follow(t.Context(), seen); changed || err != nil || c.Snapshot() != seen {
			t.Errorf("%t, %v", changed, err)
		}
	})

	t.Run("EachChangeIsSeenAtOnce", func(t *testing.T) {
		t.Parallel()
		db, _, c := open(t, spec(t, "item", "item:{id}"))
		for _, column := range []string{"a", "b", "c"} {
			seen := c.Snapshot()
			db.Exec(t, `ALTER TABLE item ADD `+column+` integer`)
			if changed, err := c.Follow(t.Context(), seen); !changed || err != nil || !has(t, c, "item", column) {
				t.Errorf("%s: %t, %v", column, changed, err)
			}
			if changed, err := c.Follow(t.Context(), seen); !changed || err != nil {
				t.Errorf("%s, for another who saw the same: %t, %v", column, changed, err)
			}
		}
	})

	t.Run("ATableThatIsGoneDoesNotHoldUpTheOthers", func(t *testing.T) {
		t.Parallel()
		db, _, c := open(t, spec(t, "item", "item:{id}"), spec(t, "other", "other:{id}"))
		seen := c.Snapshot()
		db.Exec(t, `DROP TABLE other; ALTER TABLE item ADD a integer`)
		changed, err := c.Follow(t.Context(), seen)
		if !changed || err == nil || !strings.Contains(err.Error(), `"other"`) {
			t.Errorf("%t, %v", changed, err)
		}
		if !has(t, c, "item", "a") || !has(t, c, "other", "id") {
			t.Error("it does not go on with what it knows")
		}
	})

	t.Run("WithoutTheDatabaseNothingIsForgotten", func(t *testing.T) {
		t.Parallel()
		_, asked, c := open(t, spec(t, "item", "item:{id}"))
		seen := c.Snapshot()
		asked.Pool.Close()
		if changed, err := c.Follow(t.Context(), seen); changed || err == nil || c.Snapshot() != seen {
			t.Errorf("%t, %v", changed, err)
		}
		if err := c.Refresh(t.Context()); err == nil || c.Snapshot() != seen {
			t.Errorf("%v", err)
		}
	})

	t.Run("ManyAtOnceShareALook", func(t *testing.T) {
		t.Parallel()
		_, asked, c := open(t, spec(t, "item", "item:{id}"))
		perLook := asked.queries.Load()
		asked.queries.Store(0)
		var many sync.WaitGroup
		for range 200 {
			many.Go(func() {
				if changed, err := c.Follow(t.Context(), c.Snapshot()); changed || err != nil {
					t.Errorf("%t, %v", changed, err)
				}
			})
		}
		many.Wait()
		if looks := asked.queries.Load() / perLook; looks < 1 || looks > 20 {
			t.Errorf("%d looks for 200 at once", looks)
		}
	})
}
