// Command stack runs a command, such as `go test ./...`, next to a PostgreSQL
// and a Redis that are there for it alone:
//
//	go run ./test/stack -- go test -race ./...
//
// The command finds them by FENCEGATE_TEST_POSTGRES_URL and
// FENCEGATE_TEST_REDIS_URL, and a gateway built with the race detector by
// FENCEGATE_TEST_GATEWAY, which package testenv reads. stack passes signals on
// and exits with the command's status, 128 and the signal's number if one ended
// it, and 125 if the command did not get to run.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/fencegate/fencegate/internal/devstack"
)

// notRun is the status for an error of stack itself.
const notRun = 125

func main() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: stack -- command [argument...]")
		os.Exit(notRun)
	}
	code, err := run(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "stack:", err)
	}
	os.Exit(code)
}

func run(args []string) (code int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	postgres, err := devstack.StartPostgres(ctx, devstack.PostgresConfig{})
	if err != nil {
		return notRun, err
	}
	defer func() { err = errors.Join(err, postgres.Stop()) }()
	redis, err := devstack.StartRedis(ctx, devstack.RedisConfig{})
	if err != nil {
		return notRun, err
	}
	defer func() { err = errors.Join(err, redis.Stop()) }()

	// From here on a signal is the command's to act on, and its end ends us.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	if ctx.Err() != nil {
		return notRun, context.Cause(ctx)
	}
	gateway, err := buildGateway()
	if err != nil {
		return notRun, err
	}
	defer os.RemoveAll(filepath.Dir(gateway))
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(),
		"FENCEGATE_TEST_POSTGRES_URL="+postgres.URL("postgres"),
		"FENCEGATE_TEST_REDIS_URL="+redis.URL(),
		"FENCEGATE_TEST_GATEWAY="+gateway)
	if err := cmd.Start(); err != nil {
		return notRun, err
	}
	return wait(cmd, signals)
}

// buildGateway builds the program once for all test programs.
func buildGateway() (string, error) {
	dir, err := os.MkdirTemp("", "fencegate-gateway-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "gateway")
	build := exec.Command("go", "build", "-race", "-o", path, "github.com/fencegate/fencegate/cmd/gateway")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return "", errors.Join(fmt.Errorf("building the gateway: %w", err), os.RemoveAll(dir))
	}
	return path, nil
}

// wait passes signals on until the command ends, and returns its status.
func wait(cmd *exec.Cmd, signals <-chan os.Signal) (int, error) {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s) // it may have just ended
		case err := <-ended:
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return notRun, err
			}
			if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
				return 128 + int(status.Signal()), nil
			}
			return cmd.ProcessState.ExitCode(), nil
		}
	}
}
