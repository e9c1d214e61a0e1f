// Package etcdlock keeps leases in etcd: a key per lock key, whose value names the
// holder and when its lease ends, attached to an etcd lease that removes it.
//
// Two clocks are in it. The end in the value is a wall-clock time of the gateway
// that set it, and each gateway compares it with its own wall clock: etcd counts
// whole seconds, starts them anew when its leader changes, and tells nobody the
// time. So gateways on one etcd must agree about the time (NTP) to a fraction of
// the shortest lease; as far as they don't, leases end early or late for those who
// look from elsewhere, and no gateway ever reports more left than was granted.
// etcd's own lease, rounded up to whole seconds and counted by etcd's clock, only
// clears away what nobody dropped, and bounds what a wrong clock can do.
//
// Every change is a transaction that compares the key's revision with the one that
// was read, so that two gateways never change it from the same state. Reads are
// linearizable: an etcd without a majority answers nothing.
//
// Not promised: that at most one holds a key while clocks disagree. The marks of
// package fence decide.
package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient"
)

// tries is how often a call starts again because somebody changed the key between
// its reading and its change.
const tries = 10

var errContended = errors.New("others changed it every time")

// Config says what a Store is made of. No field but Prefix has a default.
type Config struct {
	Client  *clientv3.Client // the caller closes it
	Prefix  string           // of every key; "" is none
	Timeout time.Duration    // of a call, which asks etcd up to three times
}

// Store keeps leases under one key prefix. It implements lockclient.Store.
type Store struct {
	etcd    *clientv3.Client
	prefix  string
	timeout time.Duration
}

var _ lockclient.Store = (*Store)(nil)

// New returns a store in config.Client's etcd.
func New(config Config) *Store {
	return &Store{etcd: config.Client, prefix: config.Prefix, timeout: config.Timeout}
}

// Take implements lockclient.Store.
func (s *Store) Take(ctx context.Context, key lease.Key, holder lease.Holder, ttl time.Duration) (bool, lockclient.Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	for range tries {
		began := time.Now()
		now, err := s.get(ctx, key)
		if err != nil {
			return false, lockclient.Reading{}, unavailable("taking", key, err)
		}
		if current := now.reading(); current.Live() {
			return current.HeldBy(holder), current, nil
		}
		next := newValue(holder, began, ttl)
		taken, err := s.replace(ctx, now, next, clientv3.NoLease)
		if err != nil {
			return false, lockclient.Reading{}, unavailable("taking", key, err)
		}
		if taken {
			return true, next.reading(), nil
		}
	}
	return false, lockclient.Reading{}, unavailable("taking", key, errContended)
}

// Read implements lockclient.Store. It takes 128 keys at most, unless etcd's
// --max-txn-ops says otherwise.
func (s *Store) Read(ctx context.Context, keys ...lease.Key) ([]lockclient.Reading, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	entries, err := s.getAll(ctx, keys)
	if err != nil {
		return nil, unavailable("reading", keys[0], err)
	}
	readings := make([]lockclient.Reading, len(keys))
	for i, e := range entries {
		readings[i] = e.reading()
	}
	return readings, nil
}

// Extend implements lockclient.Store.
func (s *Store) Extend(ctx context.Context, key lease.Key, holder lease.Holder, ttl time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	for range tries {
		began := time.Now()
		now, err := s.get(ctx, key)
		if err != nil {
			return false, unavailable("extending", key, err)
		}
		if !now.reading().HeldBy(holder) {
			return false, nil
		}
		extended, err := s.replace(ctx, now, newValue(holder, began, ttl), now.etcdLease)
		if err != nil {
			return false, unavailable("extending", key, err)
		}
		if !extended {
			continue
		}
		if now.reading().Live() {
			return true, nil
		}
		// It ran out on the way, and somebody may have seen that.
		if _, err := s.drop(ctx, key, holder); err != nil {
			return false, unavailable("extending", key, err)
		}
		return false, nil
	}
	return false, unavailable("extending", key, errContended)
}

// Drop implements lockclient.Store.
func (s *Store) Drop(ctx context.Context, key lease.Key, holder lease.Holder) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	dropped, err := s.drop(ctx, key, holder)
	if err != nil {
		return false, unavailable("dropping", key, err)
	}
	return dropped, nil
}

func (s *Store) drop(ctx context.Context, key lease.Key, holder lease.Holder) (bool, error) {
	for range tries {
		now, err := s.get(ctx, key)
		if err != nil {
			return false, err
		}
		if now.value.Holder != holder.Wire() {
			return false, nil
		}
		wasLive := now.reading().Live()
		deleted, err := s.change(ctx, now, clientv3.OpDelete(now.name))
		if err != nil {
			return false, err
		}
		if deleted {
			return wasLive, nil
		}
	}
	return false, errContended
}

func unavailable(act string, key lease.Key, err error) error {
	return fmt.Errorf("%s the lease of %q: %w: %w", act, key, lockclient.ErrUnavailable, err)
}
