package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

// callPatience is for how long a gateway that can't be reached is asked for a
// lock that is not to be waited for.
const callPatience = 3 * time.Second

// callTimeout bounds one call of the gateway.
const callTimeout = 15 * time.Second

// exchange is one call of the gateway whose errors have their exit codes.
func (r reach) exchange(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := r.call(ctx, method, path, nil, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, &exitError{exitUnavailable, err}
	}
	return raw, nil
}

// open asks for what is then read for as long as it takes.
func (r reach) open(ctx context.Context, path string, header http.Header) (io.ReadCloser, error) {
	resp, err := r.call(ctx, http.MethodGet, path, header, nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// call returns an answer that is no error.
func (r reach) call(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.address(path), bytes.NewReader(body))
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Content-Type", "application/json")
	key, err := credential(ctx)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := r.do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, refusedCall(resp)
}

// refusedCall gives an answer that is an error its exit code.
func refusedCall(resp *http.Response) error {
	var told struct{ Code, Detail string }
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	_ = json.Unmarshal(raw, &told) // else the status alone tells
	err := errors.New(strings.TrimSpace(fmt.Sprintf("%s %s %s", resp.Status, told.Code, told.Detail)))
	switch {
	case resp.Header.Get("Fencing-Refused") != "":
		return &exitError{exitLost, err}
	case resp.StatusCode >= 500, resp.StatusCode == http.StatusTooManyRequests:
		return &exitError{exitUnavailable, err}
	}
	return &exitError{exitUsage, err}
}
