package testenv

import (
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
)

// Front stands between a worker and its gateway: a TCP address that leads
// through a Wire, with all that a Wire can do to what passes.
type Front struct {
	*Wire
	URL string // for the worker
}

// NewFront returns a front of g, which ends with the test.
func NewFront(t testing.TB, g *Gateway) *Front {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	wire := NewWire(t, plainTCP(g))
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			worker, err := listener.Accept()
			if err != nil {
				return
			}
			go splicePair(worker, wire.socket)
		}
	}()
	return &Front{wire, "http://" + listener.Addr().String()}
}

// LeadTo makes new connections go to g.
func (f *Front) LeadTo(t testing.TB, g *Gateway) {
	t.Helper()
	f.Lead(t, plainTCP(g))
}

// plainTCP is how a Wire is told of a server whose protocol does not matter.
func plainTCP(g *Gateway) string {
	u := url.URL{Scheme: "redis", Host: strings.TrimPrefix(g.URL, "http://")}
	return u.String()
}

// splicePair joins worker with the wire at socket until both are done.
func splicePair(worker net.Conn, socket string) {
	defer worker.Close()
	wire, err := net.Dial("unix", socket)
	if err != nil {
		return // refused
	}
	defer wire.Close()
	ended := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{wire, worker}, {worker, wire}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			ended <- struct{}{}
		}()
	}
	<-ended
}
