package config

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Traces says where traces of requests are sent. The zero value of Endpoint sends
// none, and then nothing else may be written.
type Traces struct {
	// Endpoint is a receiver of OTLP over HTTP, as an http:// or https:// URL; without
	// a path it is /v1/traces. Default none.
	Endpoint string `yaml:"endpoint,omitempty"`
	// Headers are sent along: name=value, separated by commas, values
	// percent-encoded. Default none; written directly or read from HeadersFile.
	Headers Password `yaml:"headers,omitempty"`
	// HeadersFile is the file Headers were read from. Empty if they were written
	// directly.
	HeadersFile string `yaml:"headers_file,omitempty"`
	// CAFile holds the certificates of the authorities that the receiver is checked
	// against, in PEM. Default: those of the system.
	CAFile string `yaml:"ca_file,omitempty"`
	// CertFile and KeyFile are the gateway's own certificate and its key, in PEM.
	// Default none; both or neither.
	CertFile string `yaml:"cert_file,omitempty"`
	KeyFile  string `yaml:"key_file,omitempty"`
	// SampleRatio is the part of the requests that is traced. Default 1; 0 to 1.
	SampleRatio float64 `yaml:"sample_ratio"`
	// TrustParent traces every request whose caller says that it is traced. Default
	// false: of those SampleRatio as well.
	TrustParent bool `yaml:"trust_parent"`
	// Timeout ends sending a batch, with all it is tried again. Default 10s; 1ms to
	// 24h.
	Timeout time.Duration `yaml:"timeout"`
}

// URL returns the endpoint with its path.
func (t Traces) URL() string {
	u, err := url.Parse(t.Endpoint)
	if err != nil {
		return t.Endpoint // validated by Load
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	return u.String()
}

// HeaderValues returns Headers by name. Its errors quote nothing.
func (t Traces) HeaderValues() (map[string]string, error) {
	values := map[string]string{}
	if t.Headers == "" {
		return values, nil
	}
	for pair := range strings.SplitSeq(t.Headers.Reveal(), ",") {
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		if !ok || !httpguts.ValidHeaderFieldName(name) {
			return nil, errors.New("must be name=value, separated by commas")
		}
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if err != nil || !httpguts.ValidHeaderFieldValue(value) {
			return nil, errors.New("have a value with a character that must be percent-encoded")
		}
		values[name] = value
	}
	return values, nil
}

func (c *Config) checkTraces(r *report) {
	t := c.Traces
	if t.Endpoint == "" && !r.bad["traces.endpoint"] {
		for path := range r.places {
			if strings.HasPrefix(path, "traces.") {
				r.reject("traces", "needs endpoint, or FENCEGATE_TRACES_ENDPOINT in the environment")
			}
		}
		return
	}
	if !isReceiver(t.Endpoint) {
		r.reject("traces.endpoint", "must be http://host:port or https://host:port, perhaps with a path, without a user; what is secret belongs to headers")
	}
	headers := "traces.headers"
	if t.HeadersFile != "" {
		headers = "traces.headers_file"
	}
	if _, err := t.HeaderValues(); err != nil {
		r.reject(headers, "%v", err)
	}
	if !(t.SampleRatio >= 0 && t.SampleRatio <= 1) {
		r.reject("traces.sample_ratio", "is %v; must be 0 to 1", t.SampleRatio)
	}
	checkFiles("traces", [3]string{t.CAFile, t.CertFile, t.KeyFile}, strings.HasPrefix(t.Endpoint, "https://"), "endpoint is https://", r)
}

func isReceiver(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" &&
		u.User == nil && u.RawQuery == "" && u.Fragment == "" && !strings.Contains(s, "@")
}
