package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

const sizesSQL = `
CREATE TABLE shop.sizes (id text DEFAULT 'K', num numeric, a integer, b integer DEFAULT 7, note text, doc jsonb);
CREATE TABLE shop.days (id text DEFAULT 'K', day integer, note text, PRIMARY KEY (id, day));
CREATE TABLE shop.wide (id text, n integer, note text);
INSERT INTO shop.wide VALUES ('K', 0, repeat('x', 1000000));
CREATE TABLE shop.shapes (id text DEFAULT 'K', c0 integer, c1 integer, c2 integer, c3 integer, c4 integer, c5 integer, c6 integer, c7 integer, c8 integer);
`

const sizesTables = `tables:
  - {name: shop.sizes, lock: "k:{id}"}
  - {name: shop.days, lock: "k:{id}"}
  - {name: shop.wide, lock: "k:{id}"}
  - {name: shop.shapes, lock: "k:{id}"}
`

// scale weighs what requests cost.
type scale struct {
	*testenv.Gateway
	lease   testenv.Lease
	timeout time.Duration
	largest int // request and answer so far, in bytes
}

const (
	// A body is there as it came, once more as the one parameter of its rows, and
	// once more in the message to PostgreSQL, whose buffer grows by copying; an
	// answer in its pieces and as a whole. Garbage may be as much again.
	timesItsSize = 12
	atRest       = 64 << 20
	// The race detector keeps four times as much beside everything, and takes
	// its time.
	underRaceDetector = 5
)

// send sends q as any client would, without holding it against the contract,
// which takes longer than the request itself. The answer must come in time, and
// cost no more memory than its size explains.
func (s *scale) send(t *testing.T, q testenv.Request) testenv.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), q.Method, s.URL+q.Path, strings.NewReader(q.Body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = q.Header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("Content-Type", "application/json")
	s.ForgetPeak(t)
	began := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%d, and then %v", resp.StatusCode, err)
	}
	took := time.Since(began)
	s.largest = max(s.largest, len(q.Body)+len(body))
	longest, most := s.timeout, int64(atRest+timesItsSize*s.largest)
	if s.Races(t) {
		longest, most = longest*underRaceDetector, most*underRaceDetector
	}
	if took > longest {
		t.Errorf("the answer took %s", took)
	}
	if peak := s.PeakMemory(t); peak > most {
		t.Errorf("the gateway had %d MiB, more than %d", peak>>20, most>>20)
	}
	return testenv.Response{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}
}

func (s *scale) post(path, body string, header ...string) testenv.Request {
	return testenv.Request{Method: http.MethodPost, Path: "/rest/" + path, Header: with(s.lease, header...), Body: body}
}

func (s *scale) transact(operations ...string) testenv.Request {
	return run(transaction([]testenv.Lease{s.lease}, strings.Join(operations, ",")))
}

func (s *scale) succeeds(t *testing.T, q testenv.Request) testenv.Response {
	t.Helper()
	answer := s.send(t, q)
	if answer.Status >= 300 {
		t.Fatalf("%d %.500s", answer.Status, answer.Body)
	}
	return answer
}

func (s *scale) refuses(t *testing.T, q testenv.Request, want want) testenv.Response {
	t.Helper()
	answer := s.send(t, q)
	mustRefuse(t, answer, want)
	if len(answer.Body) > 20_000 {
		t.Errorf("the problem has %d bytes", len(answer.Body))
	}
	return answer
}

// list is n texts made by format, separated by commas.
func list(n int, format string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func array(n int, format string) string { return "[" + list(n, format) + "]" }

// uneven is an array of n rows of which each has other members than the one
// before.
func uneven(n int, note string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString([]string{`,{"a":%d,"note":"` + note + `"}`, `,{"a":%d,"note":"` + note + `","b":1}`}[i%2])
	}
	rows := fmt.Sprintf(strings.TrimPrefix(b.String(), ","), numbers(n)...)
	return "[" + rows + "]"
}

func numbers(n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func repeated(n int, text string) []string {
	return strings.Split(strings.Repeat(text+"\n", n-1)+text, "\n")
}

func startSizes(t *testing.T, limits string, timeout time.Duration) *scale {
	t.Helper()
	g := startOn(t, sizesSQL, sizesTables, limits)
	return &scale{Gateway: g, lease: g.Acquire(t, "k:K", 300_000), timeout: timeout}
}
