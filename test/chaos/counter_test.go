package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/testenv"
)

const (
	counterRounds  = 200
	counterWorkers = 8
	counterKeys    = 3
	// counterTTL is long enough for a round on a busy machine, and short enough
	// to wait for.
	counterTTL = 700
)

// door is a way to a counter: how to lock it, read it and write it.
type door interface {
	// acquire returns once the worker has the lock.
	acquire(ctx context.Context, key string) (lock any, err error)
	read(ctx context.Context, lock any, sku string) (int, error)
	// write reports whether it was acknowledged.
	write(ctx context.Context, lock any, sku string, value int) (bool, error)
	release(ctx context.Context, lock any) error
}

// counting is one run of workers that add 1 to rows, each under the row's lock.
type counting struct {
	doors  []door
	leases leases
	skus   []string

	mu           sync.Mutex
	changed      *sync.Cond
	granted      map[string]int // how often each key has been locked
	acknowledged map[string]int
	refused      int
	failed       bool
}

// run lets workers do counterRounds rounds. Every 40th one pauses between
// reading and writing until somebody else has its lock.
func (c *counting) run(t *testing.T) {
	t.Helper()
	c.changed = sync.NewCond(&c.mu)
	c.granted, c.acknowledged = map[string]int{}, map[string]int{}
	var next atomic.Int64
	var workers sync.WaitGroup
	for w := range counterWorkers {
		workers.Go(func() {
			for {
				round := int(next.Add(1)) - 1
				if round >= counterRounds {
					return
				}
				// The last rounds have nobody left to wait for.
				pause := round%40 == 20 && round < counterRounds-40
				if err := c.round(t.Context(), c.doors[w%len(c.doors)], c.skus[round%len(c.skus)], pause); err != nil {
					t.Errorf("round %d: %v", round, err)
					c.giveUp()
					return
				}
			}
		})
	}
	workers.Wait()
}

func (c *counting) round(ctx context.Context, d door, sku string, pause bool) error {
	key := "inventory:" + sku
	lock, err := d.acquire(ctx, key)
	if err != nil {
		return err
	}
	mine := c.note(key)
	value, err := d.read(ctx, lock, sku)
	if err != nil {
		return err
	}
	if pause {
		c.awaitOther(key, mine)
	}
	ok, err := d.write(ctx, lock, sku, value+1)
	if err != nil {
		return err
	}
	c.mu.Lock()
	if ok {
		c.acknowledged[sku]++
	} else {
		c.refused++
	}
	c.mu.Unlock()
	if err := d.release(ctx, lock); err != nil {
		return err
	}
	return c.leases.freed(ctx, key)
}

func (c *counting) note(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.granted[key]++
	c.changed.Broadcast()
	return c.granted[key]
}

func (c *counting) awaitOther(key string, mine int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.granted[key] == mine && !c.failed {
		c.changed.Wait()
	}
}

// giveUp frees those who wait for a worker that will not come.
func (c *counting) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = true
	c.changed.Broadcast()
}

// lost is how many acknowledged updates are not in the rows.
func (c *counting) lost(t *testing.T, sql *pgxpool.Pool) int {
	t.Helper()
	lost := 0
	for _, sku := range c.skus {
		lost += c.acknowledged[sku] - one[int](t, sql, `SELECT available FROM shop.inventory WHERE sku = $1`, sku)
	}
	return lost
}

func counters(t *testing.T, p *plant) []string {
	var skus []string
	for n := range counterKeys {
		sku, _ := p.item(t, fmt.Sprint("N", n))
		skus = append(skus, sku)
	}
	return skus
}

func TestTwoGatewaysLoseNoAcknowledgedUpdate(t *testing.T) {
	t.Parallel()
	p := build(t, options{})
	c := &counting{leases: p.leases(t), skus: counters(t, p)}
	for _, g := range []*testenv.Gateway{p.Gateway, p.twin(t, p.db.URL)} {
		c.doors = append(c.doors, throughGateway{t, g, c.leases})
	}
	c.run(t)
	if lost := c.lost(t, p.sql); lost != 0 {
		t.Errorf("%d acknowledged updates were lost", lost)
	}
	if c.refused == 0 {
		t.Error("no paused worker was refused: nothing was tested")
	}
	t.Logf("acknowledged %v, refused %d", c.acknowledged, c.refused)
	if n := one[int](t, p.sql, `SELECT count(*) FROM fencegate.refusals WHERE disposition = 'refused'`); n != c.refused {
		t.Errorf("%d records of %d refusals", n, c.refused)
	}
	wantOrderedGrants(t, p.sql)
}

