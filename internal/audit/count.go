package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Count is how many records of one code fall into one step of time.
type Count struct {
	Code  string
	Began time.Time // the step
	N     int64
}

// Count counts the records that f picks by code and step, a number of whole
// seconds. Only the newest most of them are looked at, so that a flood of refusals
// costs no more than that; then all counts together are most.
func (r *Reader) Count(ctx context.Context, f Filter, step time.Duration, most int) ([]Count, error) {
	where, args := f.where()
	n := len(args)
	query := fmt.Sprintf(`
		SELECT code, floor(extract(epoch FROM occurred_at) / $%d)::bigint, count(*)
		  FROM (SELECT code, occurred_at
		          FROM fencegate.refusals%s
		         ORDER BY occurred_at DESC, id DESC
		         LIMIT $%d) AS newest
		 GROUP BY 1, 2
		 ORDER BY 1, 2`, n+1, where, n+2)
	rows, _ := r.db.Query(ctx, query, append(args, int64(step/time.Second), most)...)
	counts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Count, err error) {
		var number int64
		err = row.Scan(&c.Code, &number, &c.N)
		c.Began = time.Unix(number*int64(step/time.Second), 0)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("counting refusals: %w", err)
	}
	return counts, nil
}
