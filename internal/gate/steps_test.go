package gate

import (
	"context"
	"testing"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/statement"
)

func TestStepsThatNobodyIsToldOfCostNothing(t *testing.T) {
	g := &Gate{}
	checks := []Check{{Verdict: Live}}
	w := Write{Mutations: []statement.Mutation{{Op: catalog.Update, Table: &catalog.Table{Spec: catalog.Spec{Schema: "shop", Name: "inventory"}}}}}
	allocations := testing.AllocsPerRun(1000, func() {
		ctx, end := g.enter(context.Background(), Step{Kind: Checking})
		end(checkedAs(checks, nil))
		_, end = g.enter(ctx, Step{Kind: Queueing})
		end(outcomeOf(nil))
		g.sending(ctx, w)
	})
	if allocations != 0 {
		t.Errorf("a write that is not traced costs %v allocations", allocations)
	}
}
