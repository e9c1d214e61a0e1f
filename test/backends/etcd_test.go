package backends_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/lockclient"
	"github.com/fencegate/fencegate/internal/lockclient/etcdlock"
	"github.com/fencegate/fencegate/internal/testenv"
)

// etcdWorld is an etcd with a store in it.
type etcdWorld struct {
	client *clientv3.Client
	store  lockclient.Store
}

func newEtcdWorld(t *testing.T) *etcdWorld {
	client := etcdClient(t, testenv.OwnEtcd(t))
	return &etcdWorld{client, etcdlock.New(etcdlock.Config{Client: client, Timeout: callTimeout})}
}

// write puts a lease as a gateway would whose clock is wrong by off.
func (w *etcdWorld) write(t *testing.T, key string, ttl, off time.Duration) {
	t.Helper()
	granted, err := w.client.Grant(t.Context(), int64(ttl.Seconds()))
	must(t, err)
	value := fmt.Sprintf(`{"holder":"me","ends_unix_ms":%d,"ttl_ms":%d}`, time.Now().Add(ttl+off).UnixMilli(), ttl.Milliseconds())
	_, err = w.client.Put(t.Context(), key, value, clientv3.WithLease(granted.ID))
	must(t, err)
}

func (w *etcdWorld) read(t *testing.T, key string) lockclient.Reading {
	t.Helper()
	readings, err := w.store.Read(t.Context(), "another", lease.Key(key))
	must(t, err)
	return readings[1]
}

// A clock that is wrong never makes a lease longer than it was granted, and etcd
// ends it all the same.
func TestAGatewaysWrongClockLengthensNoLease(t *testing.T) {
	t.Parallel()
	w := newEtcdWorld(t)
	w.write(t, "ahead", 2*time.Second, time.Hour)
	w.write(t, "behind", time.Minute, -2*time.Minute)
	if r := w.read(t, "ahead"); !r.HeldBy("me") || r.Remaining > 2*time.Second {
		t.Errorf("written an hour ahead: %+v", r)
	}
	if r := w.read(t, "behind"); r.Live() {
		t.Errorf("written two minutes behind: %+v", r)
	}
	if taken, _, err := w.store.Take(t.Context(), "behind", "next", time.Minute); err != nil || !taken {
		t.Errorf("taking what looks ended: %t %v", taken, err)
	}
	for began := time.Now(); w.read(t, "ahead").Live(); {
		if time.Since(began) > patience {
			t.Fatal("etcd's own lease does not end it")
		}
	}
}

// Nothing stays of leases that ran out, whatever they were extended to.
func TestEtcdClearsAwayWhatNobodyDropped(t *testing.T) {
	t.Parallel()
	w := newEtcdWorld(t)
	for _, key := range []string{"taken", "extended", "made longer"} {
		taken, _, err := w.store.Take(t.Context(), lease.Key(key), "me", time.Second)
		if err != nil || !taken {
			t.Fatalf("taking: %t %v", taken, err)
		}
	}
	for key, ttl := range map[string]time.Duration{"extended": time.Second, "made longer": 6 * time.Second} {
		if extended, err := w.store.Extend(t.Context(), lease.Key(key), "me", ttl); err != nil || !extended {
			t.Fatalf("extending: %t %v", extended, err)
		}
	}
	began := time.Now()
	for {
		found, err := w.client.Get(t.Context(), "", clientv3.WithPrefix())
		must(t, err)
		leases, err := w.client.Leases(t.Context())
		must(t, err)
		if time.Since(began) < 5*time.Second && !w.read(t, "made longer").Live() {
			t.Fatal("over before its end")
		}
		if len(found.Kvs) == 0 && len(leases.Leases) == 0 {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("%d keys and %d leases are left", len(found.Kvs), len(leases.Leases))
		}
	}
}

// A renewal that is held up on its way until its lease has ended is none: somebody
// may have seen that the key was free.
func TestARenewalThatComesTooLateRevivesNothing(t *testing.T) {
	t.Parallel()
	members := testenv.OwnEtcd(t)
	observer := etcdlock.New(etcdlock.Config{Client: etcdClient(t, members), Timeout: callTimeout})
	var once sync.Once
	holdUp := func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		if change, ok := request.(*etcdserverpb.TxnRequest); ok && len(change.Compare) > 0 {
			if key := lease.Key(change.Compare[0].Key); key == "late" {
				once.Do(func() { awaitFree(t, observer, key) })
			}
		}
		return invoke(ctx, method, request, reply, conn, options...)
	}
	slow := etcdlock.New(etcdlock.Config{Client: etcdClient(t, members, grpc.WithChainUnaryInterceptor(holdUp)), Timeout: patience})
	for key, want := range map[lease.Key]bool{"late": false, "in time": true} {
		taken, _, err := observer.Take(t.Context(), key, "me", time.Second)
		if err != nil || !taken {
			t.Fatalf("taking: %t %v", taken, err)
		}
		if extended, err := slow.Extend(t.Context(), key, "me", time.Minute); err != nil || extended != want {
			t.Errorf("extending %s: %t %v, want %t", key, extended, err, want)
		}
		readings, err := observer.Read(t.Context(), key)
		must(t, err)
		if readings[0].HeldBy("me") != want {
			t.Errorf("%s is %+v", key, readings[0])
		}
	}
}

func awaitFree(t testing.TB, store lockclient.Store, key lease.Key) {
	for began := time.Now(); time.Since(began) < patience; {
		if readings, err := store.Read(t.Context(), key); err == nil && !readings[0].Live() {
			return
		}
	}
	t.Errorf("%s is not free", key)
}

// What a person wrote there is nobody's lease, and is taken over.
func TestAValueThatIsNoLease(t *testing.T) {
	t.Parallel()
	w := newEtcdWorld(t)
	for key, value := range map[string]string{"text": "mine", "empty": "", "a list": "[]", "no holder": `{"ends_unix_ms":9999999999999,"ttl_ms":60000}`} {
		_, err := w.client.Put(t.Context(), key, value)
		must(t, err)
		if r := w.read(t, key); r.Live() {
			t.Errorf("%s: %+v", key, r)
		}
		if taken, _, err := w.store.Take(t.Context(), lease.Key(key), "me", time.Minute); err != nil || !taken {
			t.Errorf("%s: taken %t %v", key, taken, err)
		}
		if r := w.read(t, key); !r.HeldBy("me") {
			t.Errorf("%s: %+v", key, r)
		}
	}
}

// A leader that hangs costs some calls their timeout and no lease.
func TestAnEtcdLeaderThatHangs(t *testing.T) {
	t.Parallel()
	members := testenv.OwnEtcd(t)
	client := etcdClient(t, members)
	p := build(t, onEtcd(members))
	leasesKept(t, p, func(t testing.TB) {
		for _, m := range members {
			status, err := client.Status(t.Context(), m.Endpoint())
			must(t, err)
			if status.Leader == status.Header.MemberId {
				must(t, m.Pause())
				return
			}
		}
		t.Fatal("there is no leader")
	})
}
