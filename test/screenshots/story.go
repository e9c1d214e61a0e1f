package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// letPast makes what the dashboard warns of: a role that writes past the gateway.
func letPast(ctx context.Context, database string) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, `
		CREATE ROLE nightly_import LOGIN;
		GRANT USAGE ON SCHEMA shop TO nightly_import;
		GRANT SELECT, UPDATE ON shop.orders TO nightly_import`)
	return err
}

// How long worker-a stops. Its lease is over by the first quarter.
const pause = 40 * time.Second

// play is the story. It returns the id of the record that it ends with.
func play(ctx context.Context, base string) (id string, err error) {
	w := worker{ctx, base}
	around, stop := context.WithCancel(ctx)
	defer stop()
	var others errgroup.Group
	for i, sku := range []string{"SKU-2", "SKU-3"} {
		others.Go(func() error {
			return worker{around, base}.busy("inventory:"+sku, "picker-"+fmt.Sprint(i+1), "inventory?sku=eq."+sku, i)
		})
	}
	others.Go(func() error { return w.late() })
	a, err := w.acquire("inventory:SKU-1", "worker-a", 10*time.Second, 0)
	if err != nil {
		return "", err
	}
	if err := w.expect(a, "inventory?sku=eq.SKU-1", `{"available":9}`, http.StatusNoContent); err != nil {
		return "", err
	}
	woken := time.After(pause)
	b, err := w.acquire("inventory:SKU-1", "worker-b", time.Minute, 20*time.Second)
	if err != nil {
		return "", err
	}
	if err := w.expect(b, "inventory?sku=eq.SKU-1", `{"available":8}`, http.StatusNoContent); err != nil {
		return "", err
	}
	<-woken
	id, err = w.refused(a, "inventory?sku=eq.SKU-1", `{"available":3}`)
	if err != nil {
		return "", err
	}
	stop()
	if err := others.Wait(); err != nil {
		return "", err
	}
	for i, key := range []string{"order:2026-0001", "order:2026-0002", "inventory:SKU-8", "inventory:SKU-9"} {
		if _, err := w.acquire(key, fmt.Sprintf("billing-%d", i+1), time.Duration(40+35*i)*time.Second, 0); err != nil {
			return "", err
		}
	}
	return id, nil
}

// late are other workers that come too late, each in a way of its own.
func (w worker) late() error {
	for i := range 4 {
		key := fmt.Sprintf("inventory:SKU-%d", 4+i%3)
		l, err := w.acquire(key, "importer", 600*time.Millisecond, 0)
		if err != nil {
			return err
		}
		time.Sleep(time.Second + time.Duration(i)*300*time.Millisecond)
		query := fmt.Sprintf("inventory?sku=eq.SKU-%d", 4+i%3)
		if _, err := w.refused(l, query, `{"available":1}`); err != nil {
			return err
		}
		if l, err = w.acquire(key, "importer", 5*time.Second, 0); err != nil {
			return err
		}
		if _, err := w.refused(l, "inventory?sku=eq.SKU-1", `{"available":1}`); err != nil && i == 0 {
			return err
		}
		if err := w.release(l); err != nil {
			return err
		}
		if _, err := w.refused(l, query, `{"available":1}`); err != nil {
			return err
		}
		time.Sleep(6 * time.Second)
	}
	l, err := w.acquire("inventory:SKU-7", "importer", 5*time.Second, 0)
	if err != nil {
		return err
	}
	l["Fencing-Token"] = "4711"
	_, err = w.refused(l, "inventory?sku=eq.SKU-7", `{"available":1}`)
	return err
}

// busy writes under one lock, renewed as it should be, until the story is over.
func (w worker) busy(key, client, query string, phase int) error {
	l, err := w.acquire(key, client, 20*time.Second, 0)
	if err != nil {
		return err
	}
	renewal := time.NewTicker(5 * time.Second)
	defer renewal.Stop()
	for n := 0; ; n++ {
		select {
		case <-renewal.C:
			if err := w.renew(l); err != nil {
				return err
			}
		default:
		}
		if err := w.expect(l, query, `{"available":5}`, http.StatusNoContent); err != nil {
			return err
		}
		select {
		case <-time.After(time.Duration(12+8*phase+(n/150)%4*9) * time.Millisecond):
		case <-w.ctx.Done():
			return nil
		}
	}
}

// worker speaks to the gateway as any worker would.
type worker struct {
	ctx  context.Context
	base string
}

type headers map[string]string

func (w worker) acquire(key, client string, ttl, wait time.Duration) (headers, error) {
	body := map[string]any{"key": key, "client": client, "ttl_ms": ttl.Milliseconds()}
	if wait > 0 {
		body["wait_ms"] = wait.Milliseconds()
	}
	var answer struct{ Headers headers }
	status, err := w.send(http.MethodPost, "/v1/leases", nil, body, &answer)
	if err == nil && status != http.StatusCreated {
		err = fmt.Errorf("acquiring %s: %d", key, status)
	}
	return answer.Headers, err
}

func (h headers) claim() map[string]any {
	return map[string]any{"key": h["Lock-Key"], "holder": h["Lock-Holder"], "token": h["Fencing-Token"]}
}

func (w worker) renew(l headers) error {
	_, err := w.send(http.MethodPost, "/v1/leases/renew", nil, l.claim(), nil)
	return err
}

func (w worker) release(l headers) error {
	_, err := w.send(http.MethodPost, "/v1/leases/release", nil, l.claim(), nil)
	return err
}

func (w worker) expect(l headers, query, row string, wanted int) error {
	status, err := w.send(http.MethodPatch, "/rest/"+query, l, json.RawMessage(row), nil)
	if w.ctx.Err() != nil {
		return nil
	}
	if err == nil && status != wanted {
		err = fmt.Errorf("writing %s: %d and not %d", query, status, wanted)
	}
	return err
}

// refused returns the id of the record.
func (w worker) refused(l headers, query, row string) (id string, err error) {
	var problem struct {
		AuditID string `json:"audit_id"`
	}
	status, err := w.send(http.MethodPatch, "/rest/"+query, l, json.RawMessage(row), &problem)
	if err == nil && problem.AuditID == "" {
		err = fmt.Errorf("writing %s: %d, which is not on record", query, status)
	}
	return problem.AuditID, err
}

func (w worker) send(method, path string, h headers, body, into any) (status int, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	// The last request of a worker is not cut off.
	r, err := http.NewRequestWithContext(context.WithoutCancel(w.ctx), method, w.base+path, bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	for name, value := range h {
		r.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err == nil && into != nil {
		err = json.Unmarshal(raw, into)
	}
	return answer.StatusCode, err
}
