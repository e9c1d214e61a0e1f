package backends_test

import (
	"testing"

	"github.com/fencegate/fencegate/internal/lockclient/locktest"
)

func TestTheContract(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) locktest.Backend{
		"redis": openRedis, "redlock": openRedlock, "redlock without a minority": openMinorityGone, "sentinel": openSentinel, "cluster": openCluster, "etcd": openEtcd, "postgres": openPostgres, "postgres behind a pooler": openPooled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results := locktest.Run(t, open)
			for _, rule := range locktest.Rules() {
				t.Logf("%s: %s", rule, results[rule])
			}
		})
	}
}
