package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// acquireBody is AcquireRequest of openapi.yaml.
type acquireBody struct {
	Key    string   `json:"key,omitempty"`
	Keys   []string `json:"keys,omitempty"`
	TTLMS  int64    `json:"ttl_ms,omitempty"`
	WaitMS int64    `json:"wait_ms,omitempty"`
	Client string   `json:"client,omitempty"`
}

func (b acquireBody) all() []string {
	if b.Keys == nil {
		return []string{b.Key}
	}
	return b.Keys
}

// claimBody is RenewRequest and ReleaseRequest of openapi.yaml.
type claimBody struct {
	Key    string `json:"key"`
	Holder string `json:"holder"`
	Token  string `json:"token"`
	TTLMS  int64  `json:"ttl_ms,omitempty"`
}

func (l *Lease) claim() claimBody {
	return claimBody{Key: l.wire, Holder: l.holder, Token: l.headers[tokenHeader]}
}

const (
	keyHeader    = "Lock-Key"
	holderHeader = "Lock-Holder"
	tokenHeader  = "Fencing-Token"
)

// grant is Lease of openapi.yaml.
type grant struct {
	Key           string            `json:"key"`
	Holder        string            `json:"holder"`
	Token         string            `json:"token"`
	TTLMS         int64             `json:"ttl_ms"`
	RenewAfterMS  int64             `json:"renew_after_ms"`
	MaxLifetimeMS int64             `json:"max_lifetime_ms"`
	Headers       map[string]string `json:"headers"`

	token int64
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func (g grant) ttl() time.Duration      { return milliseconds(g.TTLMS) }
func (g grant) lifetime() time.Duration { return milliseconds(g.MaxLifetimeMS) }

func (g grant) renewAfter() time.Duration {
	if after := milliseconds(g.RenewAfterMS); after > 0 && after < g.ttl() {
		return after
	}
	return g.ttl() / 3
}

// headers returns the three that a write carries and no others, whatever the
// answer calls headers.
func (g grant) headers() map[string]string {
	return map[string]string{
		keyHeader: g.Headers[keyHeader], holderHeader: g.Headers[holderHeader], tokenHeader: g.Headers[tokenHeader],
	}
}

// grants sends a request that is answered with one lease (several 0), or with a
// set of so many.
func (c *Client) grants(ctx context.Context, q request, limit time.Duration, several int) ([]grant, error) {
	var grants []grant
	q.read = func(a answer) (err error) {
		grants, err = a.grants(several)
		return err
	}
	err := c.send(ctx, c.transport, q, limit)
	return grants, err
}

func (a answer) grants(several int) ([]grant, error) {
	set := struct{ Leases []grant }{make([]grant, 1)}
	var into any = &set.Leases[0]
	if several > 0 {
		into = &set
	}
	if err := json.Unmarshal(a.body, into); err != nil {
		return nil, err
	}
	if len(set.Leases) != max(1, several) {
		return nil, fmt.Errorf("it has %d leases", len(set.Leases))
	}
	for i := range set.Leases {
		if !set.Leases[i].complete() {
			return nil, errors.New("it is no lease")
		}
	}
	return set.Leases, nil
}

// maxTTLMS is a year, which no lease has; far more would not be a duration.
const maxTTLMS = 366 * 24 * 3600 * 1000

// complete reads the token and reports whether all is there that a lease needs.
func (g *grant) complete() bool {
	var err error
	g.token, err = strconv.ParseInt(g.Token, 10, 64)
	h := g.headers()
	return err == nil && g.token > 0 && g.Key != "" && g.Holder != "" && g.TTLMS > 0 && g.TTLMS < maxTTLMS &&
		h[keyHeader] != "" && h[holderHeader] != "" && h[tokenHeader] == g.Token
}
