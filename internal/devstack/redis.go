package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// redisReady begins the line for TCP and ends the one for the Unix socket.
const redisReady = "ready to accept connections"

// RedisConfig says what StartRedis starts. The zero value: the Redis found
// first, in memory only, on a Unix socket.
type RedisConfig struct {
	Path    string    // the server program; "" searches
	DataDir string    // keeps an append-only file; "" keeps nothing over a Halt or Kill
	Port    int       // also listen on this TCP port of 127.0.0.1; 0 does not
	Args    []string  // more arguments, over this package's
	Log     io.Writer // what the server prints; nil keeps it until Stop
}

// Redis is a running Redis. The zero value is not usable; see StartRedis.
type Redis struct {
	*Server
	port int
}

// StartRedis starts a Redis without a password and returns when it takes
// connections. ctx bounds the start only. The error wraps ErrNotInstalled if
// there is no program to run, and quotes the server's last lines if it did not
// come up.
func StartRedis(ctx context.Context, config RedisConfig) (*Redis, error) {
	r, err := startRedis(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("starting Redis: %w", err)
	}
	return r, nil
}

func startRedis(ctx context.Context, config RedisConfig) (*Redis, error) {
	program, err := findRedis(config.Path)
	if err != nil {
		return nil, err
	}
	as, err := accountFor(config.DataDir)
	if err != nil {
		return nil, err
	}
	if err := as.checkReach(filepath.Dir(program)); err != nil {
		return nil, err
	}
	s, err := newServer("Redis", config.Log, as)
	if err != nil {
		return nil, err
	}
	if err := s.bootRedis(ctx, program, config); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return &Redis{Server: s, port: config.Port}, nil
}

func (s *Server) bootRedis(ctx context.Context, program string, config RedisConfig) error {
	data, appendOnly, locks := s.dir.join("data"), "no", []*os.File{s.dir.lock}
	if config.DataDir != "" {
		var err error
		if data, err = prepareDataDir(config.DataDir, s.as); err != nil {
			return fmt.Errorf("preparing the data directory: %w", err)
		}
		lock, err := s.lockData(data)
		if err != nil {
			return err
		}
		s.onRemove = append(s.onRemove, lock)
		appendOnly, locks = "yes", append(locks, lock)
	}
	s.socket = filepath.Join(s.dir.join("run"), "redis.sock")
	args := []string{
		"--port", strconv.Itoa(config.Port), "--bind", "127.0.0.1",
		"--unixsocket", s.socket, "--unixsocketperm", "700",
		"--dir", data, "--save", "", "--appendonly", appendOnly,
		"--daemonize", "no", "--maxmemory-policy", "noeviction",
	}
	args = append(args, config.Args...)
	s.command = func() *exec.Cmd { return s.newCmd(locks, program, args...) }
	s.ready = redisReady
	s.onDeath = syscall.SIGTERM
	return s.start(ctx)
}

// lockData keeps two servers off the same files, which Redis itself does not:
// above all one that is still stopping after its parent was killed.
func (s *Server) lockData(data string) (*os.File, error) {
	path := filepath.Join(data, "fencegate.lock")
	lock, err := takeLock(path, os.O_CREATE)
	if errors.Is(err, errLost) {
		return nil, fmt.Errorf("another server uses the data directory %s, or has not quite ended", data)
	}
	if err != nil {
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	if err := s.as.chown(path); err != nil {
		lock.Close()
		return nil, err
	}
	return lock, nil
}

// URL returns the server's address as go-redis's ParseURL takes it: the Unix
// socket, or the TCP port if one was asked for. It stays the same over a
// Restart.
func (r *Redis) URL() string {
	if r.port != 0 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port))
		return (&url.URL{Scheme: "redis", Host: address, Path: "/0"}).String()
	}
	return (&url.URL{Scheme: "unix", Path: r.socket}).String()
}
