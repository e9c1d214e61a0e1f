package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/catalog"
)

// notified reads the protected tables anew when the database is told to say so:
//
//	NOTIFY fencegate, 'reload'
//
// It listens on a connection of its own, since a pool's come and go.
type notified struct {
	settings *settings
	tables   func() *catalog.Catalog // that are served now
	log      *slog.Logger
}

// The pause before it dials again, from one attempt to the next.
const (
	shortestPause = 200 * time.Millisecond
	longestPause  = 10 * time.Second
)

// Run listens until ctx ends, and returns nil: the gateway serves on without it.
func (n *notified) Run(ctx context.Context) error {
	pause, down := shortestPause, false
	for {
		conn, err := n.dial(ctx)
		if err == nil {
			pause, down = shortestPause, false
			err = n.obey(ctx, conn)
		}
		if ctx.Err() != nil {
			return nil
		}
		if !down {
			down = true
			n.log.Warn("NOTIFY fencegate is not heard until the database can be reached again", "error", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, longestPause)
	}
}

// dial listens, and then looks once for what was notified while nobody did.
func (n *notified) dial(ctx context.Context) (*pgx.Conn, error) {
	c, err := connections(n.settings.now.Load())
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, c.ConnConfig.ConnectTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(bounded, c.ConnConfig)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(bounded, `LISTEN fencegate`); err != nil {
		hangUp(ctx, conn)
		return nil, err
	}
	if err := n.tables().Refresh(ctx); err != nil {
		n.log.Error(notReread, "error", err)
	}
	n.log.Info("listening for NOTIFY fencegate")
	return conn, nil
}

// obey does what is notified until the connection or ctx ends.
func (n *notified) obey(ctx context.Context, conn *pgx.Conn) error {
	defer hangUp(ctx, conn)
	for {
		said, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if said.Payload == "reload" {
			reread(ctx, n.tables(), n.log)
		}
	}
}

// hangUp does not wait for a server that is gone.
func hangUp(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	conn.Close(ctx)
}

const notReread = "the protected tables could not be read anew; the gateway goes on with what it knows"

// reread reads the protected tables anew; when that fails, the gateway goes on
// with what it knows.
func reread(ctx context.Context, tables *catalog.Catalog, log *slog.Logger) {
	if err := tables.Refresh(ctx); err != nil {
		log.Error(notReread, "error", err)
		return
	}
	log.Info("the protected tables were read anew")
}
