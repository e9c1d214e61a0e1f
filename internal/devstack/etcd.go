package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// etcdReady is printed by a member that has found its leader.
const etcdReady = "ready to serve client requests"

// Etcd is one member of a running etcd. The zero value is not usable; see
// StartEtcd.
type Etcd struct {
	*Server
	endpoint string
}

// StartEtcd starts an etcd of that many members, which keep nothing over a Stop,
// and returns when all take connections. ctx bounds the start only; log gets what
// they print, nil keeps it until Stop. The error wraps ErrNotInstalled if there is
// no program to run.
func StartEtcd(ctx context.Context, members int, log io.Writer) ([]*Etcd, error) {
	all, err := startEtcd(ctx, members, log)
	if err != nil {
		return nil, fmt.Errorf("starting etcd: %w", err)
	}
	return all, nil
}

func startEtcd(ctx context.Context, members int, log io.Writer) ([]*Etcd, error) {
	program, err := findEtcd()
	if err != nil {
		return nil, err
	}
	ports, err := FreePorts(2 * members)
	if err != nil {
		return nil, err
	}
	peers := make([]string, members)
	for i := range peers {
		peers[i] = fmt.Sprintf("m%d=http://127.0.0.1:%d", i, ports[members+i])
	}
	all := make([]*Etcd, members)
	group, ctx := errgroup.WithContext(ctx) // none is ready before a majority is there
	for i := range all {
		group.Go(func() (err error) {
			all[i], err = startMember(ctx, program, fmt.Sprint("m", i), ports[i], peers, log)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		for _, m := range all {
			if m != nil {
				err = errors.Join(err, m.Stop())
			}
		}
		return nil, err
	}
	return all, nil
}

func startMember(ctx context.Context, program, name string, port int, peers []string, log io.Writer) (*Etcd, error) {
	as, err := accountFor("")
	if err != nil {
		return nil, err
	}
	s, err := newServer("etcd", log, as)
	if err != nil {
		return nil, err
	}
	s.network, s.socket = "tcp", fmt.Sprint("127.0.0.1:", port)
	endpoint := "http://" + s.socket
	var peer string
	for _, one := range peers {
		if at, mine := strings.CutPrefix(one, name+"="); mine {
			peer = at
		}
	}
	args := []string{
		"--name", name, "--data-dir", s.dir.join("data"),
		"--listen-client-urls", endpoint, "--advertise-client-urls", endpoint,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", strings.Join(peers, ","), "--initial-cluster-state", "new",
		"--heartbeat-interval", "100", "--election-timeout", "1000",
		"--unsafe-no-fsync", // a killed process loses nothing by it
	}
	locks := []*os.File{s.dir.lock}
	s.command = func() *exec.Cmd { return s.newCmd(locks, program, args...) }
	s.ready = etcdReady
	s.onDeath = syscall.SIGTERM
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return &Etcd{Server: s, endpoint: endpoint}, nil
}

// Endpoint returns the member's URL for clients. It stays the same over a Restart.
func (e *Etcd) Endpoint() string { return e.endpoint }
