// Package redislock keeps leases in Redis: a string per lock key, the holder as
// its value, its expiry the lease's end. Ends are told by the clock of the server
// that has the key, and by no other.
//
// It works on one server, on the master that a Sentinel names, and on a Cluster.
// Every script touches one Redis key, so that any prefix will do for a Cluster.
//
// Not promised: that a lease outlives a failover. Redis replicates after it has
// answered, so a promoted replica may not know of it, or may still have one that
// was dropped. The marks of package fence decide then.
package redislock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

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
	client redis.UniversalClient
	prefix string
	groups func(names []string) [][]int // which names one transaction can read
}

var (
	_ lockclient.Store   = (*Store)(nil)
	_ lockclient.Watcher = (*Store)(nil)
)

// New returns a store over client, which leads to one server or, as a failover
// client, to a Sentinel's master. Every Redis key gets prefix. The caller closes
// client.
func New(client *redis.Client, prefix string) *Store {
	return &Store{client: client, prefix: prefix, groups: together}
}

// NewCluster returns a store over a Cluster. There Read asks for the keys of each
// hash tag at one moment, and for different ones at moments of their own, all
// between the call and its return: no server has them all. The caller closes
// client.
func NewCluster(client *redis.ClusterClient, prefix string) *Store {
	return &Store{client: client, prefix: prefix, groups: byHashTag}
}

// Take implements lockclient.Store.
func (s *Store) Take(ctx context.Context, key lease.Key, holder lease.Holder, ttl time.Duration) (bool, lockclient.Reading, error) {
	answer, err := takeScript.Run(ctx, s.client, []string{s.name(key)}, string(holder), ttl.Milliseconds()).Slice()
	if err != nil {
		return false, lockclient.Reading{}, unavailable("taking", key, err)
	}
	if len(answer) != 3 {
		return false, lockclient.Reading{}, unavailable("taking", key, errUnexpected)
	}
	taken, okTaken := answer[0].(int64)
	current, okHolder := answer[1].(string)
	remaining, okLeft := answer[2].(int64)
	if !okTaken || !okHolder || !okLeft {
		return false, lockclient.Reading{}, unavailable("taking", key, errUnexpected)
	}
	return taken == 1, reading(current, time.Duration(remaining)*time.Millisecond), nil
}

// Read implements lockclient.Store.
func (s *Store) Read(ctx context.Context, keys ...lease.Key) ([]lockclient.Reading, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = s.name(key)
	}
	readings := make([]lockclient.Reading, len(keys))
	groups := s.groups(names)
	if len(groups) == 1 {
		return readings, s.read(ctx, names, groups[0], readings, keys[0])
	}
	all, ctx := errgroup.WithContext(ctx)
	for _, group := range groups {
		all.Go(func() error { return s.read(ctx, names, group, readings, keys[group[0]]) })
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	return readings, nil
}

// read fills the readings of one group at one moment. ROLE travels in the same
// transaction: a demoted master still answers reads, and must not be believed.
func (s *Store) read(ctx context.Context, names []string, group []int, readings []lockclient.Reading, first lease.Key) error {
	var role *redis.Cmd
	values := make([]*redis.StringCmd, len(group))
	left := make([]*redis.DurationCmd, len(group))
	_, err := s.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		role = p.Do(ctx, "ROLE")
		for n, i := range group {
			values[n] = p.Get(ctx, names[i])
			left[n] = p.PTTL(ctx, names[i])
		}
		return nil
	})
	if err == nil || errors.Is(err, redis.Nil) {
		err = requireMaster(role)
	}
	if err != nil {
		return unavailable("reading", first, err)
	}
	for n, i := range group {
		readings[i] = reading(values[n].Val(), left[n].Val())
	}
	return nil
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

// together: one server has every name.
func together(names []string) [][]int {
	group := make([]int, len(names))
	for i := range group {
		group[i] = i
	}
	return [][]int{group}
}

// byHashTag puts together what is certain to lie in one slot. Two tags that
// happen to share a slot are asked for apart, which costs a message.
func byHashTag(names []string) [][]int {
	var groups [][]int
	at := map[string]int{}
	for i, name := range names {
		tag := hashTag(name)
		n, met := at[tag]
		if !met {
			n = len(groups)
			at[tag], groups = n, append(groups, nil)
		}
		groups[n] = append(groups[n], i)
	}
	return groups
}

// hashTag is the part of a name that decides about its slot.
func hashTag(name string) string {
	_, after, opened := strings.Cut(name, "{")
	tag, _, closed := strings.Cut(after, "}")
	if !opened || !closed || tag == "" {
		return name
	}
	return tag
}

// reading takes a value without expiry for nobody's lease: the gateway never
// writes one, and a lock that can't run out is a fault to be seen, not trusted.
// left is negative for that, and for no value. 0 is a lease in its last
// millisecond, which still keeps others out.
func reading(holder string, left time.Duration) lockclient.Reading {
	if left < 0 {
		return lockclient.Reading{}
	}
	return lockclient.Reading{Holder: lease.Holder(holder), Remaining: max(left, time.Millisecond)}
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

var errUnexpected = errors.New("unexpected answer from the script")

func unavailable(act string, key lease.Key, err error) error {
	return fmt.Errorf("%s the lease of %q: %w: %w", act, key, lockclient.ErrUnavailable, err)
}
