package testenv

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"
)

// Wire stands between a gateway and its PostgreSQL or Redis. A test can count
// what passes over it, cut it, clog it, and act, or hold everything up, at one
// exact message.
//
// A message is what one side of a connection sends until the other side does:
// a pipelined batch and its answers are one request and one reply, whatever the
// pieces they arrive in. Messages are numbered from 1 over all connections,
// since NewWire or the last Reset, in the order in which the wire meets them.
//
// A gateway pings, prepares and cleans up when it likes, and each of that has a
// number. What PostgreSQL is sent the wire can tell apart: see Batch.
type Wire struct {
	url      string
	socket   string
	postgres bool

	mu       sync.Mutex
	changed  *sync.Cond // links or mode
	upstream address
	listener net.Listener // nil: new connections are refused
	links    map[*link]struct{}
	linked   int // how many there have been
	swallow  [2]bool
	count    [2]int
	hooks    [2]map[int]func() Extent
	watches  []watch
	batches  []*Batch // since the beginning
	recent   int      // the first of them since the last Reset
	pumps    sync.WaitGroup
}

// direction is also an index.
type direction int

const (
	request direction = iota // gateway to server
	reply
)

type address struct{ network, name string }

// link is one connection through the wire.
type link struct {
	ends    [2]net.Conn // by the direction that reads from it
	last    direction   // of the message under way; fresh: none yet
	fresh   bool
	dropped [2]bool // what a hook decided about the message under way
	lossy   bool    // something was swallowed: it makes no sense any more
	framer  *framer // nil: not PostgreSQL's protocol
	batch   *Batch  // the newest request; nil: none yet
}

// NewWire returns a wire to the server that upstreamURL names, which ends with
// the test. The gateway's side is a Unix socket; the server's is what the URL
// says, without TLS.
func NewWire(t testing.TB, upstreamURL string) *Wire {
	t.Helper()
	dir, err := os.MkdirTemp("", "wire-") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	// A standby that reaches its primary over this runs as another user.
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	w := &Wire{links: map[*link]struct{}{}}
	w.changed = sync.NewCond(&w.mu)
	w.Reset()
	w.postgres = strings.HasPrefix(upstreamURL, "postgres")
	if w.upstream, w.url, w.socket, err = splice(upstreamURL, dir); err != nil {
		t.Fatalf("reading %s: %v", upstreamURL, err)
	}
	if err := w.listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Refuse()
		w.Cut()
		w.pumps.Wait()
		os.RemoveAll(dir)
	})
	return w
}

// splice returns where upstreamURL leads to, and the same URL by way of dir.
func splice(upstreamURL, dir string) (to address, through, socket string, err error) {
	u, err := url.Parse(upstreamURL)
	if err != nil {
		return to, "", "", err
	}
	if strings.HasPrefix(u.Scheme, "postgres") {
		config, err := pgconn.ParseConfig(upstreamURL)
		if err != nil {
			return to, "", "", err
		}
		to.network, to.name = pgconn.NetworkAddress(config.Host, config.Port)
		query := u.Query()
		query.Set("host", dir)
		query.Set("port", "5432")
		query.Set("sslmode", "disable")
		u.Host, u.RawQuery = "", query.Encode()
		return to, u.String(), filepath.Join(dir, ".s.PGSQL.5432"), nil
	}
	options, err := redis.ParseURL(upstreamURL)
	if err != nil || options.TLSConfig != nil {
		return to, "", "", cmp.Or(err, fmt.Errorf("no way through TLS"))
	}
	socket = filepath.Join(dir, "redis.sock")
	query := url.Values{"db": {fmt.Sprint(options.DB)}}
	through = (&url.URL{Scheme: "unix", User: u.User, Path: socket, RawQuery: query.Encode()}).String()
	return address{options.Network, options.Addr}, through, socket, nil
}

// URL is what to give to the gateway: the upstream's, by way of this wire.
func (w *Wire) URL() string { return w.url }

