package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// request is one call of the gateway. Its body is made once, so that sending it
// again sends the same.
type request struct {
	method string
	path   string // below the gateway's URL
	query  url.Values
	header http.Header
	body   []byte // JSON; nil: none
	once   string // Idempotency-Key; "": none
	writes bool   // an answer that is lost leaves a write in doubt
	// read takes over a success; its error means that it is not the gateway's.
	read func(answer) error
}

// answer is a success whose body has been read.
type answer struct {
	header http.Header
	body   []byte
}

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 64 << 20

// maxProblem bounds what is read of an answer that is none of a success.
const maxProblem = 1 << 20

// send sends one request, once, and waits no longer than limit. Every error is
// an *Error, or says that nothing was sent.
func (c *Client) send(ctx context.Context, by http.RoundTripper, q request, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := c.build(ctx, q)
	if err != nil {
		return err
	}
	// The gateway never redirects: whoever does is not the gateway.
	client := http.Client{Transport: by, CheckRedirect: stay}
	resp, err := client.Do(req)
	if err != nil {
		return unanswered(q, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return problem(q, resp)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return unanswered(q, err)
	}
	if len(body) > maxAnswer {
		return unreadable(q, resp, fmt.Errorf("it has more than %d bytes", maxAnswer))
	}
	if err := q.read(answer{resp.Header, body}); err != nil {
		return unreadable(q, resp, err)
	}
	return nil
}

func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func (c *Client) build(ctx context.Context, q request) (*http.Request, error) {
	target := c.base.JoinPath(q.path)
	target.RawQuery = q.query.Encode()
	req, err := http.NewRequestWithContext(ctx, q.method, target.String(), bytes.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	for name, values := range q.header {
		req.Header[name] = values
	}
	if q.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if q.once != "" {
		req.Header.Set("Idempotency-Key", q.once)
	}
	return req, nil
}

// unanswered is the error of a request that got no answer.
func unanswered(q request, err error) error {
	if local := (*localRefusal)(nil); errors.As(err, &local) {
		return local
	}
	e := &Error{Code: "no_answer", Retryable: true, IdempotencyKey: q.once, cause: err}
	if !q.writes {
		return e
	}
	e.Outcome = OutcomeUnknown
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
		e.Outcome = OutcomeNotApplied
	}
	return e
}

// unreadable is the error of a request that was answered with a success which
// can't be the gateway's, such as a proxy's page for logging in, or is too long.
// What was done is not known then.
func unreadable(q request, resp *http.Response, err error) error {
	e := &Error{
		Status: resp.StatusCode, Code: "unreadable_answer", Detail: fmt.Sprintf("the answer to %s %s can't be read: %v", q.method, q.path, err),
		RequestID: resp.Header.Get("Request-Id"), Retryable: !q.writes, IdempotencyKey: q.once, cause: err,
	}
	if q.writes {
		e.Outcome = OutcomeUnknown
	}
	return e
}

// problem reads an answer that is no success. What is no problem+json is
// somebody else's, such as a load balancer's, and decided by its status.
func problem(q request, resp *http.Response) error {
	e := &Error{
		Status: resp.StatusCode, Code: "http_" + strconv.Itoa(resp.StatusCode), Detail: http.StatusText(resp.StatusCode),
		Refused: resp.Header.Get("Fencing-Refused"), RequestID: resp.Header.Get("Request-Id"),
		RetryAfter: retryAfter(resp.Header.Get("Retry-After"), time.Now()), IdempotencyKey: q.once,
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	told := e.fill(body) && err == nil
	switch {
	case !q.writes:
		e.Outcome = ""
	case !told && resp.StatusCode >= 500:
		e.Outcome = OutcomeUnknown
	}
	return e
}

// foreign reports whether the answer was not the gateway's: it says nothing about
// what became of an earlier attempt.
func (e *Error) foreign() bool { return strings.HasPrefix(e.Code, "http_") }

// fill takes over what a problem+json says, and returns whether it was one.
func (e *Error) fill(body []byte) bool {
	var p struct {
		Code, Detail, Outcome string
		Retryable             bool
		AuditID               string `json:"audit_id"`
		LockKey               string `json:"lock_key"`
		PresentedToken        string `json:"presented_token"`
		HighWaterToken        string `json:"high_water_token"`
		Operation             *int
		Refusals              []refusedLock
	}
	if json.Unmarshal(body, &p) != nil || p.Code == "" {
		return false
	}
	e.Code, e.Detail, e.Outcome, e.Retryable, e.AuditID = p.Code, p.Detail, p.Outcome, p.Retryable, p.AuditID
	e.LockKey, e.PresentedToken, e.HighWaterToken = p.LockKey, p.PresentedToken, p.HighWaterToken
	e.Operation, e.refused = p.Operation, p.Refusals
	return true
}

// retryAfter reads the header of that name, seconds or a date.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil {
		return max(0, min(time.Duration(seconds), 24*3600)*time.Second)
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(0, date.Sub(now))
	}
	return 0
}

// newOnce returns an Idempotency-Key that nobody else has.
func newOnce() string { return "go-" + rand.Text() }
