package main

import (
	"sync/atomic"

	"github.com/fencegate/fencegate/internal/config"
)

// settings is the configuration that connections are made with from now on.
type settings struct{ now atomic.Pointer[config.Config] }

func settingsOf(cfg *config.Config) *settings {
	s := &settings{}
	s.now.Store(cfg)
	return s
}
