// Command screenshots runs a gateway of `gateway dev`, plays the story of a paused
// worker with others at work around it, and writes what the dashboard shows of it to
// a directory:
//
//	go run ./test/screenshots docs/screenshots
//
// It takes about a minute: the pause is a real one.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: screenshots directory")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	tmp, err := os.MkdirTemp("", "fg-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	program := filepath.Join(tmp, "gateway")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/gateway").CombinedOutput(); err != nil {
		return fmt.Errorf("building the gateway: %w\n%s", err, out)
	}
	g, err := start(ctx, program)
	if err != nil {
		return err
	}
	defer g.stop()
	if err := letPast(ctx, g.database); err != nil {
		return err
	}
	record, err := play(ctx, g.url)
	if err != nil {
		return err
	}
	return photograph(ctx, g.dashboard, record, dir)
}

// gateway is a running `gateway dev`.
type gateway struct {
	url, dashboard, database string
	cmd                      *exec.Cmd
}

var greeting = regexp.MustCompile(`^\s+(gateway|dashboard|PostgreSQL) +(\S+://\S+)`)

func start(ctx context.Context, program string) (*gateway, error) {
	g := &gateway{cmd: exec.CommandContext(ctx, program, "dev", "--listen", "127.0.0.1:0", "--admin-listen", "localhost:0")}
	g.cmd.Env = append(os.Environ(), "DATABASE_URL=", "REDIS_URL=")
	g.cmd.Stderr = os.Stderr
	out, err := g.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	places := map[string]*string{"gateway": &g.url, "dashboard": &g.dashboard, "PostgreSQL": &g.database}
	for len(places) > 0 && lines.Scan() {
		if found := greeting.FindStringSubmatch(lines.Text()); found != nil {
			*places[found[1]] = found[2]
			delete(places, found[1])
		}
	}
	if len(places) > 0 {
		return nil, fmt.Errorf("the gateway did not start: %w", g.cmd.Wait())
	}
	go func() {
		for lines.Scan() {
		}
	}()
	return g, nil
}

func (g *gateway) stop() {
	g.cmd.Process.Signal(syscall.SIGTERM)
	g.cmd.Wait()
}
