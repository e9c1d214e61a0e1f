package testenv

// pump forwards one direction to its end and passes that end on. What the
// other side can't take any more is still read: the sender is not to notice.
func (w *Wire) pump(l *link, d direction) {
	from, to := l.ends[d], l.ends[1-d]
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		for _, p := range l.cut(d, buf[:n], err != nil) {
			w.pass(l, d, p)
		}
		if err == nil {
			continue
		}
		if half, ok := to.(interface{ CloseWrite() error }); ok && d == request {
			half.CloseWrite()
			return
		}
		l.close()
		return
	}
}

// cut divides what has been read, after which nothing more comes if ended.
func (l *link) cut(d direction, data []byte, ended bool) []piece {
	switch {
	case d == request && l.framer != nil:
		pieces := l.framer.cut(data)
		if ended {
			pieces = append(pieces, l.framer.rest()...)
		}
		return pieces
	case len(data) == 0:
		return nil
	}
	return []piece{{data: data}}
}

// pass forwards as much of the piece as may go on.
func (w *Wire) pass(l *link, d direction, p piece) {
	extent := Whole
	if hook := w.meet(l, d, p); hook != nil {
		extent = hook()
	}
	switch w.decide(l, d, extent) {
	case Nothing:
		return
	case Torn:
		p.data, p.ends = p.data[:p.last], false
	}
	n, err := l.ends[1-d].Write(p.data)
	if p.batch != nil && n > 0 {
		w.forwarded(l, p.ends && err == nil)
	}
}

// decide returns how much of the piece just met goes on. What is lost once is
// lost to the message's end.
func (w *Wire) decide(l *link, d direction, extent Extent) Extent {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.swallow[d] || l.dropped[d] {
		extent = Nothing
	}
	if extent != Whole {
		l.dropped[d], l.lossy = true, true
	}
	return extent
}

// meet counts the piece if it begins a message, and returns the hook that waits
// for it.
func (w *Wire) meet(l *link, d direction, p piece) func() Extent {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record(l, p)
	begins := p.opens || l.fresh || l.last != d
	if begins {
		l.fresh, l.last, l.dropped[d] = false, d, false
		w.count[d]++
	}
	if hook := w.hooks[d][w.count[d]]; begins && hook != nil {
		delete(w.hooks[d], w.count[d])
		return hook
	}
	if l.batch != nil && (p.ends || begins && d == reply) {
		return w.watched(d, *l.batch)
	}
	return nil
}

func (l *link) close() {
	for _, end := range l.ends {
		end.Close()
	}
}
