package testenv

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/fencegate/fencegate"
)

// Request is one request to a gateway. The zero Method is GET.
type Request struct {
	Method string
	Path   string // with query
	Header http.Header
	Body   string // of POST and PATCH: application/json unless Header says otherwise
	// Broken marks a request that is outside the contract on purpose: only the
	// answer is held against it.
	Broken bool
}

// Response is an answer whose body has been read.
type Response struct {
	Status int
	Header http.Header
	Body   string
}

// JSON decodes the body into into.
func (r Response) JSON(t testing.TB, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.Body), into); err != nil {
		t.Fatalf("decoding %q: %v", r.Body, err)
	}
}

// Problem is an answer of type application/problem+json.
type Problem struct {
	Type, Title, Detail, Code, Outcome, Message, Parameter, Pointer, Column, Constraint string
	Status                                                                              int
	Retryable                                                                           bool
	RequestID                                                                           string `json:"request_id"`
	LockKey                                                                             string `json:"lock_key"`
	PresentedToken                                                                      string `json:"presented_token"`
	HighWaterToken                                                                      string `json:"high_water_token"`
	AuditID                                                                             string `json:"audit_id"`
	AuditFailed                                                                         bool   `json:"audit_failed"`
}

// Slug is the last part of the problem's type.
func (p Problem) Slug() string { return strings.TrimPrefix(p.Type, "urn:fencegate:problem:") }

// Problem decodes the answer, which must be a problem.
func (r Response) Problem(t testing.TB) Problem {
	t.Helper()
	if got := r.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("status %d, Content-Type %q, not a problem: %s", r.Status, got, r.Body)
	}
	var p Problem
	r.JSON(t, &p)
	return p
}

// Do sends a request and holds it, and the answer, against openapi.yaml.
func (g *Gateway) Do(t testing.TB, q Request) Response {
	t.Helper()
	answer, err := g.Try(t, t.Context(), q)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", q.Method, q.Path, err, g.Log())
	}
	return answer
}

// Try is Do for requests that may get no answer.
func (g *Gateway) Try(t testing.TB, ctx context.Context, q Request) (Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, q.Method, g.URL+q.Path, strings.NewReader(q.Body))
	if err != nil {
		t.Fatal(err)
	}
	if g.Credential != "" {
		req.Header.Set("Authorization", "Bearer "+g.Credential)
	}
	for name, values := range q.Header {
		req.Header[name] = values
	}
	if _, given := req.Header["Content-Type"]; !given && slices.Contains([]string{http.MethodPost, http.MethodPatch, http.MethodPut}, q.Method) {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return Response{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return Response{}, err
	}
	answer := Response{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}
	holdAgainstContract(t, req, q, answer)
	return answer, nil
}

var contract = sync.OnceValues(func() (routers.Router, error) {
	openapi3filter.RegisterBodyDecoder("application/x-ndjson", openapi3filter.PlainBodyDecoder)
	doc, err := openapi3.NewLoader().LoadFromData(fencegate.Contract)
	if err != nil {
		return nil, err
	}
	return gorillamux.NewRouter(doc)
})

// holdAgainstContract validates one exchange. Paths and methods that the
// contract does not have must be answered with a problem.
func holdAgainstContract(t testing.TB, req *http.Request, q Request, answer Response) {
	t.Helper()
	router := mustStart(t, contract)
	req.Body = io.NopCloser(strings.NewReader(q.Body))
	req.URL.Host, req.URL.Scheme = "", "" // the contract's server is "/"
	route, params, err := router.FindRoute(req)
	if err != nil {
		answer.Problem(t)
		return
	}
	input := &openapi3filter.RequestValidationInput{
		Request: req, PathParams: params, Route: route,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, ExcludeResponseBody: answer.Body == ""},
	}
	if err := openapi3filter.ValidateRequest(t.Context(), input); err != nil && !q.Broken {
		t.Errorf("%s %s is outside openapi.yaml: %v", q.Method, q.Path, err)
	}
	err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input,
		Status:                 answer.Status,
		Header:                 answer.Header,
		Body:                   io.NopCloser(bytes.NewBufferString(answer.Body)),
		Options:                input.Options,
	})
	if err != nil {
		t.Errorf("the answer to %s %s is outside openapi.yaml: %v\n%d %s", q.Method, q.Path, err, answer.Status, answer.Body)
	}
}

// Lease is a lease as the gateway answered it.
type Lease struct {
	Key, Holder, Token string
	TTLMS              int64 `json:"ttl_ms"`
	Headers            map[string]string
}

// Header returns the lease's headers, ready to send.
func (l Lease) Header() http.Header {
	h := http.Header{}
	for name, value := range l.Headers {
		h.Set(name, value)
	}
	return h
}

// Claim returns the body of a renewal or release.
func (l Lease) Claim() string {
	body, _ := json.Marshal(map[string]string{"key": l.Key, "holder": l.Holder, "token": l.Token})
	return string(body)
}

// Acquire takes a lock that must be free. ttlMS 0 takes the default. On a busy
// machine a short lease can run out before it is granted, which may be tried
// again.
func (g *Gateway) Acquire(t testing.TB, key string, ttlMS int) Lease {
	t.Helper()
	answer := g.TryAcquire(t, key, ttlMS)
	for range acquireTries {
		if answer.Status != http.StatusServiceUnavailable {
			break
		}
		answer = g.TryAcquire(t, key, ttlMS)
	}
	if answer.Status != http.StatusCreated {
		t.Fatalf("acquiring %s: %d %s", key, answer.Status, answer.Body)
	}
	var l Lease
	answer.JSON(t, &l)
	return l
}

const acquireTries = 10

// TryAcquire asks for a lock.
func (g *Gateway) TryAcquire(t testing.TB, key string, ttlMS int) Response {
	t.Helper()
	body := map[string]any{"key": key, "client": t.Name()}
	if ttlMS != 0 {
		body["ttl_ms"] = ttlMS
	}
	raw, _ := json.Marshal(body)
	return g.Do(t, Request{Method: http.MethodPost, Path: "/v1/leases", Body: string(raw)})
}

// Patch writes row to the rows that query names, under l.
func (g *Gateway) Patch(t testing.TB, l Lease, query, row string) Response {
	t.Helper()
	return g.Do(t, Request{Method: http.MethodPatch, Path: "/rest/" + query, Header: l.Header(), Body: row})
}

// Release gives a lease back.
func (g *Gateway) Release(t testing.TB, l Lease) {
	t.Helper()
	if answer := g.Do(t, Request{Method: http.MethodPost, Path: "/v1/leases/release", Body: l.Claim()}); answer.Status != http.StatusOK {
		t.Fatalf("releasing %q: %d %s", l.Key, answer.Status, answer.Body)
	}
}
