package main

import (
	"net"
	"sync"
)

// boundedListener has no more than a number of connections open. They stay TCP
// connections: net/http must be able to close one for writing only, or a client
// that is still sending what is too large loses the answer.
type boundedListener struct {
	*net.TCPListener

	mu     sync.Mutex
	change *sync.Cond // of what follows
	most   int
	open   int
	closed bool
}

func newBoundedListener(l *net.TCPListener, most int) *boundedListener {
	b := &boundedListener{TCPListener: l, most: most}
	b.change = sync.NewCond(&b.mu)
	return b
}

// Accept waits for a connection, and for one to end if there are enough.
func (l *boundedListener) Accept() (net.Conn, error) {
	if !l.enter() {
		return nil, net.ErrClosed
	}
	conn, err := l.AcceptTCP()
	if err != nil {
		l.leave()
		return nil, err
	}
	return &boundedConn{TCPConn: conn, leave: sync.OnceFunc(l.leave)}, nil
}

// enter returns false once the listener is closed.
func (l *boundedListener) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.open >= l.most && !l.closed {
		l.change.Wait()
	}
	if l.closed {
		return false
	}
	l.open++
	return true
}

func (l *boundedListener) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	l.change.Signal()
}

// Bound changes how many connections may be open. Those that are too many stay.
func (l *boundedListener) Bound(most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most = most
	l.change.Signal()
}

// Close also ends an Accept that waits for a connection to end.
func (l *boundedListener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.change.Signal()
	l.mu.Unlock()
	return l.TCPListener.Close()
}

type boundedConn struct {
	*net.TCPConn
	leave func()
}

func (c *boundedConn) Close() error {
	defer c.leave()
	return c.TCPConn.Close()
}
