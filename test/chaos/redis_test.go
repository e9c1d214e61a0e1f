package chaos_test

import (
	"context"
	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// answerWithin bounds what a request may take while the lock service does not
// answer: an acquire asks it twice, for the configured 1 s each. The rest is for
// a busy machine.
const answerWithin = 3500 * time.Millisecond

const fenceOnly = "\nleases: {lock_service_down: fence_only}\n"

// outage is a way for Redis to be gone.
type outage struct {
	name        string
	begin       func(*testing.T, *plant, *devstack.Redis)
	end         func(*testing.T, *plant, *devstack.Redis)
	losesLeases bool
}

var outages = []outage{
	{"killed",
		func(t *testing.T, _ *plant, server *devstack.Redis) { must(t, server.Kill()) },
		func(t *testing.T, _ *plant, server *devstack.Redis) { must(t, server.Restart(t.Context())) }, true},
	{"refusing",
		func(_ *testing.T, p *plant, _ *devstack.Redis) { p.redis.Down() },
		func(t *testing.T, p *plant, _ *devstack.Redis) { p.redis.Mend(t) }, false},
	{"black hole",
		func(_ *testing.T, p *plant, _ *devstack.Redis) { p.redis.BlackHole() },
		func(t *testing.T, p *plant, _ *devstack.Redis) { p.redis.Mend(t) }, false},
	{"frozen",
		func(t *testing.T, _ *plant, server *devstack.Redis) { must(t, server.Pause()) },
		func(t *testing.T, _ *plant, server *devstack.Redis) { must(t, server.Resume()) }, false},
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWithoutRedisNothingIsWrittenAndStaleIsStillStale(t *testing.T) {
	t.Parallel()
	eachOutage(t, "", func(t *testing.T, p *plant, l, old testenv.Lease) {
		wantProblem(t, timed(t, func() testenv.Response { return set(t, p.Gateway, l, "A", 1) }), 503, "lock_service_unavailable")
		p.wantRow(t, "A", 0, 0)
	}, func(t *testing.T, p *plant, o outage, l testenv.Lease) {
		if o.losesLeases {
			wantProblem(t, set(t, p.Gateway, l, "A", 2), 412, "lease_expired")
			return
		}
		wantStatus(t, set(t, p.Gateway, l, "A", 2), 204)
		p.wantRow(t, "A", 2, 1)
	})
}

func TestWithoutRedisTheFenceAloneAdmitsWhereConfigured(t *testing.T) {
	t.Parallel()
	eachOutage(t, fenceOnly, func(t *testing.T, p *plant, l, old testenv.Lease) {
		answer := timed(t, func() testenv.Response { return set(t, p.Gateway, l, "A", 1) })
		wantStatus(t, answer, 204)
		if got := answer.Header.Get("Lease-Checked"); got != "skipped" {
			t.Errorf("Lease-Checked %q", got)
		}
		p.wantRow(t, "A", 1, 1)
		forged := l
		forged.Headers = map[string]string{"Lock-Key": l.Key, "Lock-Holder": "somebody", "Fencing-Token": l.Token}
		wantProblem(t, timed(t, func() testenv.Response { return set(t, p.Gateway, forged, "A", 3) }), 412, "holder_mismatch")
		p.wantRow(t, "A", 1, 1)
	}, func(t *testing.T, p *plant, o outage, l testenv.Lease) {})
}

// eachOutage runs the outages side by side, each against servers of its own:
// most of their time is waiting for timeouts.
func eachOutage(t *testing.T, config string, during func(t *testing.T, p *plant, l, old testenv.Lease), after func(*testing.T, *plant, outage, testenv.Lease)) {
	sideBySide(t, outages, func(o outage) string { return o.name }, func(t *testing.T, o outage) {
		server := testenv.OwnRedis(t)
		p := build(t, options{GatewayOptions: testenv.GatewayOptions{RedisURL: server.URL(), Config: config}})
		_, key := p.item(t, "A")
		_, other := p.item(t, "B")
		l, old := p.Acquire(t, key, 60000), p.stale(t, other)

		o.begin(t, p, server)
		during(t, p, l, old)
		problem := wantProblem(t, timed(t, func() testenv.Response { return set(t, p.Gateway, old, "B", 9) }), 412, "stale_token")
		if problem.AuditID == "" {
			t.Error("the refusal has no record")
		}
		p.wantRow(t, "B", 0, 0)
		acquire := acquireRequest("inventory:C", 60000)
		wantProblem(t, timed(t, func() testenv.Response { return p.Do(t, acquire) }), 503, "lock_service_unavailable")

		o.end(t, p, server)
		try(t, p.Gateway, acquireRequest("inventory:D", 60000), http.StatusCreated)
		after(t, p, o, l)
	})
}

// sideBySide is t.Run for each case, all at once whatever -parallel says: they
// wait more than they work.
func sideBySide[T any](t *testing.T, cases []T, name func(T) string, test func(*testing.T, T)) {
	t.Helper()
	done := make(chan struct{})
	for _, c := range cases {
		go func() {
			defer func() { done <- struct{}{} }()
			t.Run(name(c), func(t *testing.T) { test(t, c) })
		}()
	}
	for range cases {
		<-done
	}
}

func timed(t *testing.T, do func() testenv.Response) testenv.Response {
	t.Helper()
	began := time.Now()
	answer := do()
	took := time.Since(began)
	t.Logf("%d after %s", answer.Status, took.Round(10*time.Millisecond))
	if took > answerWithin {
		t.Errorf("it took %s", took)
	}
	return answer
}

func TestARedisThatForgetsEverythingLowersNoToken(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	p := build(t, options{GatewayOptions: testenv.GatewayOptions{RedisURL: server.URL()}})
	redis := p.leases(t)
	for name, forget := range map[string]func() error{
		"flushed":   func() error { return redis.FlushAll(t.Context()).Err() },
		"restarted": func() error { return server.Restart(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			sku, key := p.item(t, name)
			first := p.Acquire(t, key, 60000)
			must(t, forget())
			wantProblem(t, try(t, p.Gateway, setRequest(first, sku, 1), 412), 412, "lease_expired")

			second := p.Acquire(t, key, 60000)
			if token(t, second) <= token(t, first) {
				t.Errorf("token %s follows %s", second.Token, first.Token)
			}
			wantProblem(t, set(t, p.Gateway, first, sku, 1), 412, "stale_token")
			p.wantRow(t, sku, 0, 0)
			wantStatus(t, set(t, p.Gateway, second, sku, 2), 204)

			must(t, forget())
			third := p.Acquire(t, key, 60000) // nobody released the second
			wantProblem(t, set(t, p.Gateway, second, sku, 3), 412, "stale_token")
			wantStatus(t, set(t, p.Gateway, third, sku, 4), 204)
			p.wantRow(t, sku, 4, 2)
		})
	}
	wantOrderedGrants(t, p.sql)
}

func token(t testing.TB, l testenv.Lease) int64 {
	t.Helper()
	n, err := strconv.ParseInt(l.Token, 10, 64)
	must(t, err)
	return n
}

func TestAReplicaOfRedisIsNotBelieved(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	master := startRedis(t, devstack.RedisConfig{Port: port})
	replica := startRedis(t, devstack.RedisConfig{Args: []string{"--replicaof", "127.0.0.1 " + strconv.Itoa(port)}})
	p := build(t, options{GatewayOptions: testenv.GatewayOptions{RedisURL: master.URL()}})
	sku, key := p.item(t, "A")
	l := p.Acquire(t, key, 60000)
	leases := p.leases(t)
	// One connection, and one write on it for WAIT to wait for.
	conn := leases.Conn()
	defer conn.Close()
	must(t, conn.Set(t.Context(), p.leasesName+"written", 1, time.Minute).Err())
	if n, err := conn.Wait(t.Context(), 1, 10*time.Second).Result(); err != nil || n != 1 {
		t.Fatalf("%d replicas have it: %v", n, err)
	}
	lost := testenv.StartGateway(t, testenv.GatewayOptions{Database: p.db, RedisURL: replica.URL(), KeyPrefix: p.leasesName})
	old := p.stale(t, "inventory:B")

	t.Run("one that was asked by mistake", func(t *testing.T) {
		wantProblem(t, set(t, lost, l, sku, 1), 503, "lock_service_unavailable")
		wantProblem(t, lost.Do(t, acquireRequest("inventory:C", 60000)), 503, "lock_service_unavailable")
		wantProblem(t, lost.Do(t, acquireRequest(key, 60000)), 503, "lock_service_unavailable")
		wantProblem(t, lost.Do(t, renewRequest(l)), 503, "lock_service_unavailable")
		wantProblem(t, set(t, lost, old, "B", 1), 412, "stale_token")
		p.wantRow(t, sku, 0, 0)
		wantStatus(t, set(t, p.Gateway, l, sku, 1), 204)
	})
	t.Run("a master that was demoted", func(t *testing.T) {
		must(t, leases.SlaveOf(t.Context(), "127.0.0.1", "1").Err())
		wantProblem(t, set(t, p.Gateway, l, sku, 2), 503, "lock_service_unavailable")
		wantProblem(t, p.Do(t, acquireRequest("inventory:C", 60000)), 503, "lock_service_unavailable")
		p.wantRow(t, sku, 1, 1)
		must(t, leases.SlaveOf(t.Context(), "NO", "ONE").Err())
		wantStatus(t, try(t, p.Gateway, setRequest(l, sku, 2), 204), 204)
	})
}

func renewRequest(l testenv.Lease) testenv.Request {
	return testenv.Request{Method: http.MethodPost, Path: "/v1/leases/renew", Body: l.Claim()}
}

func startRedis(t *testing.T, config devstack.RedisConfig) *devstack.Redis {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, err := devstack.StartRedis(ctx, config)
	must(t, err)
	t.Cleanup(func() { server.Stop() })
	return server
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
