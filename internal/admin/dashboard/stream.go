package dashboard

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fencegate/fencegate/internal/audit"
)

const (
	heartbeat = 10 * time.Second
	// patience is for how long a piece may take to be written, and the connection
	// be silent.
	patience = 30 * time.Second
)

var errStopping = errors.New("the gateway stops")

// stream tells how many refusals have come since the last event. What they are the
// page shows, which is asked for anew.
func (d *Dashboard) stream(w http.ResponseWriter, r *http.Request) {
	f, err := readFilter(with(r.URL.Query(), "span", "all"), time.Now())
	if err != nil {
		d.fail(w, r, err)
		return
	}
	select {
	case d.streams <- struct{}{}:
		defer func() { <-d.streams }()
	default:
		d.fail(w, r, &problem{http.StatusServiceUnavailable, "Too many followers", "Too many pages follow the refusals already."})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	d.follow(w, r, f.audit)
}

func (d *Dashboard) follow(w http.ResponseWriter, r *http.Request, f audit.Filter) {
	ctx, out, now := r.Context(), http.NewResponseController(w), d.gate()
	var sent time.Time
	send := func(text string) error {
		who, err := d.Who(r)
		if was := principalIn(ctx); err != nil || who.Name != was.Name || who.Admin != was.Admin {
			return errStopping // the page is to ask anew
		}
		sent = time.Now()
		_, err = w.Write([]byte(text))
		return cmp.Or(err, out.Flush())
	}
	err := now.TailRefusals(ctx, principalIn(ctx), f, audit.Place{}, func(records []audit.Record) error {
		select {
		case <-now.Stopped():
			return errStopping
		default:
		}
		end := time.Now().Add(patience)
		if err := cmp.Or(out.SetReadDeadline(end), out.SetWriteDeadline(end)); err != nil {
			return err
		}
		switch {
		case len(records) > 0:
			return send(fmt.Sprintf("event: refusals\ndata: %d\n\n", len(records)))
		case time.Since(sent) > heartbeat:
			return send(": nothing new\n\n")
		}
		return nil
	})
	if ctx.Err() == nil && !errors.Is(err, errStopping) {
		d.Log.Warn("a page that follows the refusals was cut off", "error", err)
	}
}
