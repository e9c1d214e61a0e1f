package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// reportRecords bounds the records that one report counts, the newest.
const reportRecords = 100_000

// reportGroups bounds the groups that it tells, those with the most records.
const reportGroups = 200

// Report is what would have been refused if all tables were enforced.
type Report struct {
	Since, Until time.Time // of the records that are counted
	Records      int64
	// Cut says that there may be older ones since the time that was asked for, which
	// are not counted: Since is the oldest one's that is.
	Cut    bool
	Tables []Observed // by their last record, the newest first
	Groups []Group    // by their number, the largest first
	More   int64      // groups beyond those
}

// Observed is what was observed of one table, statement or function, or of several
// that one transaction wrote to.
type Observed struct {
	Table       string
	Records     int64
	Keys        int64 // how many lock keys these named
	First, Last time.Time
}

// Group is writes that would have been refused alike: one code, table and worker.
type Group struct {
	Table, Code string
	Principal   string
	Client      string // who was granted the presented token; "" if nobody, with a group for each Remote
	Remote      string // where the last of them came from
	Holder      string // the digest of the holder of the last of them, "" if it named none
	Records     int64
	First, Last time.Time
	Example     int64 // the id of the last of them
}

// Report counts what was admitted since a time.
func (r *Reader) Report(ctx context.Context, since time.Time) (Report, error) {
	const query = `
		WITH newest AS MATERIALIZED (
		  SELECT id, occurred_at, coalesce(table_name, '') AS table_name, code, lock_key, principal, client, remote_address, holder_digest,
		         CASE WHEN client IS NULL THEN remote_address END AS stranger
		    FROM fencegate.refusals
		   WHERE disposition = 'admitted'
		     AND occurred_at >= $1
		   ORDER BY occurred_at DESC, id DESC
		   LIMIT $2)
		SELECT GROUPING(code) = 1, table_name, coalesce(code, ''), coalesce(principal, ''), coalesce(client, ''),
		       (array_agg(remote_address ORDER BY occurred_at DESC, id DESC))[1],
		       (array_agg(holder_digest ORDER BY occurred_at DESC, id DESC))[1],
		       count(*), count(DISTINCT nullif(lock_key, '')),
		       (extract(epoch FROM min(occurred_at)) * 1000000)::bigint,
		       (extract(epoch FROM max(occurred_at)) * 1000000)::bigint,
		       (array_agg(id ORDER BY occurred_at DESC, id DESC))[1]
		  FROM newest
		 GROUP BY GROUPING SETS ((table_name), (table_name, code, principal, client, stranger))
		 ORDER BY 1 DESC, CASE WHEN GROUPING(code) = 1 THEN max(occurred_at) END DESC, count(*) DESC, max(occurred_at) DESC`
	report := Report{Since: since, Until: time.Now()}
	rows, _ := r.db.Query(ctx, query, since, reportRecords)
	var whole bool
	var g Group
	var keys, first, last int64
	_, err := pgx.ForEachRow(rows, []any{&whole, &g.Table, &g.Code, &g.Principal, &g.Client, &g.Remote, &g.Holder, &g.Records, &keys, &first, &last, &g.Example},
		func() error {
			g.First, g.Last = time.UnixMicro(first), time.UnixMicro(last)
			report.add(g, whole, keys)
			return nil
		})
	if err != nil {
		return report, fmt.Errorf("counting what was admitted: %w", err)
	}
	report.cut()
	return report, nil
}

// add takes one row in: of a whole table, or of a group.
func (r *Report) add(g Group, whole bool, keys int64) {
	switch {
	case whole:
		r.Records += g.Records
		r.Tables = append(r.Tables, Observed{Table: g.Table, Records: g.Records, Keys: keys, First: g.First, Last: g.Last})
	case len(r.Groups) < reportGroups:
		r.Groups = append(r.Groups, g)
	default:
		r.More++
	}
}

// cut finds out whether there may be more than was counted.
func (r *Report) cut() {
	if r.Cut = r.Records >= reportRecords; !r.Cut {
		return
	}
	r.Since = r.Until
	for _, t := range r.Tables {
		if t.First.Before(r.Since) {
			r.Since = t.First
		}
	}
}