func TestTheSameRunGuardedByTheLeaseAloneLosesUpdates(t *testing.T) {
	t.Parallel()
	p := build(t, options{})
	c := &counting{leases: p.leases(t), skus: counters(t, p)}
	c.doors = []door{straight{p.sql, c.leases}}
	c.run(t)
	lost := c.lost(t, p.sql)
	t.Logf("acknowledged %v, lost %d", c.acknowledged, lost)
	if lost == 0 {
		t.Error("nothing was lost: the run does not show what the fence is for")
	}
}

// throughGateway is the way that this project is about.
type throughGateway struct {
	t      *testing.T
	g      *testenv.Gateway
	leases leases
}

func (d throughGateway) acquire(_ context.Context, key string) (any, error) {
	return d.leases.takeOver(d.t, d.g, key, counterTTL)
}

func (d throughGateway) read(ctx context.Context, _ any, sku string) (int, error) {
	answer, err := d.g.Try(d.t, ctx, testenv.Request{Path: "/rest/inventory?select=available&sku=eq." + sku})
	if err != nil {
		return 0, err
	}
	var rows []struct{ Available int }
	if err := json.Unmarshal([]byte(answer.Body), &rows); err != nil || len(rows) != 1 {
		return 0, fmt.Errorf("reading %s: %d %s", sku, answer.Status, answer.Body)
	}
	return rows[0].Available, nil
}

func (d throughGateway) write(ctx context.Context, lock any, sku string, value int) (bool, error) {
	answer, err := d.g.Try(d.t, ctx, setRequest(lock.(testenv.Lease), sku, value))
	if err == nil && answer.Status != http.StatusNoContent && answer.Status != http.StatusPreconditionFailed {
		err = fmt.Errorf("writing: %d %s", answer.Status, answer.Body)
	}
	return answer.Status == http.StatusNoContent, err
}

func (d throughGateway) release(ctx context.Context, lock any) error {
	answer, err := d.g.Try(d.t, ctx, releaseRequest(lock.(testenv.Lease)))
	if err == nil && answer.Status != http.StatusOK {
		err = fmt.Errorf("releasing: %d %s", answer.Status, answer.Body)
	}
	return err
}

// straight is how it is done without a gateway: a lease, then the database.
type straight struct {
	sql    *pgxpool.Pool
	leases leases
}

type plainLock struct{ name, holder string }

func (d straight) acquire(ctx context.Context, key string) (any, error) {
	lock := plainLock{d.leases.prefix + key, string(lease.NewHolder())}
	for {
		err := d.leases.SetArgs(ctx, lock.name, lock.holder, redis.SetArgs{Mode: "NX", TTL: counterTTL * 1e6}).Err()
		if err == nil || !errors.Is(err, redis.Nil) {
			return lock, err
		}
		if err := d.leases.expired(ctx, key); err != nil {
			return nil, err
		}
	}
}

func (d straight) read(ctx context.Context, _ any, sku string) (value int, err error) {
	err = d.sql.QueryRow(ctx, `SELECT available FROM shop.inventory WHERE sku = $1`, sku).Scan(&value)
	return value, err
}

func (d straight) write(ctx context.Context, _ any, sku string, value int) (bool, error) {
	_, err := d.sql.Exec(ctx, `UPDATE shop.inventory SET available = $2 WHERE sku = $1`, sku, value)
	return err == nil, err
}

func (d straight) release(ctx context.Context, lock any) error {
	const compareAndDelete = `return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1])`
	err := d.leases.Eval(ctx, compareAndDelete, []string{lock.(plainLock).name}, lock.(plainLock).holder).Err()
	if errors.Is(err, redis.Nil) {
		return nil // somebody else's by now
	}
	return err
}
