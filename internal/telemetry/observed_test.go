package telemetry_test

import (
	"net/http"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestWhatIsObservedIsCounted(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Tables: `tables:
  - {name: shop.inventory, lock: "inventory:{sku}", mode: observe}
`})
	patch := func(prefer string) {
		t.Helper()
		q := testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1", Header: http.Header{"Prefer": {prefer}}, Body: `{"available":1}`}
		if answer := g.Do(t, q); answer.Status != http.StatusNoContent {
			t.Fatalf("%d %s", answer.Status, answer.Body)
		}
	}
	patch("return=minimal")
	patch("tx=rollback")
	g.Database.Exec(t, `ALTER TABLE fencegate.refusals ADD CONSTRAINT no_more CHECK (false) NOT VALID`)
	patch("return=minimal")
	text, _ := scrape(t, g, "")
	all := families(t, text)
	for _, want := range []struct {
		value  float64
		name   string
		labels []string
	}{
		{2, "observations_total", []string{"code", "fencing_required", "operation", "update", "table", "shop.inventory"}},
		{1, "refusal_record_failures_total", nil},
		{0, "refusals_total", nil},
		{3, "writes_total", []string{"outcome", "ok"}},
	} {
		if got := sample(all, want.name, want.labels...); got != want.value {
			t.Errorf("%s %q is %v, not %v", want.name, want.labels, got, want.value)
		}
	}
}
