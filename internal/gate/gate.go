// Package gate is where the two authorities meet: the lock service, which says
// who is alive, and the marks, which say who may write. It knows the protocols
// (grant, renew, release) and the one way of a write, and nothing of HTTP.
//
// Every door that writes goes through Write; there is no other function here,
// or anywhere, that changes a protected table.
package gate

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient"
	"github.com/fencegate/fencegate/internal/pooled"
)

// Config is what a Gate works with; every field is needed unless it says otherwise.
type Config struct {
	Writes  *pgxpool.Pool // like Reads, each connection has met the database (fence.MeetDatabase) or is Pooled
	Reads   *pgxpool.Pool
	Tables  *catalog.Catalog
	Store   lockclient.Store
	Marks   *fence.Marks
	Audit   *audit.Writer
	Records *audit.Reader
	Log     *slog.Logger
	Terms   Terms

	// Observer is told what happens inside. Zero value: nobody is.
	Observer *Observer

	// Enter is told that a step of a request begins, and what it returns that the
	// step has ended, and how; under the context that it returns the step goes on.
	// Must not block. Zero value: nobody is told.
	Enter func(context.Context, Step) (context.Context, func(outcome string))

	// Moves is how many connections move marks. Zero value: their pool's business.
	Moves int

	// Namespaces have terms of their own. Of several that a key belongs to the one
	// with the longest prefix counts. Zero value: Terms are everybody's.
	Namespaces []Namespace

	// Pooled is what each transaction sets for itself on connections that a pooler
	// lends out. Nil: connections are direct and have been set up.
	Pooled *pooled.Settings

	// KeepAnswers is how long an idempotency key is remembered. Zero value: not
	// at all, each is free again at once.
	KeepAnswers time.Duration

	// Lenient admits a holder whose lease ran out while nobody else took the
	// key. Still safe: the mark decides. Zero value: no live lease, no write.
	Lenient bool
	// FenceOnly lets the marks alone decide while the lock service is down.
	// Still safe. Zero value: 503.
	FenceOnly bool
}

// Gate is safe for concurrent use and keeps nothing that decides between calls:
// any number of gateways on one database behave as one.
type Gate struct {
	Config
	turns    *turns
	writers  *fair
	readers  *fair
	movers   *fair
	attempts *attempts
	waiting  *waiting
}

// Next returns the gate of cfg, on the same pools, that is to take over from g. They
// share who waits, whose turn it is, and which attempts are under way.
func (g *Gate) Next(cfg Config) (*Gate, error) {
	next, err := New(cfg)
	if err != nil {
		return nil, err
	}
	next.turns, next.attempts, next.waiting = g.turns, g.attempts, g.waiting
	next.writers, next.readers, next.movers = g.writers, g.readers, g.movers
	return next, nil
}

// New checks cfg and returns its gate.
func New(cfg Config) (*Gate, error) {
	if cfg.Writes == nil || cfg.Reads == nil || cfg.Tables == nil || cfg.Store == nil || cfg.Marks == nil || cfg.Audit == nil || cfg.Records == nil || cfg.Log == nil {
		return nil, errors.New("gate: a part is missing from its configuration")
	}
	for _, t := range append([]Terms{cfg.Terms}, terms(cfg.Namespaces)...) {
		if !t.rise() {
			return nil, errors.New("gate: lease terms must rise from min over default and max to lifetime")
		}
	}
	return &Gate{Config: cfg, turns: &turns{keys: map[lease.Key]*line{}},
		writers: newFair(int(cfg.Writes.Config().MaxConns)), readers: newFair(int(cfg.Reads.Config().MaxConns)),
		movers:   newFair(cmp.Or(cfg.Moves, math.MaxInt)),
		attempts: &attempts{running: map[answerKey][]*underWay{}}, waiting: newWaiting()}, nil
}
