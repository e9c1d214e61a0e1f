package devstack

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

const (
	tailLines = 20
	lineBytes = 4096 // longer lines are cut, in the tail only
)

// output receives what one server process prints: it passes it on, remembers
// the last lines, and closes ready when a line contains the awaited text.
type output struct {
	to    io.Writer // never nil
	want  string
	ready chan struct{}

	mu     sync.Mutex
	line   []byte
	tail   []string
	isDone bool
}

func newOutput(to io.Writer, want string) *output {
	return &output{to: to, want: want, ready: make(chan struct{})}
}

// Write never fails: an error would close the pipe that the server logs to.
func (o *output) Write(p []byte) (int, error) {
	_, _ = o.to.Write(p)
	o.mu.Lock()
	defer o.mu.Unlock()
	for rest := p; len(rest) > 0; {
		part, after, ended := bytes.Cut(rest, []byte("\n"))
		o.line = append(o.line, part[:min(len(part), lineBytes-min(len(o.line), lineBytes))]...)
		if ended {
			o.endLine()
		}
		rest = after
	}
	return len(p), nil
}

func (o *output) endLine() {
	text := string(o.line)
	o.line = o.line[:0]
	o.tail = append(o.tail, text)
	if len(o.tail) > tailLines {
		o.tail = o.tail[1:]
	}
	if !o.isDone && o.want != "" && strings.Contains(strings.ToLower(text), o.want) {
		o.isDone = true
		close(o.ready)
	}
}

// Tail returns the last lines, each indented for quoting in an error.
func (o *output) Tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := o.tail
	if len(o.line) > 0 {
		lines = append(lines[:len(lines):len(lines)], string(o.line))
	}
	if len(lines) == 0 {
		return "  (it printed nothing)"
	}
	return "  " + strings.Join(lines, "\n  ")
}
