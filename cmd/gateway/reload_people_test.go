package main_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/identity"
	"github.com/fencegate/fencegate/internal/testenv"
)

// one is a configuration that lets a principal with key in, to read a table.
func one(key identity.Key, table string) string {
	return fmt.Sprintf("auth: required\nroles: [{name: r, tables: [{table: %s}], locks: ['*']}]\n"+
		"principals: [{name: p, roles: [r], api_keys: [{id: '%s', sha256: '%x'}]}]\n", table, key.ID, key.SHA256)
}

func TestAHangUpChangesWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	first, firstKey := identity.NewKey(time.Time{})
	second, secondKey := identity.NewKey(time.Time{})
	g := testenv.StartGateway(t, testenv.GatewayOptions{Auth: one(firstKey, "shop.inventory")})
	status := func(credential, table string) int {
		return g.As(credential).Do(t, testenv.Request{Path: "/rest/" + table}).Status
	}
	if got := [2]int{status(first, "inventory"), status(second, "inventory")}; got != [2]int{http.StatusOK, http.StatusUnauthorized} {
		t.Errorf("before: %v", got)
	}
	o := g.Options
	o.Auth = one(secondKey, "shop.orders")
	hangUp(t, g, o, readAnew, 1)
	got := [3]int{status(first, "orders"), status(second, "orders"), status(second, "inventory")}
	if got != [3]int{http.StatusUnauthorized, http.StatusOK, http.StatusNotFound} {
		t.Errorf("after: %v", got)
	}
	o.Auth = one(firstKey, "shop.nope")
	hangUp(t, g, o, notReadAnew, 1)
	if got := status(second, "orders"); got != http.StatusOK {
		t.Errorf("after a mistake: %d", got)
	}
}
