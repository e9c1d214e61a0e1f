package doctor

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/config"
)

// guarded is which tables have a guard that fires, by what it does.
type guarded struct {
	enforced, observed []uint32
	weakest            string // of all configured tables: "" if one has none
}

func (v *visit) loadGuards(ctx context.Context, tx pgx.Tx) (guarded, error) {
	all, err := catalog.LoadGuards(ctx, tx)
	g := guarded{enforced: []uint32{}, observed: []uint32{}, weakest: config.ModeEnforce}
	for _, guard := range all {
		for _, t := range guard.Tables {
			switch {
			case !t.Fires():
			case guard.Observe:
				g.observed = append(g.observed, t.OID)
			default:
				g.enforced = append(g.enforced, t.OID)
			}
		}
	}
	for _, spec := range v.Specs.Tables {
		at := slices.IndexFunc(all, func(guard catalog.Guard) bool { return guard.Schema == spec.Schema && guard.Name == spec.Name })
		switch {
		case at < 0 || len(all[at].Faults()) > 0:
			g.weakest = ""
		case all[at].Observe && g.weakest != "":
			g.weakest = config.ModeObserve
		}
	}
	return g, err
}

func (v *visit) checkGuards(ctx context.Context, tx pgx.Tx) error {
	all, err := catalog.LoadGuards(ctx, tx)
	for _, g := range all {
		again := "gateway protect " + g.QualifiedName() + " --apply"
		if g.Observe {
			again = "gateway protect " + g.QualifiedName() + " --observe --apply"
		}
		for _, fault := range g.Faults() {
			v.find("guard_off", g.QualifiedName(), fault, again)
		}
		if names := g.NotAlways(); names != "" {
			v.find("guard_not_always", g.QualifiedName(), "its triggers on "+names+" are not ENABLE ALWAYS", again)
		}
		if difference := g.Differs(v.Specs.Tables); difference != "" {
			v.find("guard_differs", g.QualifiedName(), difference, again+"\nor gateway protect "+g.QualifiedName()+" --remove --apply, if it is not to be guarded any more")
		}
	}
	return err
}
