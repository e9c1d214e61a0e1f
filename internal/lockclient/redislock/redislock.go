// Package redislock keeps leases on one Redis server: a string per lock key,
// the holder as its value, its expiry the lease's end.
package redislock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient"
)

//go:embed take.lua
var takeSource string

//go:embed extend.lua
var extendSource string

//go:embed drop.lua
var dropSource string

var (
	takeScript   = redis.NewScript(takeSource)
	extendScript = redis.NewScript(extendSource)
	dropScript   = redis.NewScript(dropSource)
)

// Store keeps leases under one key prefix. It implements lockclient.Store.
type Store struct {
	client *redis.Client
	prefix string
}

var (
	_ lockclient.Store   = (*Store)(nil)
	_ lockclient.Watcher = (*Store)(nil)
)

// New returns a store over client that prefixes every Redis key with prefix.
// The caller closes client.
func New(client *redis.Client, prefix string) *Store {
	return &Store{client: client, prefix: prefix}
}

// Take implements lockclient.Store.
func (s *Store) Take(ctx context.Context, key lease.Key, holder lease.Holder, ttl time.Duration) (bool, lockclient.Reading, error) {
	answer, err := takeScript.Run(ctx, s.client, []string{s.name(key)}, string(holder), ttl.Milliseconds()).Slice()
	if err != nil {
		return false, lockclient.Reading{}, unavailable("taking", key, err)
	}
	taken, okTaken := answer[0].(int64)
	current, okHolder := answer[1].(string)
	remaining, okLeft := answer[2].(int64)
	if !okTaken || !okHolder || !okLeft {
		return false, lockclient.Reading{}, unavailable("taking", key, errors.New("unexpected answer from the script"))
	}
	return taken == 1, reading(current, remaining), nil
}

// Read implements lockclient.Store. ROLE travels in the same transaction: a
// demoted master still answers reads, and must not be believed.
func (s *Store) Read(ctx context.Context, keys ...lease.Key) ([]lockclient.Reading, error) {
	var role *redis.Cmd
	values := make([]*redis.StringCmd, len(keys))
	left := make([]*redis.DurationCmd, len(keys))
	_, err := s.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		role = p.Do(ctx, "ROLE")
		for i, key := range keys {
			values[i] = p.Get(ctx, s.name(key))
			left[i] = p.PTTL(ctx, s.name(key))
		}
		return nil
	})
	if err == nil || errors.Is(err, redis.Nil) {
		err = requireMaster(role)
	}
	if err != nil {
		return nil, unavailable("reading", keys[0], err)
	}
	readings := make([]lockclient.Reading, len(keys))
	for i := range keys {
		readings[i] = reading(values[i].Val(), left[i].Val().Milliseconds())
	}
	return readings, nil
}

// Extend implements lockclient.Store.
func (s *Store) Extend(ctx context.Context, key lease.Key, holder lease.Holder, ttl time.Duration) (bool, error) {
	n, err := extendScript.Run(ctx, s.client, []string{s.name(key)}, string(holder), ttl.Milliseconds()).Int()
	if err != nil {
		return false, unavailable("extending", key, err)
	}
	return n == 1, nil
}

// Drop implements lockclient.Store.
func (s *Store) Drop(ctx context.Context, key lease.Key, holder lease.Holder) (bool, error) {
	n, err := dropScript.Run(ctx, s.client, []string{s.name(key)}, string(holder), s.channel()).Int()
	if err != nil {
		return false, unavailable("dropping", key, err)
	}
	return n == 1, nil
}

// Watch implements lockclient.Watcher. The connection it listens on is made anew
// whenever it is lost; what was published meanwhile is not heard.
func (s *Store) Watch(ctx context.Context, dropped func(lease.Key)) error {
	listening := s.client.Subscribe(ctx, s.channel())
	defer listening.Close()
	messages := listening.Channel()
	for {
		select {
		case m := <-messages:
			dropped(lease.Key(strings.TrimPrefix(m.Payload, s.prefix)))
		case <-ctx.Done():
			return nil
		}
	}
}

// channel is where drops are published: no lock key is written like it, since a
// key has no control characters.
func (s *Store) channel() string { return s.prefix + "\n" + "dropped" }

func (s *Store) name(key lease.Key) string { return s.prefix + string(key) }

// reading takes a value without expiry for nobody's lease: the gateway never
// writes one, and a lock that can't run out is a fault to be seen, not trusted.
func reading(holder string, remainingMS int64) lockclient.Reading {
	if remainingMS <= 0 {
		return lockclient.Reading{}
	}
	return lockclient.Reading{Holder: lease.Holder(holder), Remaining: time.Duration(remainingMS) * time.Millisecond}
}

func requireMaster(role *redis.Cmd) error {
	answer, err := role.Slice()
	if err != nil {
		return fmt.Errorf("asking for its role: %w", err)
	}
	if len(answer) == 0 || answer[0] != "master" {
		return errors.New("it is not a master")
	}
	return nil
}

func unavailable(act string, key lease.Key, err error) error {
	return fmt.Errorf("%s the lease of %q: %w: %w", act, key, lockclient.ErrUnavailable, err)
}
