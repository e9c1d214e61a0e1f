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
	slots  chan struct{}
	closed chan struct{}
	close  func()
}

func newBoundedListener(l *net.TCPListener, most int) *boundedListener {
	closed := make(chan struct{})
	return &boundedListener{TCPListener: l, slots: make(chan struct{}, most), closed: closed, close: sync.OnceFunc(func() { close(closed) })}
}

// Accept waits for a connection, and for one to end if there are enough.
func (l *boundedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.AcceptTCP()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &boundedConn{TCPConn: conn, leave: sync.OnceFunc(func() { <-l.slots })}, nil
}

// Close also ends an Accept that waits for a connection to end.
func (l *boundedListener) Close() error {
	l.close()
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
