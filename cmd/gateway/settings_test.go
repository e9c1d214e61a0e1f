package main

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/config"
)

func TestNewConnectionsHaveThePasswordOfNow(t *testing.T) {
	t.Parallel()
	s := settingsOf(&config.Config{Database: config.Database{URL: "postgres://app:one@db/legacy", Pooler: config.PoolerNone}})
	s.now.Store(&config.Config{Database: config.Database{URL: "postgres://app:two@db/legacy", Pooler: config.PoolerNone}})
	conn, err := pgx.ParseConfig("postgres://app:one@db/legacy")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.beforeConnect(t.Context(), conn); err != nil || conn.Password != "two" {
		t.Errorf("password %q, %v", conn.Password, err)
	}
}
