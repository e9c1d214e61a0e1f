package gate

import (
	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/fence"
)

// begin queues what a transaction begins with on a connection of a pooler: its
// settings, and meet, which finds out which database it has met. replan lets the
// session, which is not new, make its plans anew.
func (g *Gate) begin(batch *pgx.Batch, replan bool, meet string) {
	if g.Pooled == nil {
		return
	}
	g.Pooled.Begin(batch, meet)
	if replan {
		batch.Queue(`DISCARD PLANS`)
	}
}

// begun reads the answers to begin.
func (g *Gate) begun(results pgx.BatchResults, replan bool) error {
	if g.Pooled == nil {
		return nil
	}
	_, err := results.Exec()
	if err == nil && replan {
		_, err = results.Exec()
	}
	return fence.Classify(nil, err)
}
