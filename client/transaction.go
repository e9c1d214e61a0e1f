package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Operation is one of a transaction's. Which members an operation takes, and
// what they mean, stands in openapi.yaml under the same names.
type Operation struct {
	Op         string         `json:"op"` // insert, upsert, update, delete, call
	Table      string         `json:"table,omitempty"`
	Name       string         `json:"name,omitempty"` // of call
	Schema     string         `json:"schema,omitempty"`
	Where      map[string]any `json:"where,omitempty"` // column: "eq.value", or a list of such
	Set        any            `json:"set,omitempty"`
	Increment  any            `json:"increment,omitempty"`
	Rows       any            `json:"rows,omitempty"` // an array
	Params     any            `json:"params,omitempty"`
	OnConflict []string       `json:"on_conflict,omitempty"`
	Resolution string         `json:"resolution,omitempty"`
	All        bool           `json:"all,omitempty"`
	IfMatch    string         `json:"if_match,omitempty"`
	ExpectRows *int64         `json:"expect_rows,omitempty"` // nil: any number
	MaxRows    *int64         `json:"max_rows,omitempty"`    // nil: any number
	Returning  []string       `json:"returning,omitempty"`
}

// Transaction commits all operations under the given leases, or none of them,
// and returns a Result for each. It is sent again while no answer comes, as
// Lease.Insert is, and has its errors. A refusal by the fence ends the trust in
// those leases that it names.
func (c *Client) Transaction(ctx context.Context, operations []Operation, leases ...*Lease) ([]Result, error) {
	if len(leases) == 0 {
		return nil, errors.New("a transaction needs at least one lease")
	}
	claims := make([]claimBody, len(leases))
	for i, l := range leases {
		claims[i] = l.claim()
	}
	body, err := json.Marshal(map[string]any{"locks": claims, "operations": operations})
	if err != nil {
		return nil, err
	}
	var done []Result
	q := request{method: http.MethodPost, path: "v1/transactions", body: body, once: onceOf(ctx), writes: true, read: func(a answer) (err error) {
		done, err = a.results(len(operations))
		return err
	}}
	if err := c.persist(ctx, allOf{leases, c.transport}, q); err != nil {
		heedAll(leases, err)
		return nil, err
	}
	return done, nil
}

// results reads the answer to a transaction of so many operations.
func (a answer) results(operations int) ([]Result, error) {
	var done struct{ Operations []Result }
	if err := json.Unmarshal(a.body, &done); err != nil {
		return nil, err
	}
	if len(done.Operations) != operations {
		return nil, fmt.Errorf("it tells of %d operations, not of %d", len(done.Operations), operations)
	}
	for i := range done.Operations {
		done.Operations[i].Replayed, done.Operations[i].Observed = a.replayed(), a.observed()
	}
	return done.Operations, nil
}

// allOf sends only while every lease can be relied upon.
type allOf struct {
	leases []*Lease
	base   http.RoundTripper
}

func (t allOf) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.err(); err != nil {
		req.Body.Close()
		return nil, &localRefusal{err}
	}
	return t.base.RoundTrip(req)
}

// err returns why one of the leases can't be relied upon.
func (t allOf) err() error {
	for _, l := range t.leases {
		if err := l.Err(); err != nil {
			return fmt.Errorf("the lock %q: %w", l.key, err)
		}
	}
	return nil
}

func (t allOf) left() time.Duration {
	left := t.leases[0].Left()
	for _, l := range t.leases[1:] {
		left = min(left, l.Left())
	}
	return left
}

// heedAll ends the trust in those leases that the fence refused.
func heedAll(leases []*Lease, err error) {
	var told *Error
	if !errors.As(err, &told) || told.Refused == "" {
		return
	}
	for _, l := range leases {
		if told.names(l) {
			l.lose(told)
		}
	}
}

func (e *Error) names(l *Lease) bool {
	return e.LockKey == l.wire || slices.ContainsFunc(e.refused, func(r refusedLock) bool { return r.LockKey == l.wire })
}
