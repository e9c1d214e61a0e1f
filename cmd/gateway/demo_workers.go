package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

// directWorkers work as many do today: a lease in Redis, a connection to
// PostgreSQL, and trust.
type directWorkers struct {
	pool *pgxpool.Pool
	lock *redis.Client
}

func (w directWorkers) write(ctx context.Context, sku string, available int) error {
	_, err := w.pool.Exec(ctx, `UPDATE shop.inventory SET available = $2 WHERE sku = $1`, sku, available)
	return err
}

func (w directWorkers) read(ctx context.Context, sku string) (available int, err error) {
	err = w.pool.QueryRow(ctx, `SELECT available FROM shop.inventory WHERE sku = $1`, sku).Scan(&available)
	return available, err
}

func (w directWorkers) take(ctx context.Context, holder string) (bool, error) {
	return w.lock.SetNX(ctx, "fencegate:demo:direct", holder, demoLease).Result()
}

// fencedWorkers speak to the gateway as any worker would.
type fencedWorkers struct {
	base string
}

// grant is the answer to an acquire: three headers to send with every write.
type grant map[string]string

func (g grant) token() string { return g["Fencing-Token"] }

func (g grant) claim() string {
	return fmt.Sprintf(`{"key":%q,"holder":%q,"token":%q}`, g["Lock-Key"], g["Lock-Holder"], g["Fencing-Token"])
}

// answer is what the demo looks at in any of the gateway's answers.
type answer struct {
	status   int
	slug     string
	released bool
	reason   string
	headers  map[string]string
}

func (a answer) code() string { return strings.TrimSpace(strconv.Itoa(a.status) + " " + a.slug) }

func (w fencedWorkers) acquire(ctx context.Context, client string) (grant, bool, error) {
	body := fmt.Sprintf(`{"key":"inventory:SKU-2","ttl_ms":%d,"client":%q}`, demoLease.Milliseconds(), client)
	a, err := w.send(ctx, http.MethodPost, "/v1/leases", nil, body)
	if err != nil || a.status == http.StatusLocked {
		return nil, false, err
	}
	return a.headers, true, expect("an acquire's status", a.status, http.StatusCreated)
}

func (w fencedWorkers) read(ctx context.Context) (available int, err error) {
	_, body, err := w.exchange(ctx, http.MethodGet, "/rest/inventory?sku=eq.SKU-2&select=available", nil, "")
	if err != nil {
		return 0, err
	}
	var rows []struct{ Available int }
	if err := json.Unmarshal(body, &rows); err != nil {
		return 0, err
	}
	if err := expect("rows of the shelf", len(rows), 1); err != nil {
		return 0, err
	}
	return rows[0].Available, nil
}

func (w fencedWorkers) sell(ctx context.Context, g grant, available int) (answer, error) {
	return w.send(ctx, http.MethodPatch, "/rest/inventory?sku=eq.SKU-2", g, fmt.Sprintf(`{"available":%d}`, available))
}

func (w fencedWorkers) renew(ctx context.Context, g grant) (answer, error) {
	return w.send(ctx, http.MethodPost, "/v1/leases/renew", nil, g.claim())
}

func (w fencedWorkers) release(ctx context.Context, g grant) (answer, error) {
	return w.send(ctx, http.MethodPost, "/v1/leases/release", nil, g.claim())
}

type refusalRecord struct {
	ID             string `json:"id"`
	Code           string `json:"code"`
	Operation      string `json:"operation"`
	Table          string `json:"table"`
	Client         string `json:"client"`
	PresentedToken string `json:"presented_token"`
	MarkToken      string `json:"mark_token"`
}

func (w fencedWorkers) refusals(ctx context.Context, code string) ([]refusalRecord, error) {
	_, body, err := w.exchange(ctx, http.MethodGet, "/v1/refusals?code="+code, nil, "")
	if err != nil {
		return nil, err
	}
	var page struct{ Refusals []refusalRecord }
	return page.Refusals, json.Unmarshal(body, &page)
}

func (w fencedWorkers) send(ctx context.Context, method, path string, headers grant, body string) (answer, error) {
	status, raw, err := w.exchange(ctx, method, path, headers, body)
	if err != nil || len(raw) == 0 {
		return answer{status: status}, err
	}
	var fields struct {
		Type     string
		Released bool
		Reason   string
		Headers  map[string]string
	}
	err = json.Unmarshal(raw, &fields)
	return answer{
		status: status, slug: strings.TrimPrefix(fields.Type, "urn:fencegate:problem:"),
		released: fields.Released, reason: fields.Reason, headers: fields.Headers,
	}, err
}

func (w fencedWorkers) exchange(ctx context.Context, method, path string, headers grant, body string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.base+path, bytes.NewBufferString(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, raw, err
}
