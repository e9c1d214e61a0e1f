package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencegate/fencegate/internal/config"
)

func newHealthcheck() *cobra.Command {
	var path, url string
	var to reach
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "healthcheck --config FILE | --url URL",
		Short: "Ask a running gateway whether it is ready, for containers",
		Long: "Asks /readyz of the admin listener, and prints one line. Exit code 0: database and\n" +
			"lock service answer, and the gateway is not stopping; else 1. An admin_listen with TLS is\n" +
			"checked against its own cert_file, or against --ca-file.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			secured, err := to.secured()
			if err != nil {
				return err
			}
			if url == "" {
				cfg, err := loadConfig(cmd, path)
				if err != nil {
					return err
				}
				if url, err = readyzOf(cfg.Admin); err != nil {
					return err
				}
				if cfg.AdminTLS.On() {
					url = "https" + strings.TrimPrefix(url, "http")
					if secured, err = trustOwn(secured, cfg.AdminTLS); err != nil {
						return err
					}
				}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return askReady(ctx, url, secured, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration `file`, whose admin_listen is asked")
	cmd.Flags().StringVar(&url, "url", "", "the `address` to ask instead, such as http://127.0.0.1:9090/readyz or an https one")
	to.tlsFlags(cmd, func(string) string { return "" })
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Second, "how long the answer may take")
	cmd.MarkFlagsMutuallyExclusive("config", "url")
	config.Flags(cmd.Flags())
	return cmd
}

// readyzOf returns the address of the probe: a listener on all addresses is asked on
// loopback.
func readyzOf(admin string) (string, error) {
	if admin == config.AdminOff {
		return "", errors.New("admin_listen is off: there is nothing to ask")
	}
	host, port, err := net.SplitHostPort(admin)
	if err != nil {
		return "", fmt.Errorf("reading admin_listen: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port) + "/readyz", nil
}

// trustOwn checks the listener against the certificate that its own file holds: it is
// asked on an address that the certificate need not name. Authorities that are given
// count instead, with the names.
func trustOwn(given *tls.Config, files config.TLS) (*tls.Config, error) {
	if given != nil && given.RootCAs != nil {
		return given, nil
	}
	pool, err := authorities(files.CertFile)
	if err != nil {
		return nil, fmt.Errorf("reading admin_tls.cert_file: %w", err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true} // VerifyConnection does
	if given != nil {
		c.Certificates = given.Certificates
	}
	c.VerifyConnection = func(s tls.ConnectionState) error {
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: pool})
		return err
	}
	return c, nil
}

// longestLine is how much of an answer is shown.
const longestLine = 200

func askReady(ctx context.Context, url string, secured *tls.Config, out io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("reading the address: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: secured}} // past any proxy of the environment
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("asking: %w", err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, longestLine)) // the status says it all
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %d %s", answer.StatusCode, line)
	}
	fmt.Fprintln(out, "ready")
	return nil
}
