package main

import (
	"net/http"
	"time"
)

// Bounds of one HTTP/2 connection. What they allow, times limits.max_connections, is
// what connections take that are nobody's yet; what requests take is proxy's business.
const (
	streamsAtOnce    = 100       // requests; a client that has more opens another connection
	frameSize        = 16 << 10  // the least that HTTP/2 has: a frame is read whole, whoever sends it
	streamWindow     = 64 << 10  // of a body, sent and not read
	connectionWindow = 256 << 10 // of all its bodies
	pingAfter        = time.Minute
	pingTimeout      = 15 * time.Second
	writeStall       = 30 * time.Second // without a byte that the client takes
)

// http2Bounds also ends the connections of clients that are gone or take nothing. What
// is not in it net/http bounds: streams that are opened and reset at once, CONTINUATION
// frames (maxHeaderBytes), and control frames that nobody reads the answers to.
func http2Bounds() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          streamsAtOnce,
		MaxReadFrameSize:              frameSize,
		MaxReceiveBufferPerConnection: connectionWindow,
		MaxReceiveBufferPerStream:     streamWindow,
		SendPingTimeout:               pingAfter,
		PingTimeout:                   pingTimeout,
		WriteByteTimeout:              writeStall,
	}
}
