package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// releaseTime bounds a release, all attempts together: the lease runs out by
// itself if nobody hears of it.
const releaseTime = 5 * time.Second

// Release gives the lock back and returns whether it was still this lease's. The
// watchdog has stopped, and nothing more is sent under this lease, before the
// gateway is asked.
//
// It takes some seconds at most. A ctx that is done already does not keep the lock from
// being given back, since that is when it mostly is. It may be called again,
// also after a loss; what the gateway has answered once is not asked again. After
// an error the lock may or may not have been given back; it runs out by itself.
func (l *Lease) Release(ctx context.Context) (ours bool, err error) {
	l.stop()
	l.giving.Lock()
	defer l.giving.Unlock()
	if known, ours := l.returned(); known {
		return ours, nil
	}
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	ours, err = l.giveBack(ctx)
	if err != nil {
		return false, fmt.Errorf("giving back the lock %q: %w", l.key, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.back = &ours
	return ours, nil
}

// stop ends the lease for this process and waits for the watchdog: a renewal
// that is still under way would come after the release.
func (l *Lease) stop() {
	l.mu.Lock()
	if l.check() == nil {
		l.end(ErrReleased)
	}
	l.mu.Unlock()
	select {
	case <-l.watching:
	case <-time.After(releaseTime): // by a Transport that heeds no context
	}
}

// returned reports whether there is nothing left to ask, and what is known.
func (l *Lease) returned() (known, ours bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.back != nil:
		return true, *l.back
	case l.told:
		return true, false
	}
	return false, false
}

// giveBack asks the gateway until it answers. One that did the work and whose
// answer was lost says so when it is asked again.
func (l *Lease) giveBack(ctx context.Context) (ours bool, err error) {
	body, err := json.Marshal(l.claim())
	if err != nil {
		return false, err
	}
	q := request{method: http.MethodPost, path: "v1/leases/release", body: body, read: func(a answer) (err error) {
		ours, err = a.released()
		return err
	}}
	deadline, _ := ctx.Deadline()
	for n := 1; ; n++ {
		err := l.client.send(ctx, l.client.transport, q, attemptTime(time.Until(deadline)))
		if err == nil {
			return ours, nil
		}
		told := (*Error)(nil)
		if !errors.As(err, &told) || !told.comeAgain() || time.Until(deadline) <= minAttempt {
			return false, err
		}
		if sleep(ctx, backoff(n, told.RetryAfter, time.Until(deadline), rand.Float64())) != nil {
			return false, err
		}
	}
}

func (a answer) released() (bool, error) {
	var told struct{ Released *bool }
	if err := json.Unmarshal(a.body, &told); err != nil {
		return false, err
	}
	if told.Released == nil {
		return false, errors.New("it does not say whether the lock was released")
	}
	return *told.Released, nil
}
