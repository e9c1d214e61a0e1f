package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/fencegate/fencegate/internal/auth"
)

const (
	// bodyBase is what a request with a body counts for beside its bytes: its headers,
	// its goroutine, and its part in the buffers of its connection.
	bodyBase = 16 << 10
	// firstBuffer is what a body is read into at first.
	firstBuffer = 4 << 10
	// bodyShare is what each request in flight may bring, on the average.
	bodyShare = 256 << 10
)

// mostOfBodies is what the bodies that are read and served may take together, in
// bytes. What comes on top is turned away, and sent again later.
func (l Limits) mostOfBodies() int64 {
	return max(4*(l.BodyBytes+bodyBase), int64(l.InFlight)*bodyShare)
}

// gathered is a body that has been read.
type gathered struct {
	*bytes.Reader
	all []byte
	err error // why all is not the whole
}

func gatheredOf(raw []byte, err error) *gathered {
	return &gathered{Reader: bytes.NewReader(raw), all: raw, err: err}
}

// whole returns the body, however often it is asked for.
func (g *gathered) whole() ([]byte, error) { return g.all, g.err }

func (g *gathered) Close() error { return nil }

// gather reads the whole body, as long as there is room for it. The room is nil if
// there is no body.
func (s *Server) gather(w http.ResponseWriter, r *http.Request) (*gathered, *room) {
	if r.Body == nil || r.Body == http.NoBody {
		return gatheredOf(nil, nil), nil
	}
	most, growth := s.Limits.BodyBytes, int64(2)
	if r.ContentLength >= 0 {
		most, growth = min(most, r.ContentLength), 8 // the fewer buffers on the way, the less to throw away
	}
	room := &room{busy: s.busy, of: principal(r), most: s.mostOf(principal(r), sending), mostOfAll: s.Limits.mostOfBodies()}
	raw, err := room.read(http.MaxBytesReader(w, r.Body, s.Limits.BodyBytes), most, growth)
	return gatheredOf(raw, err), room
}

// room is the memory that one request's body takes, which counts towards its
// principal's and towards everybody's.
type room struct {
	busy            *busy
	of              auth.Principal
	taken           int64
	most, mostOfAll int64
}

var (
	errBodiesShare = &fault{status: http.StatusTooManyRequests, slug: "too_many_in_flight", retryAfter: time.Second,
		detail: "the bodies of your requests take as much memory as they may; the rest is for others"}
	errTooManyBodies = unavailable("overloaded", "the bodies of the requests in flight take as much memory as they may", time.Second)
)

// more takes n bytes more. Errors: errBodiesShare, errTooManyBodies.
func (m *room) more(n int64) error {
	if !m.busy.shares.enter(m.of, sending, n, m.most) {
		return errBodiesShare
	}
	if !m.busy.bodies.take(n, m.mostOfAll) {
		m.busy.shares.leave(m.of, sending, n)
		return errTooManyBodies
	}
	m.taken += n
	return nil
}

// leave gives everything back; a nil room has nothing.
func (m *room) leave() {
	if m == nil || m.taken == 0 {
		return
	}
	m.busy.shares.leave(m.of, sending, m.taken)
	m.busy.bodies.leave(m.taken)
	m.taken = 0
}

// read reads all of body, which has at most so many bytes. It takes room for what has
// come, times growth at most, and not for what was announced.
func (m *room) read(body io.Reader, most, growth int64) ([]byte, error) {
	whole := most + 1 // with a place to find its end in
	all := make([]byte, 0, min(whole, firstBuffer))
	if err := m.more(bodyBase + int64(cap(all))); err != nil {
		return nil, err
	}
	for {
		n, err := body.Read(all[len(all):cap(all)])
		switch all = all[:len(all)+n]; {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return all, err
		case len(all) == cap(all):
			larger := max(min(growth*int64(len(all)), whole), int64(len(all))+1)
			if err := m.more(larger - int64(len(all))); err != nil {
				return nil, err
			}
			all = append(make([]byte, 0, larger), all...)
		}
	}
}
