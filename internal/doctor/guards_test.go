package doctor_test

import (
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/doctor"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/statement"
)

// guard makes a guard as gateway protect does, run by a superuser.
func (i *installation) guard(t *testing.T, table, lock string, observe bool) {
	t.Helper()
	template, err := lease.ParseTemplate(lock)
	if err != nil {
		t.Fatal(err)
	}
	pool := i.Pool(t)
	tables, err := catalog.Load(t.Context(), pool, catalog.Specs{Schemas: []string{"shop"}, Tables: []catalog.Spec{{Schema: "shop", Name: table, Lock: template}}})
	if err != nil {
		t.Fatal(err)
	}
	g := statement.Guard{Observe: observe}
	if g.Table, err = tables.Table("shop", table); err != nil {
		t.Fatal(err)
	}
	if g.Site, err = catalog.LoadGuardSite(t.Context(), pool, g.Table); err != nil {
		t.Fatal(err)
	}
	i.exec(t, g.Install())
}

func TestGuardsAreSeen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql         string // after the guards of all tables were made
		observe     bool
		code, found string
		also        string
	}{
		"AWriter":                 {sql: `GRANT UPDATE ON shop.inventory TO @role`, code: "guard_fences_writer", found: "can UPDATE shop.inventory, through a guard"},
		"TheOwner":                {sql: `ALTER ROLE @owner LOGIN`, code: "guard_fences_writer", found: "shop.order_lines"},
		"AViewAbove":              {sql: `CREATE VIEW public.cups AS SELECT * FROM shop.inventory; GRANT UPDATE ON public.cups TO @role`, code: "guard_fences_writer", found: "public.cups"},
		"AWriterThatIsObserved":   {sql: `GRANT UPDATE ON shop.inventory TO @role`, observe: true, code: "guard_observes_writer", found: "gateway protect shop.inventory --apply"},
		"ATriggerThatIsOff":       {sql: `GRANT UPDATE ON shop.inventory TO @role; ALTER TABLE shop.inventory DISABLE TRIGGER fencegate_guard`, code: "guard_off", also: "role_writes_past_gateway", found: "fencegate_guard of shop.inventory is disabled"},
		"ATriggerThatIsMissing":   {sql: `DROP TRIGGER fencegate_guard_truncate ON shop.orders`, code: "guard_off", found: "shop.orders has no trigger fencegate_guard_truncate"},
		"OneThatReplicationSkips": {sql: `ALTER TABLE shop.orders ENABLE TRIGGER fencegate_guard`, code: "guard_not_always", found: "ENABLE ALWAYS"},
		"AnotherTemplate":         {sql: `UPDATE fencegate.guards SET lock_template = 'sku:{sku}' WHERE lock_template LIKE 'inv%'`, code: "guard_differs", found: `it asks for the lock "sku:{sku}", the configuration for "inventory:{sku}"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.guard(t, "inventory", "inventory:{sku}", c.observe)
			i.guard(t, "orders", "order:{order_no}", false)
			i.guard(t, "order_lines", "order:{order_no}", false)
			i.exec(t, c.sql)
			r := doctor.Examine(t.Context(), i.patient(t, ""))
			wantFault(t, i, r, fault{code: c.code, also: c.also, found: c.found})
			for _, f := range r.Findings {
				if f.Code == "triggers" && strings.Contains(f.Found, "fencegate") {
					t.Errorf("a guard is taken for a trigger that writes: %v", f)
				}
			}
		})
	}
}
