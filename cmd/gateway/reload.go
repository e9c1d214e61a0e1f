package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fencegate/fencegate/internal/config"
)

// reloadTime bounds reading the configuration anew and checking it.
const reloadTime = 30 * time.Second

// obeyHangUps reads the configuration anew at each SIGHUP.
func (h *house) obeyHangUps(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.hangUps:
		}
		if h.file == nil {
			reread(ctx, h.tables(), h.log)
			continue
		}
		h.reload(ctx)
	}
}

// reload takes the configuration over as the file has it now, whole or not at all.
func (h *house) reload(ctx context.Context) {
	h.supervisor.tell(tellReloading)
	defer h.supervisor.tell(tellReady)
	before := h.now.Load()
	next, shown, err := h.prepare(ctx, before)
	h.metrics.Reloaded(err)
	if err != nil {
		h.log.Error("the configuration could not be read anew; the gateway goes on with the one it has", "error", err)
		return
	}
	h.adopt(next, shown)
	before.end()
	level := levelOf(next.config.Log)
	h.file.level.Set(min(level, h.file.level.Level())) // until it is told
	h.log.Info("the configuration was read anew", "changed", next.config.Changes(before.config))
	h.file.level.Set(level)
}

// prepare reads and checks all that the file wants, and changes nothing.
func (h *house) prepare(ctx context.Context, before *generation) (next *generation, shown bothCertificates, err error) {
	ctx, cancel := context.WithTimeout(ctx, reloadTime)
	defer cancel()
	cfg, err := h.file.read()
	if err != nil {
		return nil, shown, err
	}
	if shown, err = loadCertificates(cfg); err != nil {
		return nil, shown, err
	}
	if err := checkSecrets(ctx, before.config, cfg); err != nil {
		return nil, shown, err
	}
	next, err = h.grow(ctx, cfg, before)
	return next, shown, err
}

// checkSecrets tries the passwords that are new.
func checkSecrets(ctx context.Context, before, cfg *config.Config) error {
	if cfg.Database.URL != before.Database.URL {
		if err := checkSchema(ctx, cfg); err != nil {
			return err
		}
	}
	was, is := before.Redis, cfg.Redis
	if is.URL == was.URL && slices.Equal(is.Redlock.URLs, was.Redlock.URLs) && is.Username == was.Username && is.Password == was.Password {
		return nil
	}
	if err := askLocks(ctx, cfg); err != nil {
		return fmt.Errorf("logging in at the lock service anew: %w", err)
	}
	return nil
}

// adopt makes next what is served from now on. Requests that are under way end
// as they began.
func (h *house) adopt(next *generation, shown bothCertificates) {
	cfg := next.config
	h.settings.now.Store(cfg)
	h.audit.KeepFor(cfg.Audit.KeepRefusals)
	h.bounds.Bound(cfg.Limits.MaxConnections)
	h.public.certificates.adopt(shown.public)
	if h.admin != nil {
		h.admin.certificates.adopt(shown.admin)
	}
	h.now.Store(next)
	h.pools.reset() // their sessions have the settings of before
}
