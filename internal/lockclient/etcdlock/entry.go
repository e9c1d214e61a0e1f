package etcdlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient"
)

// value is what etcd keeps of a lease, as JSON that etcdctl shows.
type value struct {
	Holder string `json:"holder"`       // in its wire form
	Ends   int64  `json:"ends_unix_ms"` // by the clock of the gateway that wrote it
	TTL    int64  `json:"ttl_ms"`       // the most that any clock may find left
}

// newValue counts from began, before etcd was first asked: a slow answer must not
// lengthen the lease.
func newValue(holder lease.Holder, began time.Time, ttl time.Duration) value {
	return value{Holder: holder.Wire(), Ends: began.Add(ttl).UnixMilli(), TTL: ttl.Milliseconds()}
}

func (v value) reading() lockclient.Reading {
	left := min(v.Ends-time.Now().UnixMilli(), v.TTL)
	holder, err := lease.ParseHolder(v.Holder)
	if left <= 0 || err != nil { // no value at all, or none that a gateway wrote
		return lockclient.Reading{}
	}
	return lockclient.Reading{Holder: holder, Remaining: time.Duration(left) * time.Millisecond}
}

// entry is a key as it was read. Without a revision there was none.
type entry struct {
	value
	name      string
	revision  int64
	etcdLease clientv3.LeaseID
}

func (s *Store) get(ctx context.Context, key lease.Key) (entry, error) {
	entries, err := s.getAll(ctx, []lease.Key{key})
	if err != nil {
		return entry{}, err
	}
	return entries[0], nil
}

// getAll reads all keys at one revision.
func (s *Store) getAll(ctx context.Context, keys []lease.Key) ([]entry, error) {
	gets := make([]clientv3.Op, len(keys))
	for i, key := range keys {
		gets[i] = clientv3.OpGet(s.prefix + string(key))
	}
	answer, err := s.etcd.Txn(ctx).Then(gets...).Commit()
	if err != nil {
		return nil, err
	}
	if len(answer.Responses) != len(keys) {
		return nil, fmt.Errorf("%d answers to %d keys", len(answer.Responses), len(keys))
	}
	entries := make([]entry, len(keys))
	for i, key := range keys {
		entries[i] = entryOf(s.prefix+string(key), answer.Responses[i].GetResponseRange().GetKvs())
	}
	return entries, nil
}

// entryOf takes a value that no gateway wrote for a lease that has ended.
func entryOf(name string, found []*mvccpb.KeyValue) entry {
	e := entry{name: name}
	if len(found) == 0 {
		return e
	}
	e.revision, e.etcdLease = found[0].ModRevision, clientv3.LeaseID(found[0].Lease)
	if json.Unmarshal(found[0].Value, &e.value) != nil {
		e.value = value{}
	}
	return e
}

// replace puts next in place of what was read, if that is still there, attached
// to the etcd lease it has or to a longer one.
func (s *Store) replace(ctx context.Context, read entry, next value, etcdLease clientv3.LeaseID) (bool, error) {
	text, err := json.Marshal(next)
	if err != nil {
		return false, err
	}
	id, err := s.lasting(ctx, etcdLease, next.TTL)
	if err != nil {
		return false, err
	}
	return s.change(ctx, read, clientv3.OpPut(read.name, string(text), clientv3.WithLease(id)))
}

// lasting returns an etcd lease that lasts for ttlMS from now on, by etcd's clock:
// id, if it can be made to, or else a new one; the old one runs out by itself.
func (s *Store) lasting(ctx context.Context, id clientv3.LeaseID, ttlMS int64) (clientv3.LeaseID, error) {
	seconds := (ttlMS + 999) / 1000
	if id != clientv3.NoLease {
		kept, err := s.etcd.KeepAliveOnce(ctx, id)
		if err == nil && kept.TTL >= seconds {
			return id, nil
		}
		if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return 0, err
		}
	}
	granted, err := s.etcd.Grant(ctx, seconds)
	if err != nil {
		return 0, err
	}
	return granted.ID, nil
}

// change does op if the key is still as it was read.
func (s *Store) change(ctx context.Context, read entry, op clientv3.Op) (bool, error) {
	unchanged := clientv3.Compare(clientv3.ModRevision(read.name), "=", read.revision)
	answer, err := s.etcd.Txn(ctx).If(unchanged).Then(op).Commit()
	if err != nil {
		return false, err
	}
	return answer.Succeeded, nil
}
