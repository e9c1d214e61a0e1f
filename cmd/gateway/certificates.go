package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencegate/fencegate/internal/config"
)

// certificates is what a listener shows and asks of its clients. Files that change
// on disk are taken over at a handshake, without a signal: who renews certificates
// seldom knows whom to tell. What can't be taken over leaves the old in place.
type certificates struct {
	log *slog.Logger
	now atomic.Pointer[shownCertificate]

	mu     sync.Mutex
	looked time.Time   // guarded by mu
	failed []fileState // of files that could not be taken over; guarded by mu
}

// lookEvery is how often handshakes look whether the files have changed.
const lookEvery = time.Second

// shownCertificate is a certificate, as its files were when they were read.
type shownCertificate struct {
	section string // of the configuration
	files   config.TLS
	read    []fileState
	server  *tls.Config
	ends    time.Time
}

// fileState tells a file from what it was before.
type fileState struct {
	name     string
	modified time.Time
	size     int64
}

// loadCertificate reads the files of a section; nil: there are none.
func loadCertificate(section string, files config.TLS) (*shownCertificate, error) {
	if !files.On() {
		return nil, nil
	}
	i := &shownCertificate{section: section, files: files, read: statesOf(files)}
	pair, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("%s: reading cert_file and key_file: %w", section, err)
	}
	i.ends = pair.Leaf.NotAfter
	i.server = &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		Certificates: []tls.Certificate{pair},
	}
	if files.ClientCAFile == "" {
		return i, nil
	}
	if i.server.ClientCAs, err = authorities(files.ClientCAFile); err != nil {
		return nil, fmt.Errorf("%s: reading client_ca_file: %w", section, err)
	}
	// A resumed session would outlive the authority that vouched for it.
	i.server.SessionTicketsDisabled = true
	i.server.ClientAuth = tls.RequireAndVerifyClientCert
	if files.ClientAuth == config.ClientAuthIfGiven {
		i.server.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return i, nil
}

func authorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", file)
	}
	return pool, nil
}

// statesOf follows symbolic links, which is how Kubernetes exchanges files.
func statesOf(files config.TLS) (all []fileState) {
	for _, name := range []string{files.CertFile, files.KeyFile, files.ClientCAFile} {
		v := fileState{name: name}
		if info, err := os.Stat(name); err == nil {
			v.modified, v.size = info.ModTime(), info.Size()
		}
		all = append(all, v)
	}
	return all
}

// openCertificates returns nil for a listener without TLS.
func openCertificates(section string, files config.TLS, log *slog.Logger) (*certificates, error) {
	i, err := loadCertificate(section, files)
	if i == nil || err != nil {
		return nil, err
	}
	c := &certificates{log: log}
	c.adopt(i)
	return c, nil
}

// adopt shows i from the next handshake on. Without TLS there is none.
func (c *certificates) adopt(i *shownCertificate) {
	if c == nil || i == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.Store(i)
	c.failed = nil
}

// config is the configuration of a server that shows what is there at each
// handshake.
func (c *certificates) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c.look()
		return c.now.Load().server, nil
	}}
}

// look takes over files that have changed. What is wrong with them is told once.
func (c *certificates) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < lookEvery {
		return
	}
	c.looked = time.Now()
	known := c.now.Load()
	found := statesOf(known.files)
	if slices.Equal(found, known.read) || slices.Equal(found, c.failed) {
		return
	}
	next, err := loadCertificate(known.section, known.files)
	if err != nil {
		c.failed = found
		c.log.Error("a changed certificate could not be read; the old one stays", "error", err)
		return
	}
	c.failed = nil
	c.now.Store(next)
	c.log.Info("a changed certificate was read", "section", known.section, "ends", next.ends)
}

// bothCertificates are those of both listeners.
type bothCertificates struct{ public, admin *shownCertificate }

// loadCertificates reads the files of both listeners.
func loadCertificates(cfg *config.Config) (all bothCertificates, err error) {
	public, fault := loadCertificate("tls", cfg.TLS)
	admin, otherFault := loadCertificate("admin_tls", cfg.AdminTLS)
	return bothCertificates{public, admin}, errors.Join(fault, otherFault)
}

// ends returns when each certificate that is shown ends, by its listener.
func (h *house) ends() map[string]time.Time {
	all := map[string]time.Time{}
	for name, l := range map[string]*listener{"public": h.public, "admin": h.admin} {
		if l != nil && l.certificates != nil {
			all[name] = l.certificates.now.Load().ends
		}
	}
	return all
}
