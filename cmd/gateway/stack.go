package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/pflag"

	"github.com/fencegate/fencegate/internal/config"
	"github.com/fencegate/fencegate/internal/devstack"
	migrations "github.com/fencegate/fencegate/sql"
)

// stack is what `dev` and `demo` run on: servers of their own, unless the
// environment names others, with the schema and a small legacy shop in place.
type stack struct {
	databaseURL string
	redisURL    string
	own         []*devstack.Server
	kept        string // the data directory, "": in memory
}

// startStack takes DATABASE_URL and REDIS_URL from the environment and starts
// what is not named there. dataDir "" keeps nothing.
func startStack(ctx context.Context, dataDir string) (_ *stack, err error) {
	s := &stack{databaseURL: os.Getenv("DATABASE_URL"), redisURL: os.Getenv("REDIS_URL"), kept: dataDir}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	if err = s.startPostgres(ctx, dataDir); err != nil {
		return nil, err
	}
	if err = s.startRedis(ctx, dataDir); err != nil {
		return nil, err
	}
	if err = migrations.Up(ctx, s.databaseURL); err != nil {
		return nil, fmt.Errorf("migrating: %w", err)
	}
	return s, s.openShop(ctx)
}

func (s *stack) startPostgres(ctx context.Context, dataDir string) error {
	if s.databaseURL != "" {
		return nil
	}
	server, err := devstack.StartPostgres(ctx, devstack.PostgresConfig{DataDir: below(dataDir, "postgres")})
	if err != nil {
		return err
	}
	s.own = append(s.own, server.Server)
	s.databaseURL = server.URL("postgres")
	return nil
}

func (s *stack) startRedis(ctx context.Context, dataDir string) error {
	if s.redisURL != "" {
		return nil
	}
	server, err := devstack.StartRedis(ctx, devstack.RedisConfig{DataDir: below(dataDir, "redis")})
	if err != nil {
		return err
	}
	s.own = append(s.own, server.Server)
	s.redisURL = server.URL()
	return nil
}

func below(dir, name string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, name)
}

func (s *stack) openShop(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.databaseURL)
	if err != nil {
		return fmt.Errorf("connecting to the database: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, devstack.Shop); err != nil {
		return fmt.Errorf("creating the legacy schema shop: %w", err)
	}
	return nil
}

// stop ends the servers that startStack started, Redis before PostgreSQL.
func (s *stack) stop() error {
	var faults []error
	for i := len(s.own) - 1; i >= 0; i-- {
		faults = append(faults, s.own[i].Stop())
	}
	return errors.Join(faults...)
}

// config returns the configuration of a gateway on this stack.
func (s *stack) config(listen, admin string, flags *pflag.FlagSet) (*config.Config, error) {
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
	text := fmt.Sprintf("listen: %s\nadmin_listen: %s\nauth: none\nlog: {format: text, level: warn}\ndatabase: {url: %s}\nredis: {url: %s}\n",
		quote(listen), quote(admin), quote(s.databaseURL), quote(s.redisURL))
	return config.Parse("configuration", []byte(text+devstack.ShopTables), nil, flags)
}
