package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
func exchange(ctx context.Context, method, url string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, &exitError{exitUnavailable, err}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, &exitError{exitUnavailable, err}
	}
	if resp.StatusCode < 300 {
		return raw, nil
	}
	var told struct{ Code, Detail string }
	_ = json.Unmarshal(raw, &told) // else the status alone tells
	err = errors.New(strings.TrimSpace(fmt.Sprintf("%s %s %s", resp.Status, told.Code, told.Detail)))
	switch {
	case resp.Header.Get("Fencing-Refused") != "":
		return nil, &exitError{exitLost, err}
	case resp.StatusCode >= 500, resp.StatusCode == http.StatusTooManyRequests:
		return nil, &exitError{exitUnavailable, err}
	}
	return nil, &exitError{exitUsage, err}
}
