package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Result is what a write did.
type Result struct {
	Rows     json.RawMessage // the rows as they are now, a JSON array
	Affected int64
	Replayed bool // answered from an earlier attempt under the same Idempotency-Key
	// Observed is what the write would have been refused for, such as stale_token, where
	// a table is in observe mode: it was applied, and the lease may be lost all the same.
	// Of a transaction each Result has it. "": it was within its lock.
	Observed string
}

// Insert inserts one row (what marshals to a JSON object) or several (to an
// array), and returns them. query may be nil; it holds the grammar's parameters,
// such as select and columns.
//
// Like Update, Upsert and Delete it carries an Idempotency-Key, and is sent again
// under it while no answer comes, for as long as Config.Patience, the lease and
// ctx allow. Errors: ErrLost and ErrReleased (nothing was sent, or ErrStale: the
// fence refused it), ErrConflict, ErrRefused, ErrUnavailable, and
// ErrOutcomeUnknown if it may have been applied.
func (l *Lease) Insert(ctx context.Context, table string, query url.Values, rows any) (Result, error) {
	return l.write(ctx, http.MethodPost, table, query, rows, "")
}

// Update sets the members of set in the rows that query matches, and returns
// these. query holds filters, {"sku": {"eq.SKU-1"}}, which must pin every column
// of the table's lock template.
func (l *Lease) Update(ctx context.Context, table string, query url.Values, set any) (Result, error) {
	return l.write(ctx, http.MethodPatch, table, query, set, "")
}

// Upsert inserts rows, or merges them into those that are there by the primary
// key, or by the unique key that on_conflict names in query; query may be nil.
func (l *Lease) Upsert(ctx context.Context, table string, query url.Values, rows any) (Result, error) {
	return l.write(ctx, http.MethodPost, table, query, rows, "resolution=merge-duplicates")
}

// Delete deletes the rows that query matches, as Update does, and returns them.
func (l *Lease) Delete(ctx context.Context, table string, query url.Values) (Result, error) {
	return l.write(ctx, http.MethodDelete, table, query, nil, "")
}

func (l *Lease) write(ctx context.Context, method, table string, query url.Values, body any, prefer string) (Result, error) {
	if table == "" || strings.ContainsAny(table, "/?#%") {
		return Result{}, fmt.Errorf("%q is no table", table)
	}
	q := request{method: method, path: "rest/" + table, query: query, once: onceOf(ctx), writes: true, header: http.Header{
		"Prefer": {strings.TrimSuffix("return=representation, count=exact, "+prefer, ", ")},
	}}
	if method != http.MethodDelete {
		raw, err := json.Marshal(body)
		if err != nil {
			return Result{}, err
		}
		q.body = raw
	}
	var done Result
	q.read = func(a answer) (err error) {
		done, err = a.result()
		return err
	}
	if err := l.client.persist(ctx, allOf{[]*Lease{l}, &Transport{Lease: l}}, q); err != nil {
		return Result{}, err
	}
	return done, nil
}

// result reads the answer to a write, which always is asked for rows and count.
func (a answer) result() (Result, error) {
	_, total, _ := strings.Cut(a.header.Get("Content-Range"), "/")
	affected, err := strconv.ParseInt(total, 10, 64)
	if err != nil {
		return Result{}, fmt.Errorf("it tells no count: Content-Range is %q", a.header.Get("Content-Range"))
	}
	if !json.Valid(a.body) || !bytes.HasPrefix(bytes.TrimSpace(a.body), []byte{'['}) {
		return Result{}, errors.New("it has no rows")
	}
	return Result{Rows: a.body, Affected: affected, Replayed: a.replayed(), Observed: a.observed()}, nil
}

func (a answer) observed() string { return a.header.Get("Fencing-Observed") }

func (a answer) replayed() bool { return a.header.Get("Idempotency-Replayed") == "true" }

// Once returns a context for one write, which carries the given Idempotency-Key in
// place of a new one: to find out what came of a write that is ErrOutcomeUnknown,
// by sending it again, or for a job that may be started twice. key is 1 to 255
// visible ASCII characters.
func Once(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, onceKey{}, key)
}

type onceKey struct{}

func onceOf(ctx context.Context) string {
	if key, ok := ctx.Value(onceKey{}).(string); ok {
		return key
	}
	return newOnce()
}

// persist sends a write until it is answered for good: sent again under its
// Idempotency-Key it is applied once. Patience, ctx and the leases end it.
func (c *Client) persist(ctx context.Context, by allOf, q request) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	began, doubt := time.Now(), false
	left := func() time.Duration { return min(by.left(), c.patience-time.Since(began)) }
	for n := 1; ; n++ {
		err := c.send(ctx, by, q, min(c.timeout, max(minAttempt, left())))
		if err == nil {
			return nil
		}
		told, ok := err.(*Error)
		if ok && !told.comeAgain() && told.foreign() {
			return by.blame(q, doubt, err)
		}
		if ok && !told.comeAgain() {
			return err
		}
		doubt = doubt || ok && told.Outcome == OutcomeUnknown
		if !ok || left() <= minAttempt || sleep(ctx, backoff(n, told.RetryAfter, left(), rand.Float64())) != nil {
			return by.blame(q, doubt, err)
		}
	}
}

// blame says of a write that was given up what is to be known: that it may have
// been applied by one of its attempts, and that a lease was lost meanwhile.
func (t allOf) blame(q request, doubt bool, err error) error {
	if doubt && !errors.Is(err, ErrOutcomeUnknown) {
		err = &Error{Code: "no_answer", Outcome: OutcomeUnknown, IdempotencyKey: q.once, cause: err}
	}
	if lost := t.err(); isLost(lost) && !isLost(err) {
		err = fmt.Errorf("%w; %w", lost, err)
	}
	return err
}
