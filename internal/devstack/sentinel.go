package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// sentinelReady is in the line that a Sentinel prints last before it serves.
const sentinelReady = "+monitor master"

// SentinelConfig says what StartSentinel starts. All fields but Log are needed.
type SentinelConfig struct {
	Port       int // of 127.0.0.1
	Master     string
	MasterPort int // of 127.0.0.1
	Quorum     int
	DownAfter  time.Duration // how long a master may be silent
	Log        io.Writer     // what it prints; nil keeps it until Stop
}

// Sentinel is a running Redis Sentinel. The zero value is not usable; see
// StartSentinel.
type Sentinel struct {
	*Server
}

// StartSentinel starts a Sentinel from the program of Redis and returns when it
// takes connections. ctx bounds the start only. The error wraps ErrNotInstalled if
// there is no program to run.
func StartSentinel(ctx context.Context, config SentinelConfig) (*Sentinel, error) {
	s, err := startSentinel(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("starting a Sentinel: %w", err)
	}
	return s, nil
}

func startSentinel(ctx context.Context, config SentinelConfig) (*Sentinel, error) {
	program, err := findRedis("")
	if err != nil {
		return nil, err
	}
	as, err := accountFor("")
	if err != nil {
		return nil, err
	}
	s, err := newServer("Sentinel", config.Log, as)
	if err != nil {
		return nil, err
	}
	if err := s.bootSentinel(ctx, program, config); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return &Sentinel{s}, nil
}

func (s *Server) bootSentinel(ctx context.Context, program string, config SentinelConfig) error {
	file := filepath.Join(s.dir.join("data"), "sentinel.conf") // it writes there what it learns
	silence := config.DownAfter.Milliseconds()
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\ndaemonize no\n", config.Port, s.dir.join("data")) +
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d\n", config.Master, config.MasterPort, config.Quorum) +
		fmt.Sprintf("sentinel down-after-milliseconds %s %d\n", config.Master, silence) +
		fmt.Sprintf("sentinel failover-timeout %s %d\n", config.Master, 4*silence)
	if err := s.handOver(file, text); err != nil {
		return err
	}
	locks := []*os.File{s.dir.lock}
	s.command = func() *exec.Cmd { return s.newCmd(locks, program, file, "--sentinel") }
	s.network, s.socket = "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(config.Port))
	s.ready = sentinelReady
	s.onDeath = syscall.SIGTERM
	return s.start(ctx)
}

// Address returns the host:port that it listens on.
func (s *Sentinel) Address() string { return s.socket }
