package proxy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/identity"
	"github.com/fencegate/fencegate/internal/testenv"
)

// people are principals of one gateway and their API keys.
type people struct {
	*testenv.Gateway
	keys map[string]string
}

// as is the gateway for somebody.
func (p people) as(name string) *testenv.Gateway { return p.As(p.keys[name]) }

// peopleRoles: a worker may do all with stock under its locks, and so may somebody
// of another tenant, under others.
const peopleRoles = `roles:
  - name: worker
    tables: [{table: shop.stock}]
    call: [CALLS]
    locks: ["stock:*"]
  - name: tenant
    tables: [{table: shop.stock}]
    locks: ["tenant:{claim.tenant}:*"]
  - name: narrow
    tables:
      - table: shop.stock
        operations: [select, update]
        read: [sku, line]
        write: [note]
    locks: ["stock:*"]
  - name: blind
    tables:
      - table: shop.stock
        operations: [update]
        write: [note]
    locks: ["stock:*"]
  - name: adder
    tables:
      - table: shop.stock
        operations: [select, update]
        read: [sku]
        write: [n]
    locks: ["stock:*"]
  - name: slow
    tables: [{table: shop.stock}]
    locks: ["stock:*"]
    requests_per_second: 1
  - {name: operator, admin: true}
`

// holders are the principals and their roles.
var holders = map[string]string{
	"worker": "worker", "second": "worker", "tenant": "tenant", "narrow": "narrow", "blind": "blind", "adder": "adder", "slow": "slow", "operator": "operator", "nobody": "",
}

// startPeople starts a gateway on sql with peopleRoles. Beside the keys of their
// names, people have those of "expired" and "wrong".
func startPeople(t *testing.T, sql, tables, config string) people {
	t.Helper()
	return startPeopleOn(t, testenv.Postgres(t), sql, tables, config)
}

// startStorm is startPeople with calls that take a while; config has the database's
// URL to be filled in.
func startStorm(t *testing.T, config string) people {
	t.Helper()
	db := testenv.Postgres(t)
	return startPeopleOn(t, db, napSQL, doorsTables+napRoutines, fmt.Sprintf(config, "'"+db.URL+"'"))
}

func startPeopleOn(t *testing.T, db *testenv.Database, sql, tables, config string) people {
	t.Helper()
	db.Exec(t, devstack.Shop)
	db.Exec(t, sql)
	keys := map[string]string{}
	calls := "raise, count_all, shop.lift, shop.lift_all"
	if strings.Contains(tables, "shop.nap") {
		calls += ", shop.nap"
	}
	auth := "auth: required\n" + strings.ReplaceAll(peopleRoles, "CALLS", calls) + "principals:\n"
	for name, role := range holders {
		text, key := identity.NewKey(time.Time{})
		keys[name] = text
		auth += fmt.Sprintf("  - {name: %s, roles: [%s], claims: {tenant: acme}, api_keys: [{id: '%s', sha256: '%x'}]}\n", name, role, key.ID, key.SHA256)
	}
	old, key := identity.NewKey(time.Now().Add(-time.Hour))
	auth += fmt.Sprintf("  - {name: expired, roles: [worker], api_keys: [{id: '%s', sha256: '%x', expires: '%s'}]}\n", key.ID, key.SHA256, key.Expires.UTC().Format(time.RFC3339))
	keys["expired"] = old
	keys["wrong"] = keys["worker"][:len(keys["worker"])-1] + strings.Map(another, keys["worker"][len(keys["worker"])-1:])
	return people{testenv.StartGateway(t, testenv.GatewayOptions{Database: db, Tables: tables, Auth: auth, Config: config, OwnRole: true}), keys}
}

func another(r rune) rune {
	if r == 'A' {
		return 'Q' // differs in bits that a base64 of 32 bytes uses
	}
	return 'A'
}
