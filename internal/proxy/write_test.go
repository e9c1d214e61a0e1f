package proxy_test

import (
	"net/http"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})

	t.Run("TheHolderWrites", func(t *testing.T) {
		l := g.Acquire(t, "inventory:SKU-1", 60000)
		answer := g.Patch(t, l, "inventory?sku=eq.SKU-1", `{"available":7}`)
		if answer.Status != http.StatusNoContent {
			t.Fatalf("%d %s", answer.Status, answer.Body)
		}
	})
}
