package catalog

import (
	"context"
	"reflect"
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
	changed func()

	counts *counts

	mu           sync.Mutex
	began, ended time.Time // of the last look; guarded by mu
}

// counts is what Looks returns.
type counts struct{ looks, changes, failures atomic.Int64 }

// lookPause lies between two looks that requests asked for, so that many with
// wrong column names don't keep the database busy with its own catalog.
const lookPause = 100 * time.Millisecond

// lookTimeout bounds a look: whoever wants another waits for it.
const lookTimeout = 10 * time.Second

// Open loads what is configured and keeps it.
func Open(ctx context.Context, db Querier, specs Specs) (*Catalog, error) {
	snapshot, err := Load(ctx, db, specs)
	if err != nil {
		return nil, err
	}
	c := &Catalog{db: db, specs: specs, changed: func() {}, counts: &counts{}}
	c.current.Store(snapshot)
	return c, nil
}

// Reopen loads what specs configure and keeps it in a catalog that is to take over
// from c: it counts on from where c is and tells of changes whom c tells. c stays
// as it is.
func (c *Catalog) Reopen(ctx context.Context, specs Specs) (*Catalog, error) {
	next, err := Open(ctx, c.db, specs)
	if err != nil {
		return nil, err
	}
	next.changed, next.counts = c.changed, c.counts
	return next, nil
}

// OnChange makes act be called after each change that was seen, before anybody
// works with it. To be called once, before any other goroutine has c.
func (c *Catalog) OnChange(act func()) { c.changed = act }

// Snapshot returns tables and routines as they were when they were last loaded.
func (c *Catalog) Snapshot() *Snapshot { return c.current.Load() }

// Looks is how often a catalog has looked at the database since it was opened.
type Looks struct {
	Done    int64
	Changed int64 // those that found a change
	Failed  int64 // those that could not load all there should be
}

// Looks returns the counts so far.
func (c *Catalog) Looks() Looks {
	return Looks{Done: c.counts.looks.Load(), Changed: c.counts.changes.Load(), Failed: c.counts.failures.Load()}
}

// Refresh loads everything anew. What can't be loaded stays as it was known, and
// is in the error.
func (c *Catalog) Refresh(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.look(ctx)
}

// Follow reports whether anything has changed since seen, which it looks for if
// nobody else has begun to since it was called. An error is Refresh's.
func (c *Catalog) Follow(ctx context.Context, seen *Snapshot) (changed bool, err error) {
	asked := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Snapshot() == seen && !c.began.After(asked) {
		<-time.After(lookPause - time.Since(c.ended))
		err = c.look(context.WithoutCancel(ctx)) // others wait for it too
	}
	return c.Snapshot() != seen, err
}

func (c *Catalog) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	c.began = time.Now()
	defer func() { c.ended = time.Now() }()
	c.counts.looks.Add(1)
	snapshot, err := Load(ctx, c.db, c.specs)
	if err != nil {
		c.counts.failures.Add(1)
	}
	known := c.Snapshot()
	snapshot.keep(known)
	if !reflect.DeepEqual(snapshot, known) {
		c.counts.changes.Add(1)
		c.changed()
		c.current.Store(snapshot)
	}
	return err
}

// keep takes over what s lacks.
func (s *Snapshot) keep(known *Snapshot) {
	for name, table := range known.tables {
		if _, ok := s.tables[name]; !ok {
			s.tables[name] = table
		}
	}
	s.routines = nil
	for _, routine := range known.routines {
		name := [2]string{routine.Schema, routine.Name}
		if _, ok := s.byName[name]; !ok {
			s.byName[name] = routine
		}
		s.routines = append(s.routines, s.byName[name])
	}
}
