package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Mistake is one thing wrong with the configuration. Its text never holds a
// password.
type Mistake struct {
	// Source is the file, the environment variable or the flag at fault.
	Source string
	// Line and Column say where in the file, from 1. 0 means all of Source.
	Line, Column int
	// Path is the key at fault, as in "tables[1].lock". Empty means none.
	Path string
	// Text says what is wrong and what would be right.
	Text string
}

// String returns "gateway.yaml:14:11: tables[1].lock: …".
func (m Mistake) String() string {
	var b strings.Builder
	b.WriteString(m.Source)
	if m.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", m.Line, m.Column)
	}
	if m.Path != "" {
		b.WriteString(": " + m.Path)
	}
	b.WriteString(": " + m.Text)
	return b.String()
}

// Mistakes is everything wrong with the configuration, the file's first and in
// the order of its lines. Load returns it as its error.
type Mistakes []Mistake

// Error returns one mistake a line.
func (m Mistakes) Error() string {
	lines := make([]string, len(m))
	for i, mistake := range m {
		lines[i] = mistake.String()
	}
	return strings.Join(lines, "\n")
}

// place is where a value was written.
type place struct {
	source       string
	line, column int
}

// report collects mistakes, and remembers where each path was written so that
// what is found after decoding can still point there.
type report struct {
	file   string
	places map[string]place
	// bad holds the paths already reported, whose values mean nothing.
	bad  map[string]bool
	list Mistakes
}

func newReport(file string) *report {
	return &report{file: file, places: map[string]place{}, bad: map[string]bool{}}
}

// reject reports what is wrong at path, unless its value is known to be bad.
func (r *report) reject(path, format string, args ...any) {
	if r.bad[path] {
		return
	}
	r.bad[path] = true
	r.add(r.find(path), path, fmt.Sprintf(format, args...))
}

// rejectOrder reports values that are wrong together, at the first path that
// anyone wrote: pointing at a default helps nobody.
func (r *report) rejectOrder(paths []string, format string, args ...any) {
	if slices.ContainsFunc(paths, func(p string) bool { return r.bad[p] }) {
		return
	}
	path := paths[0]
	for _, p := range slices.Backward(paths) {
		if _, written := r.places[p]; written {
			path = p
		}
	}
	r.add(r.find(path), path, fmt.Sprintf(format, args...))
}

func (r *report) add(at place, path, text string) {
	r.list = append(r.list, Mistake{at.source, at.line, at.column, path, text})
}

// find returns the place of path, or of the nearest part of it that was
// written, or the file as a whole.
func (r *report) find(path string) place {
	for path != "" {
		if at, written := r.places[path]; written {
			return at
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return place{source: r.file}
}

// override notes that source outranks what the file says at path.
func (r *report) override(path, source string) {
	r.places[path] = place{source: source}
	delete(r.bad, path)
}

// err returns the mistakes in order, or nil.
func (r *report) err() error {
	if len(r.list) == 0 {
		return nil
	}
	slices.SortStableFunc(r.list, func(a, b Mistake) int {
		return cmp.Or(
			cmp.Compare(r.rank(a), r.rank(b)),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
		)
	})
	return r.list
}

// rank puts the file before the environment and the flags.
func (r *report) rank(m Mistake) int {
	if m.Source == r.file {
		return 0
	}
	return 1
}
