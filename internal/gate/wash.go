package gate

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// washing takes back what code of the database's own may have left in the
// session for whoever gets it next: all that DISCARD ALL does, but for the
// prepared statements, which pgx keeps account of.
var washing = []string{
	`CLOSE ALL`, `RESET SESSION AUTHORIZATION`, `RESET ROLE`, `RESET ALL`, `UNLISTEN *`,
	`SELECT pg_catalog.pg_advisory_unlock_all()`, `DISCARD TEMP`, `DISCARD SEQUENCES`,
}

// washTime bounds washing; a connection that takes longer is given up.
const washTime = 5 * time.Second

// release gives a connection back, washed if a routine was called on it. Nobody
// waits for that.
func (g *Gate) release(conn *pgxpool.Conn, called bool) {
	if !called || g.Pooled != nil || conn.Conn().IsClosed() {
		conn.Release()
		return
	}
	go func() {
		defer conn.Release()
		ctx, cancel := context.WithTimeout(context.Background(), washTime)
		defer cancel()
		if _, err := conn.Conn().PgConn().Exec(ctx, strings.Join(washing, ";")).ReadAll(); err != nil {
			conn.Conn().Close(ctx)
		}
	}()
}

// wash queues washing at the end of a transaction that called a routine, where a
// pooler gives its session to somebody else afterwards. What COMMIT still runs
// has the timeouts again that RESET takes away.
func (g *Gate) wash(batch *pgx.Batch, called bool) {
	if !called || g.Pooled == nil {
		return
	}
	for _, sql := range washing {
		batch.Queue(sql)
	}
	g.Pooled.Begin(batch)
}
