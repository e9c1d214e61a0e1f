package proxy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/fencegate/fencegate/internal/auth"
)

type contextKey int

const (
	visitKey contextKey = iota
	stayKey
)

var plainRequestID = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

// answerTime is for recording a refusal and writing an answer, beyond the request's
// own time.
const answerTime = 10 * time.Second

// bound gives the request's connection its deadlines, which are not the HTTP
// server's: limits can change while it serves.
func (s *Server) bound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connection, end := http.NewResponseController(w), time.Now().Add(s.Limits.Request)
		if err := errors.Join(connection.SetReadDeadline(end), connection.SetWriteDeadline(end.Add(answerTime))); err != nil {
			s.Log.Warn("a connection's deadlines can't be set, it is not bounded by limits.request_timeout", "error", err)
		}
		next.ServeHTTP(w, r)
	})
}

// rawPath makes the router split the path as it was sent, so that every
// segment is percent-decoded exactly once.
func rawPath(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.RawPath = r.URL.EscapedPath()
		next.ServeHTTP(w, r)
	})
}

// joinPrefer makes one of several Prefer headers: HTTP gives them one meaning,
// and the generated router takes one line only.
func joinPrefer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if lines := r.Header.Values("Prefer"); len(lines) > 1 {
			r.Header.Set("Prefer", strings.Join(lines, ", "))
		}
		next.ServeHTTP(w, r)
	})
}

// identify takes the caller's request id or makes one, and answers with it.
func (s *Server) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("Request-Id")
		if id == "" {
			id = r.Header.Get("X-Request-Id")
		}
		if !plainRequestID.MatchString(id) {
			var raw [12]byte
			rand.Read(raw[:])
			id = hex.EncodeToString(raw[:])
		}
		w.Header().Set("Request-Id", id)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitKey, &visit{id: id, remote: s.remoteOf(r)})))
	})
}

// logAccess writes one line for each request, without its query or body: both
// carry row values. Of those that are nobody's it leaves out what are too many.
func (s *Server) logAccess(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		watched := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			took := time.Since(began)
			if !visitOf(r).untold {
				s.Log.InfoContext(r.Context(), "request", "method", r.Method, "path", r.URL.Path, "status", watched.Status(),
					"bytes", watched.BytesWritten(), "ms", float64(took.Microseconds())/1000,
					"request_id", requestID(r), "remote", remoteAddress(r),
					"refused", watched.Header().Get(refusedHeader), "observed", watched.Header().Get(observedHeader))
			}
			s.observe(r, watched.Status(), took)
		}()
		next.ServeHTTP(watched, r)
	})
}

func (s *Server) recoverPanic(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			switch fault := recover(); fault {
			case nil:
			case http.ErrAbortHandler:
				panic(fault)
			default:
				s.Log.ErrorContext(r.Context(), "a handler panicked", "panic", fault, "request_id", requestID(r), "stack", string(debug.Stack()))
				s.fail(w, r, errInternal)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// limit bounds the body, turns away what exceeds the requests in flight, and
// gives the request its deadline. The body is there before a slot is taken, so
// that slow senders hold nothing but their connections and the room for what they
// have sent; reads have slots of their own, so that they can't keep out a holder's
// write or renewal.
func (s *Server) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, room := s.gather(w, r)
		defer room.leave()
		if own := (*fault)(nil); errors.As(body.err, &own) {
			s.fail(w, r, own)
			return
		}
		if r.Body = body; body.err == nil {
			// It was the sender's. Past it net/http would take the connection for lost,
			// with whatever is sent over it afterwards.
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // bound told if it can't be set
		}
		slots, kind, most := &s.busy.writes, writing, s.Limits.InFlight
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			slots, kind, most = &s.busy.reads, reading, s.Limits.mostReads()
		}
		giveBack, ok := s.share(principal(r), kind)
		if !ok {
			s.fail(w, r, errShareTaken)
			return
		}
		if !slots.take(1, int64(most)) {
			giveBack()
			s.fail(w, r, errTooManyInFlight)
			return
		}
		back := func() (leave func()) { return s.shareAgain(principal(r), kind) }
		here := &stay{leave: func() { giveBack(); slots.leave(1) }, back: back, room: room, tries: s.tries, whole: r.Context()}
		defer func() { here.leave() }()
		ctx, cancel := context.WithTimeout(r.Context(), s.Limits.Request)
		defer cancel()
		ctx = context.WithValue(ctx, stayKey, here)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// stay is what a request has while it is served: a slot, and more than the usual
// time if it needs it.
type stay struct {
	leave func()          // gives its slot back
	back  func() func()   // takes what is its principal's again, and returns what gives it back
	room  *room           // of its body
	tries chan struct{}   // where it has one after a pause
	whole context.Context // ends with the caller's connection
}

// pause gives the slot up until the function it returns is called, which waits
// for one of a few that are not the newcomers'.
func (s *stay) pause() (resume func()) {
	s.leave()
	return func() {
		s.tries <- struct{}{}
		giveBack := s.back()
		s.leave = func() { giveBack(); <-s.tries }
	}
}

// loopbackOnly refuses requests whose Host is no loopback name: where nobody is
// authenticated, a page in a browser could otherwise reach the gateway under a
// name of its own that resolves to loopback.
func (s *Server) loopbackOnly(next http.Handler) http.Handler {
	if !s.LoopbackOnly {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !auth.IsLoopback(r.Host) {
			s.fail(w, r, &fault{status: http.StatusMisdirectedRequest, slug: "misdirected_request", parameter: "Host",
				detail: "under auth: none the gateway answers only to localhost and loopback addresses; let what stands in front of it set Host"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// methodNotAllowed answers 405 with the methods that the path does have.
func (s *Server) methodNotAllowed(router chi.Router) http.HandlerFunc {
	methods := []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete}
	return func(w http.ResponseWriter, r *http.Request) {
		allowed := slices.DeleteFunc(slices.Clone(methods), func(method string) bool {
			return !router.Match(chi.NewRouteContext(), method, r.URL.RawPath)
		})
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		s.fail(w, r, &fault{status: http.StatusMethodNotAllowed, slug: "method_not_allowed",
			detail: r.Method + " is not possible here; possible are " + strings.Join(allowed, ", ")})
	}
}
