package main

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencegate/fencegate/client"
)

// reach is how a command reaches a gateway that runs.
type reach struct{ url, caFile, certFile, keyFile string }

func (r *reach) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.url, "url", cmp.Or(os.Getenv(envURL), defaultURL), "the gateway's `address`")
	r.tlsFlags(cmd, os.Getenv)
}

// tlsFlags adds what an https address may need, with defaults from the environment.
func (r *reach) tlsFlags(cmd *cobra.Command, from func(string) string) {
	cmd.Flags().StringVar(&r.caFile, "ca-file", from(envCAFile), "`file` with the authorities that https is checked against, PEM (default: the system's)")
	cmd.Flags().StringVar(&r.certFile, "cert-file", from(envCertFile), "`file` with a certificate to show, PEM; with --key-file")
	cmd.Flags().StringVar(&r.keyFile, "key-file", from(envKeyFile), "`file` with its key")
}

// environment hands on to a command how the gateway is reached.
func (r reach) environment() []string {
	all := []string{envURL + "=" + r.url}
	for name, value := range map[string]string{envCAFile: r.caFile, envCertFile: r.certFile, envKeyFile: r.keyFile} {
		if value != "" {
			all = append(all, name+"="+value)
		}
	}
	return all
}

// secured is nil where nothing is given.
func (r reach) secured() (*tls.Config, error) {
	if r.caFile == "" && r.certFile == "" && r.keyFile == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if r.caFile != "" {
		if c.RootCAs, err = authorities(r.caFile); err != nil {
			return nil, fmt.Errorf("reading --ca-file: %w", err)
		}
	}
	if r.certFile != "" || r.keyFile != "" {
		pair, err := tls.LoadX509KeyPair(r.certFile, r.keyFile)
		if err != nil {
			return nil, fmt.Errorf("reading --cert-file and --key-file: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// sdk returns a client of the SDK that asks under name.
func (r reach) sdk(name string) (*client.Client, error) {
	secured, err := r.secured()
	if err != nil {
		return nil, err
	}
	return client.New(client.Config{URL: r.url, TLS: secured, Credential: bearer(), Client: name, Patience: callPatience})
}

// do sends one request, whose URL is a path so far. Its connection is not kept: a
// command has few requests.
func (r reach) do(req *http.Request) (*http.Response, error) {
	secured, err := r.secured()
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig, transport.DisableKeepAlives = secured, true
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, &exitError{exitUnavailable, err}
	}
	return resp, nil
}

// address is where a path of the gateway is.
func (r reach) address(path string) string { return strings.TrimSuffix(r.url, "/") + path }
