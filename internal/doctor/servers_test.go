package doctor_test

import (
	"net"
	"strconv"
	"testing"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/doctor"
	"github.com/fencegate/fencegate/internal/testenv"
)

// ownRedis starts a server with TCP, if port is not 0, and more arguments.
func ownRedis(t *testing.T, port int, args ...string) doctor.Server {
	t.Helper()
	server, err := devstack.StartRedis(t.Context(), devstack.RedisConfig{Port: port, Args: args})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	return redisAt(t, server.URL())
}

func freePort(t *testing.T) int {
	t.Helper()
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	return socket.Addr().(*net.TCPAddr).Port
}

func TestFaultsOfRedisAreFound(t *testing.T) {
	t.Parallel()
	i := install(t)
	port := freePort(t)
	master := ownRedis(t, port)
	for name, c := range map[string]struct {
		server doctor.Server
		want   fault
	}{
		"ItEvicts": {ownRedis(t, 0, "--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru"),
			fault{code: "redis_evicts_leases", found: "maxmemory-policy volatile-lru"}},
		"ItHasAPolicyThatNeverCounts": {ownRedis(t, 0, "--maxmemory-policy", "volatile-lru"),
			fault{code: "redis_restart_loses_leases"}},
		"ItIsAReplica": {ownRedis(t, 0, "--replicaof", "127.0.0.1", strconv.Itoa(port)),
			fault{code: "redis_is_replica", found: "127.0.0.1:" + strconv.Itoa(port)}},
		"ItForgets": {master, fault{code: "redis_restart_loses_leases", found: "append-only"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := i.patient(t, "")
			p.Redis = []doctor.Server{c.server}
			wantFault(t, i, doctor.Examine(t.Context(), p), c.want)
		})
	}
}

// A pooler that has been told to ignore what it can't keep takes the settings and
// forgets them.
func TestAPoolerThatNobodyToldOfIsFound(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.exec(t, `DROP OWNED BY @gateway`) // the gateway is the superuser here
	bouncer := testenv.PgBouncer(t, i.URL, 10, map[string]string{"ignore_startup_parameters": "lock_timeout,statement_timeout"})
	p := i.patient(t, "database: {url: '"+bouncer.URL(i.Name)+"'}\n")
	all := doctor.Examine(t.Context(), p)
	wantFault(t, i, all, fault{code: "pooler_untold", also: "gateway_is_superuser", found: "lock_timeout"})
}
