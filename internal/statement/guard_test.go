package statement

import (
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/lease"
)

func TestAGuardsNameIsOnePostgreSQLKeeps(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 31)
	if one, other := GuardFunction(long, "a"), GuardFunction(long, "b"); one == other || len(one) > 63 || len(other) > 63 {
		t.Errorf("%q and %q", one, other)
	}
	if got := GuardFunction("shop", "stock"); got != "guard shop.stock" {
		t.Error(got)
	}
}

func TestAGuardsBodyIsQuotedWhateverItsLockSays(t *testing.T) {
	t.Parallel()
	g := Guard{Table: &catalog.Table{Spec: catalog.Spec{Schema: "shop", Name: "stock", Lock: lease.Template{Literals: []string{"$guard$ $guard_$"}}}}}
	if sql := g.Install(); strings.Count(sql, "$guard__$") != 2 {
		t.Error(sql)
	}
}
