package main

import (
	"errors"
	"net/http"
)

// withoutFence shows what is broken: the lock works as it should, and one sale
// is lost all the same.
func (d *demo) withoutFence() error {
	w := d.direct
	if err := w.write(d.ctx, "SKU-1", 10); err != nil {
		return err
	}
	d.scene("1. Without the gateway: lock in Redis, write straight to PostgreSQL")
	if ok, err := w.take(d.ctx, "A"); !ok {
		return errors.Join(err, expect("A takes the lock", ok, true))
	}
	read, err := w.read(d.ctx, "SKU-1")
	if err != nil {
		return err
	}
	d.say("worker A", "has the lock, reads: %d left. Then stops (a long GC, a stalled call).", read)
	if err := d.patiently(func() (bool, error) { return w.take(d.ctx, "B") }); err != nil {
		return err
	}
	again, err := w.read(d.ctx, "SKU-1")
	if err != nil {
		return err
	}
	d.say("worker B", "A's lease has run out; B has the lock, reads: %d left.", again)
	if err := w.write(d.ctx, "SKU-1", again-1); err != nil {
		return err
	}
	d.say("worker B", "sells one, writes %d.", again-1)
	if err := d.pauseUntil(demoPause); err != nil {
		return err
	}
	d.say("worker A", "wakes, believes that it still has the lock, sells one, writes %d. PostgreSQL takes it.", read-1)
	if err := w.write(d.ctx, "SKU-1", read-1); err != nil {
		return err
	}
	left, err := w.read(d.ctx, "SKU-1")
	if err != nil {
		return err
	}
	d.say("the shelf", "two sold, %d left: one sale is LOST.", left)
	return expect("what is left without the fence", left, 9)
}

// withFence is the same story; only the way of the write is another.
func (d *demo) withFence() error {
	if err := d.direct.write(d.ctx, "SKU-2", 10); err != nil {
		return err
	}
	d.scene("2. Through the gateway: same lock, same pause, same table")
	a, err := d.takeOver()
	if err != nil {
		return err
	}
	if err := d.lateWorker(a); err != nil {
		return err
	}
	if err := d.record(); err != nil {
		return err
	}
	return d.secondTry()
}

// takeOver ends with A asleep and B done.
func (d *demo) takeOver() (grant, error) {
	w := d.fenced
	a, ok, err := w.acquire(d.ctx, "worker-a")
	if err := errors.Join(err, expect("A acquires", ok, true)); err != nil {
		return a, err
	}
	left, err := w.read(d.ctx)
	if err != nil {
		return a, err
	}
	d.say("worker A", "has the lock under token %s, reads: %d left. Then stops.", a.token(), left)
	var b grant
	if err := d.patiently(func() (ok bool, err error) { b, ok, err = w.acquire(d.ctx, "worker-b"); return ok, err }); err != nil {
		return a, err
	}
	if left, err = w.read(d.ctx); err != nil {
		return a, err
	}
	d.say("worker B", "A's lease has run out; B has the lock under token %s, reads: %d left.", b.token(), left)
	answer, err := w.sell(d.ctx, b, left-1)
	if err := errors.Join(err, expect("B's write", answer.status, http.StatusNoContent)); err != nil {
		return a, err
	}
	d.say("worker B", "sells one, writes %d: %d, taken.", left-1, answer.status)
	answer, err = w.release(d.ctx, b)
	d.say("worker B", "releases the lock.")
	return a, errors.Join(err, expect("B's release", answer.released, true))
}

// lateWorker lets A try everything that it could try with its dead token.
func (d *demo) lateWorker(a grant) error {
	w := d.fenced
	if err := d.pauseUntil(demoPause); err != nil {
		return err
	}
	write, err := w.sell(d.ctx, a, 9)
	if err := errors.Join(err, expect("A's late write", write.code(), "412 stale_token")); err != nil {
		return err
	}
	d.say("worker A", "wakes, writes 9 under token %s: REFUSED, %s. Nothing was written.", a.token(), write.code())
	renewal, err := w.renew(d.ctx, a)
	if err := errors.Join(err, expect("A's late renewal", renewal.code(), "412 stale_token")); err != nil {
		return err
	}
	d.say("worker A", "tries to renew: REFUSED, %s. A lost lease never comes back.", renewal.code())
	release, err := w.release(d.ctx, a)
	if err := errors.Join(err, expect("A's late release", release.released, false), expect("its reason", release.reason, "stale_token")); err != nil {
		return err
	}
	d.say("worker A", "tries to release: nothing to release (%s), nobody else's lock is touched.", release.reason)
	return nil
}

// record shows that the refusal can be found afterwards.
func (d *demo) record() error {
	records, err := d.fenced.refusals(d.ctx, "stale_token")
	if err != nil {
		return err
	}
	for _, r := range records {
		if r.Operation != "update" {
			continue
		}
		d.say("the record", "no. %s: %s of %s by %s under token %s, mark at %s: %s.",
			r.ID, r.Operation, r.Table, r.Client, r.PresentedToken, r.MarkToken, r.Code)
		return nil
	}
	return errors.New("there is no record of the refused write")
}

// secondTry is what a refused worker does: take the lock anew, read anew.
func (d *demo) secondTry() error {
	w := d.fenced
	again, ok, err := w.acquire(d.ctx, "worker-a")
	if err := errors.Join(err, expect("A acquires again", ok, true)); err != nil {
		return err
	}
	left, err := w.read(d.ctx)
	if err := errors.Join(err, expect("what is left", left, 9)); err != nil {
		return err
	}
	answer, err := w.sell(d.ctx, again, left-1)
	if err := errors.Join(err, expect("A's second write", answer.status, http.StatusNoContent)); err != nil {
		return err
	}
	d.say("worker A", "takes the lock anew under token %s, reads: %d left, writes %d: taken.", again.token(), left, left-1)
	left, err = d.direct.read(d.ctx, "SKU-2")
	d.say("the shelf", "two sold, %d left: nothing is lost.", left)
	return errors.Join(err, expect("what is left through the gateway", left, 8))
}
