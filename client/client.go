package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"
)

// Config says which gateway to talk to, and how. Only URL is needed.
type Config struct {
	// URL is the gateway's address, such as https://gateway.internal:8080. A path
	// in it stands before every call's.
	URL string
	// Transport carries every request. nil: one of the client's own, which speaks
	// HTTP/1.1 only, so that a connection into the void holds up one call, not
	// all of them.
	Transport http.RoundTripper
	// Credential returns the API key or token that a request to the gateway is sent
	// with, as Authorization: Bearer, and to nobody else. It is asked each time; see
	// Bearer for one that stays the same. nil: none is sent.
	Credential func(context.Context) (string, error)
	// TLS says which authorities an https gateway is checked against, and has the
	// certificate to show it. It is not for a Transport that is given. nil: the
	// system's authorities, and no certificate.
	TLS *tls.Config
	// Client is the name that the gateway's records show, such as a host name;
	// up to 200 characters. It proves nothing. "": none.
	Client string
	// Margin is how much earlier than the lease trust in it ends. 0: 1 % of the
	// lease and 10 ms.
	Margin time.Duration
	// Timeout bounds each request that a lease's own deadline does not bound
	// tighter. 0: 10 s.
	Timeout time.Duration
	// Patience is for how long a request that got no answer, or was told to come
	// again, is sent again. 0: 20 s.
	Patience time.Duration
	// Logger is told what is survived, such as a late renewal, at level Info, and
	// what is lost, at level Warn. Holders are never in it. nil: nothing is logged.
	Logger *slog.Logger
}

// Client takes locks from one gateway. It is safe for concurrent use, and holds
// nothing that has to be closed but idle connections; see CloseIdleConnections.
type Client struct {
	base      *url.URL
	transport http.RoundTripper
	name      string
	margin    time.Duration
	timeout   time.Duration
	patience  time.Duration
	log       *slog.Logger
	clock     clock

	credential func(context.Context) (string, error)
}

const (
	defaultTimeout  = 10 * time.Second
	defaultPatience = 20 * time.Second
)

// New checks the configuration. It sends nothing.
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(cfg.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the gateway's URL: %w", err)
	case base.Scheme != "http" && base.Scheme != "https", base.Host == "":
		return nil, fmt.Errorf("the gateway's URL is http://host:port or https://host:port, not %q", base.Redacted())
	case base.RawQuery != "" || base.Fragment != "" || base.User != nil:
		return nil, errors.New("the gateway's URL has a query, a fragment or a user; only a path may follow its host")
	case cfg.TLS != nil && cfg.Transport != nil:
		return nil, errors.New("TLS is for the client's own transport; a Transport that is given has its own")
	case cfg.Margin < 0 || cfg.Timeout < 0 || cfg.Patience < 0:
		return nil, errors.New("Margin, Timeout and Patience are not negative")
	}
	c := &Client{
		base: base.JoinPath("/"), transport: cfg.Transport, name: cfg.Client, margin: cfg.Margin,
		timeout: orDefault(cfg.Timeout, defaultTimeout), patience: orDefault(cfg.Patience, defaultPatience),
		log: cfg.Logger, clock: newClock(), credential: cfg.Credential,
	}
	if c.transport == nil {
		c.transport = ownTransport(cfg.TLS)
	}
	c.transport = c.vouch(c.transport)
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// CloseIdleConnections closes the connections that no request uses now.
func (c *Client) CloseIdleConnections() {
	(&http.Client{Transport: c.transport}).CloseIdleConnections()
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

func ownTransport(secured *tls.Config) http.RoundTripper {
	own := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		Protocols:             new(http.Protocols),
		TLSClientConfig:       secured.Clone(),
	}
	own.Protocols.SetHTTP1(true)
	return own
}