// Lead makes new connections go to the server that upstreamURL names, of the
// same kind as the first one.
func (w *Wire) Lead(t testing.TB, upstreamURL string) {
	t.Helper()
	to, _, _, err := splice(upstreamURL, filepath.Dir(w.socket))
	if err != nil {
		t.Fatalf("reading %s: %v", upstreamURL, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.upstream = to
}

// Cut closes every connection, both sides.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.links {
		l.close()
	}
}

// Refuse lets nobody connect any more. Connections that are open stay.
func (w *Wire) Refuse() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listener != nil {
		w.listener.Close()
		w.listener = nil
	}
}

// Down is Refuse and Cut: to the gateway, the server's host is gone.
func (w *Wire) Down() {
	w.Refuse()
	w.Cut()
}

// BlackHole accepts connections and swallows whatever is sent, either way.
func (w *Wire) BlackHole() { w.setSwallow(true, true) }

// DropReplies passes requests on and swallows every answer.
func (w *Wire) DropReplies() { w.setSwallow(false, true) }

// Mend undoes Refuse, BlackHole and DropReplies. Connections that lost
// something on the way are cut.
func (w *Wire) Mend(t testing.TB) {
	t.Helper()
	w.setSwallow(false, false)
	w.mu.Lock()
	for l := range w.links {
		if l.lossy {
			l.close()
		}
	}
	closed := w.listener == nil
	w.mu.Unlock()
	if closed {
		if err := w.listen(); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *Wire) setSwallow(requests, replies bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.swallow = [2]bool{requests, replies}
}

// Reset begins to count again from 0 and forgets the hooks.
func (w *Wire) Reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count = [2]int{}
	w.hooks = [2]map[int]func() Extent{{}, {}}
	w.watches, w.recent = nil, len(w.batches)
}

// Requests is how many messages the gateway has sent.
func (w *Wire) Requests() int { return w.counted(request) }

// RoundTrips is how many messages the server has answered.
func (w *Wire) RoundTrips() int { return w.counted(reply) }

func (w *Wire) counted(d direction) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count[d]
}

// OnRequest calls hook once, just before the n-th request is forwarded. Nothing
// of that connection's requests moves on until hook returns: false swallows
// this one.
func (w *Wire) OnRequest(n int, hook func() bool) { w.on(request, n, hook) }

// OnReply is OnRequest for the n-th reply: the server has done its work by then.
func (w *Wire) OnReply(n int, hook func() bool) { w.on(reply, n, hook) }

func (w *Wire) on(d direction, n int, hook func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hooks[d][n] = allOrNothing(hook)
}

func allOrNothing(hook func() bool) func() Extent {
	return func() Extent {
		if hook() {
			return Whole
		}
		return Nothing
	}
}

// Settle returns once every connection is over on both sides. After the
// gateway's end that is when the servers have acted on all it had sent.
func (w *Wire) Settle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.links) > 0 {
		w.changed.Wait()
	}
}

func (w *Wire) listen() error {
	if err := os.RemoveAll(w.socket); err != nil {
		return err
	}
	listener, err := net.Listen("unix", w.socket)
	if err != nil {
		return err
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // to be refused takes a socket
	if err := os.Chmod(w.socket, 0o777); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listener = listener
	w.pumps.Go(func() { w.accept(listener) })
	return nil
}

func (w *Wire) accept(listener net.Listener) {
	for {
		gateway, err := listener.Accept()
		if err != nil {
			return
		}
		w.pumps.Go(func() { w.connect(gateway) })
	}
}

func (w *Wire) connect(gateway net.Conn) {
	w.mu.Lock()
	to := w.upstream
	w.mu.Unlock()
	server, err := net.Dial(to.network, to.name)
	if err != nil {
		gateway.Close() // the server is gone, and so is this
		return
	}
	l := &link{ends: [2]net.Conn{request: gateway, reply: server}, fresh: true}
	w.mu.Lock()
	if w.listener == nil { // refused meanwhile
		w.mu.Unlock()
		l.close()
		return
	}
	w.links[l] = struct{}{}
	w.linked++
	if w.postgres {
		l.framer = &framer{batch: newDraft(w.linked)}
	}
	w.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { w.pump(l, request) })
	both.Go(func() { w.pump(l, reply) })
	both.Wait()
	l.close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.links, l)
	w.changed.Broadcast()
}
