package proxy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fencegate/fencegate/internal/api"
	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/identity"
)

const (
	maxStreams = 32
	heartbeat  = 10 * time.Second
)

// theEnd is the last event of a stream whose gateway stops, or whose caller is not
// who it was: to be asked for anew.
const theEnd = "event: stopping\ndata: {}\n\n"

var (
	errTooManyStreams = &fault{status: http.StatusServiceUnavailable, slug: "overloaded", detail: "too many callers follow the refusals", retryAfter: 5 * time.Second}
	errStopping       = errors.New("the gateway stops")
)

// StreamRefusals answers GET /v1/refusals/stream.
func (s *Server) StreamRefusals(w http.ResponseWriter, r *http.Request, params api.StreamRefusalsParams) {
	filter, from, err := decodeStream(r, params)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	giveBack, ok := s.share(principal(r), streaming)
	if !ok {
		s.fail(w, r, errShareTaken)
		return
	}
	defer giveBack()
	if !s.busy.streams.take(1, maxStreams) {
		s.fail(w, r, errTooManyStreams)
		return
	}
	defer s.busy.streams.leave(1)
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	s.follow(w, r, filter, from)
}

// follow sends events until the caller is gone or the gateway stops. It gives its
// slot to others.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, filter audit.Filter, from audit.Place) {
	defer r.Context().Value(stayKey).(*stay).pause()()
	out := s.stream(w, r)
	var sent time.Time
	err := s.Gate.TailRefusals(out.whole, principal(r), filter, from, func(records []audit.Record) error {
		select {
		case <-s.Gate.Stopped():
			return cmp.Or(out.send(func() error { return write(w, theEnd) }), errStopping)
		default:
		}
		if len(records) == 0 && time.Since(sent) < heartbeat {
			return out.extend()
		}
		if !s.stillIs(r) {
			return cmp.Or(out.send(func() error { return write(w, theEnd) }), errStopping)
		}
		sent = time.Now()
		return out.send(func() error { return write(w, events(records)) })
	})
	if errors.Is(err, auth.ErrDenied) {
		s.fail(w, r, err)
		return
	}
	if out.whole.Err() == nil && !errors.Is(err, errStopping) {
		s.Log.Warn("a stream of refusals was cut off", "error", err, "request_id", requestID(r))
		panic(http.ErrAbortHandler)
	}
}

// stillIs reports whether r would come from the same principal now: keys and tokens
// end, and another configuration may know them no more. That it can't be told ends
// nothing.
func (s *Server) stillIs(r *http.Request) bool {
	now, err := s.Still(r)
	if errors.Is(err, identity.ErrUnavailable) {
		return true
	}
	was := principal(r)
	return err == nil && now.Name == was.Name && now.Admin == was.Admin
}

// events are the records as events; a comment if there are none, which also
// begins the stream: what is recorded after it is in it.
func events(records []audit.Record) string {
	if len(records) == 0 {
		return ": nothing new\n\n"
	}
	var b bytes.Buffer
	for _, record := range records {
		data, err := json.Marshal(apiRefusal(record))
		if err != nil {
			panic(err) // strings and numbers always marshal
		}
		fmt.Fprintf(&b, "id: %s\ndata: %s\n\n", cursorOf(record.Place()), data)
	}
	return b.String()
}

func write(w http.ResponseWriter, text string) error {
	_, err := w.Write([]byte(text))
	return err
}

func decodeStream(r *http.Request, params api.StreamRefusalsParams) (f audit.Filter, from audit.Place, err error) {
	if err := checkQuery(r, "disposition", "key", "code", "table", "principal"); err != nil {
		return f, from, err
	}
	f, err = refusalFilter(api.ListRefusalsParams{Disposition: params.Disposition, Key: params.Key, Code: params.Code, Table: params.Table, Principal: params.Principal})
	if err == nil && params.LastEventID != nil {
		from, err = parsePlace("Last-Event-ID", *params.LastEventID)
	}
	return f, from, err
}
