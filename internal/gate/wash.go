package gate

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// washing takes back what code of the database's own may have left in the
// session for whoever gets it next: all that DISCARD ALL does, but for the
// prepared statements, which pgx keeps account of.
const washing = `CLOSE ALL; RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; UNLISTEN *;
	SELECT pg_catalog.pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES`

// washTime bounds washing; a connection that takes longer is given up.
const washTime = 5 * time.Second

// release gives a connection back, washed if a routine was called on it. Nobody
// waits for that.
func release(conn *pgxpool.Conn, called bool) {
	if !called || conn.Conn().IsClosed() {
		conn.Release()
		return
	}
	go func() {
		defer conn.Release()
		ctx, cancel := context.WithTimeout(context.Background(), washTime)
		defer cancel()
		if _, err := conn.Conn().PgConn().Exec(ctx, washing).ReadAll(); err != nil {
			conn.Conn().Close(ctx)
		}
	}()
}
