package chaos_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestAGroupOfRecordsWhoseConfirmationIsLostIsNotRecordedTwice(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	wire := testenv.NewWire(t, db.URL)
	pool, err := pgxpool.New(t.Context(), wire.URL())
	must(t, err)
	t.Cleanup(pool.Close)
	for _, err := range recordTogether(t, pool, 1) { // the statement is prepared, the connection open
		must(t, err)
	}
	wire.Reset()
	wire.OnReply(1, func() bool { wire.Cut(); return false })
	for _, err := range recordTogether(t, pool, 3) {
		if err == nil {
			t.Error("a record was confirmed whose confirmation was lost")
		}
	}
	const query = `SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM fencegate.refusals GROUP BY request_id) AS g`
	if n := one[int](t, db.Pool(t), query); n != 1 {
		t.Errorf("one refusal has %d records", n)
	}
}

func TestOneRecordThatCantBeWrittenCostsTheOthersNothing(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	db.Exec(t, `ALTER TABLE fencegate.refusals ADD CHECK (request_id <> 'of 3, number 1')`)
	for n, err := range recordTogether(t, db.Pool(t), 3) {
		if (err != nil) != (n == 1) {
			t.Errorf("record %d: %v", n, err)
		}
	}
	if n := one[int](t, db.Pool(t), `SELECT count(*) FROM fencegate.refusals`); n != 2 {
		t.Errorf("%d records", n)
	}
}

// recordTogether records n refusals in one group and returns their errors.
func recordTogether(t *testing.T, pool *pgxpool.Pool, n int) []error {
	t.Helper()
	writer := audit.NewWriter(pool, "test", 24*time.Hour)
	errs := make([]error, n)
	done := make(chan struct{})
	for i := range n {
		ctx := &watched{Context: t.Context(), queued: make(chan struct{})}
		go func() {
			defer func() { done <- struct{}{} }()
			_, errs[i] = writer.Record(ctx, audit.Record{
				Code: "stale_token", Disposition: audit.Refused, Operation: "update",
				Claim:  lease.Claim{Key: "k", Holder: "h", Token: 1},
				Origin: audit.Origin{Principal: "p", RequestID: fmt.Sprintf("of %d, number %d", n, i), RemoteAddress: "r"},
			})
		}()
		<-ctx.queued
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- writer.Run(ctx) }()
	for range n {
		<-done
	}
	stop()
	must(t, <-ended)
	return errs
}

// watched says when its owner waits on it for the second time: a record is in
// the queue by then.
type watched struct {
	context.Context
	asked  atomic.Int32
	queued chan struct{}
}

func (w *watched) Done() <-chan struct{} {
	if w.asked.Add(1) == 2 {
		close(w.queued)
	}
	return w.Context.Done()
}
