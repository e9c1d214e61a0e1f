package devstack

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// watch opens a process for waiting on it.
func watch(t *testing.T, pid int) int {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func waitGone(t *testing.T, fd int) {
	t.Helper()
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 30_000)
		if err == unix.EINTR {
			continue
		}
		must(t, err)
		if n == 0 {
			t.Fatal("still running after 30 s")
		}
		return
	}
}

func TestParentKilled(t *testing.T) {
	temp := useTempDir(t)
	cmd := exec.Command(os.Args[0])
	r, _ := startHelper(t, cmd)
	if r.Error != "" {
		t.Fatal(r.Error)
	}
	postgres, redis := watch(t, r.Postgres), watch(t, r.Redis)
	must(t, cmd.Process.Kill())
	waitGone(t, postgres)
	waitGone(t, redis)

	// The next start sweeps what is left, and nothing has to be waited for:
	// the last server process holds the lock to its end.
	locks, err := filepath.Glob(filepath.Join(temp, "*", lockName))
	must(t, err)
	if len(locks) != 2 {
		t.Fatalf("locks: %v", locks)
	}
	for _, path := range locks {
		lock, err := os.Open(path)
		must(t, err)
		must(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX)) // waits
		must(t, lock.Close())
	}
	must(t, startTestRedis(t, RedisConfig{}).Stop())
	wantEmpty(t, temp)
}

// asUser prepares a helper that runs as another user, on a copy of this program
// and a temporary directory that the user can reach.
func asUser(t *testing.T, uid, gid uint32) (*exec.Cmd, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can change to another user")
	}
	dir := openDir(t)
	program := filepath.Join(dir, "helper")
	source, err := os.Open(os.Args[0])
	must(t, err)
	defer source.Close()
	target, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY, 0o755)
	must(t, err)
	_, err = io.Copy(target, source)
	must(t, err)
	must(t, target.Close())
	temp := filepath.Join(dir, "t")
	must(t, os.Mkdir(temp, 0o700))
	must(t, os.Chown(temp, int(uid), int(gid)))
	cmd := exec.Command(program)
	cmd.Dir = temp
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	return cmd, temp
}

func TestOrdinaryUser(t *testing.T) {
	as, err := accountFor("")
	must(t, err)
	cmd, temp := asUser(t, as.uid, as.gid)
	r, stdin := startHelper(t, cmd)
	if r.Error != "" {
		t.Fatal(r.Error)
	}
	if n := query[int](t, r.URL, "SELECT 1"); n != 1 {
		t.Errorf("n = %d", n)
	}
	must(t, stdin.Close())
	must(t, cmd.Wait())
	wantEmpty(t, temp)
}

func TestNamelessUser(t *testing.T) {
	cmd, temp := asUser(t, 54321, 54321)
	r, _ := startHelper(t, cmd)
	if !strings.Contains(r.Error, "user id 54321 has no name") {
		t.Errorf("error: %q", r.Error)
	}
	_ = cmd.Wait()
	wantEmpty(t, temp)
}
