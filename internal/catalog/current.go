package catalog

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Catalog keeps the current snapshot and replaces it when tables or routines
// have changed.
// Safe for concurrent use.
type Catalog struct {
	db      Querier
	specs   Specs
	current atomic.Pointer[Snapshot]

	mu     sync.Mutex
	loaded time.Time // guarded by mu
}

// refreshPause keeps requests with wrong column names from reading the catalog
// over and over.
const refreshPause = time.Second

// Open loads what is configured and keeps it.
func Open(ctx context.Context, db Querier, specs Specs) (*Catalog, error) {
	c := &Catalog{db: db, specs: specs}
	return c, c.Refresh(ctx)
}

// Snapshot returns tables and routines as they were when they were last loaded.
func (c *Catalog) Snapshot() *Snapshot { return c.current.Load() }

// Refresh loads everything anew. On an error the former snapshot stays.
func (c *Catalog) Refresh(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.load(ctx)
}

// Follow reports whether anything may have changed since seen, loading it
// anew if seen is the current snapshot and is not fresh.
func (c *Catalog) Follow(ctx context.Context, seen *Snapshot) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Snapshot() != seen {
		return true, nil // somebody else has looked meanwhile
	}
	if time.Since(c.loaded) < refreshPause {
		return false, nil
	}
	return true, c.load(ctx)
}

func (c *Catalog) load(ctx context.Context) error {
	c.loaded = time.Now() // also of a failed attempt
	snapshot, err := Load(ctx, c.db, c.specs)
	if err != nil {
		return err
	}
	c.current.Store(snapshot)
	return nil
}
