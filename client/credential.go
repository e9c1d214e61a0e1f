package client

import (
	"context"
	"fmt"
	"net/http"
)

// Bearer returns a credential that never changes, such as an API key.
func Bearer(credential string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return credential, nil }
}

// vouched adds the client's credential to what goes to its gateway, and to nothing
// else.
type vouched struct {
	client *Client
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (v *vouched) RoundTrip(req *http.Request) (*http.Response, error) {
	if !under(v.client.base, "", req.URL) || req.Header.Get("Authorization") != "" {
		return v.next.RoundTrip(req)
	}
	credential, err := v.client.credential(req.Context())
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, &localRefusal{fmt.Errorf("getting the credential: %w", err)}
	}
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+credential)
	return v.next.RoundTrip(req)
}

// CloseIdleConnections closes those of what is underneath.
func (v *vouched) CloseIdleConnections() {
	(&http.Client{Transport: v.next}).CloseIdleConnections()
}

func (c *Client) vouch(next http.RoundTripper) http.RoundTripper {
	if c.credential == nil {
		return next
	}
	return &vouched{client: c, next: next}
}
