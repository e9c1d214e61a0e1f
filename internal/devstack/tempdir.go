package devstack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	tempPrefix = "fencegate-"
	lockName   = "lock"
	// socketBytes is the shortest limit on a socket's path (macOS), NUL included;
	// Linux allows 108.
	socketBytes   = 104
	longestSocket = tempPrefix + "4294967295/run/.s.PGSQL.5432"
)

var (
	tempName  = regexp.MustCompile(`^` + tempPrefix + `[0-9]+$`)
	tempFiles = []string{"data", lockName, "log", "run"}
	errLost   = errors.New("lost to a sweep")
)

// tempDir is a directory for one server:
//
//	lock  locked by this process and, by inheritance, by the server; so it can
//	      be locked again exactly when nobody uses the directory any more
//	run/  the server's: its sockets
//	data/ the server's: its files, unless it was given a data directory
//	log   what it printed, unless it was given a writer
type tempDir struct {
	path string
	lock *os.File
}

// newTempDir removes what dead processes left, then makes a directory.
func newTempDir(as account) (*tempDir, error) {
	base, err := tempBase(as)
	if err != nil {
		return nil, err
	}
	sweep(base)
	dir, err := makeLocked(base)
	if err != nil {
		return nil, err
	}
	if err := dir.populate(as); err != nil {
		return nil, errors.Join(err, dir.remove())
	}
	return dir, nil
}

// tempBase is os.TempDir, or /tmp if that is too long for a socket's path or
// closed to the server's user.
func tempBase(as account) (string, error) {
	var errs []error
	for _, base := range []string{os.TempDir(), "/tmp"} {
		base, err := filepath.Abs(base)
		if err == nil {
			err = as.checkReach(base)
		}
		if path := filepath.Join(base, longestSocket); err == nil && len(path) >= socketBytes {
			err = fmt.Errorf("%s is too long for a socket's path (%d bytes, %d allowed)", path, len(path), socketBytes-1)
		}
		if err == nil {
			return base, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("finding a temporary directory: %w", errors.Join(errs...))
}

// makeLocked retries: a sweep that runs at the same time may take a directory
// in the moment between its making and its locking.
func makeLocked(base string) (*tempDir, error) {
	for range 1000 {
		path, err := os.MkdirTemp(base, tempPrefix)
		if err != nil {
			return nil, err
		}
		lock, err := takeLock(filepath.Join(path, lockName), os.O_CREATE|os.O_EXCL)
		if err == nil {
			return &tempDir{path: path, lock: lock}, nil
		}
		if !errors.Is(err, errLost) {
			_ = os.Remove(path)
			return nil, err
		}
	}
	return nil, fmt.Errorf("making a directory in %s: %w every time", base, errLost)
}

// takeLock opens and locks a file without waiting. It returns errLost if someone
// else holds the lock, or has removed the file before it was locked.
func takeLock(path string, flags int) (*os.File, error) {
	file, err := os.OpenFile(path, flags|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if errors.Is(err, fs.ErrNotExist) && flags&os.O_CREATE != 0 {
		return nil, errLost // the directory has gone
	}
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errLost
	}
	if err == nil && !stillAt(path, file) {
		err = errLost
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func stillAt(path string, file *os.File) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, now)
}

// populate makes the server's subdirectories, and lets its user pass through.
func (d *tempDir) populate(as account) error {
	if as.drop {
		if err := os.Chmod(d.path, 0o711); err != nil {
			return err
		}
	}
	for _, name := range []string{"run", "data"} {
		path := filepath.Join(d.path, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
		if err := as.chown(path); err != nil {
			return err
		}
	}
	return nil
}

func (d *tempDir) join(name string) string { return filepath.Join(d.path, name) }

// remove removes the directory, then gives the lock up. The lock file goes last
// so that a removal cut short is finished by the next sweep.
func (d *tempDir) remove() error {
	removeSharedMemory(d.join("data"))
	var errs []error
	for _, name := range tempFiles {
		if name != lockName {
			errs = append(errs, os.RemoveAll(d.join(name)))
		}
	}
	err := errors.Join(errs...)
	if err == nil {
		err = os.Remove(d.join(lockName))
	}
	// Without its lock file, a sweep may be the quicker one.
	if removeErr := os.Remove(d.path); err == nil && !errors.Is(removeErr, fs.ErrNotExist) {
		err = removeErr
	}
	d.lock.Close()
	return err
}

// sweep removes the directories in base whose process and server have ended.
// Errors are left for the next sweep: nothing waits for the space.
func sweep(base string) {
	entries, _ := os.ReadDir(base)
	for _, entry := range entries {
		if entry.IsDir() && tempName.MatchString(entry.Name()) {
			sweepOne(filepath.Join(base, entry.Name()))
		}
	}
}

// sweepOne goes by what only makeLocked makes: a real directory of this user, of
// that name, with a lock file and nothing else that is not its own.
func sweepOne(path string) {
	if info, err := os.Lstat(path); err != nil || !info.IsDir() || !isMine(info) {
		return
	}
	lock, err := takeLock(filepath.Join(path, lockName), 0)
	if errors.Is(err, fs.ErrNotExist) {
		_ = os.Remove(path) // works on an empty directory only
		return
	}
	if err != nil {
		return
	}
	dir := &tempDir{path: path, lock: lock}
	info, err := lock.Stat()
	entries, readErr := os.ReadDir(path)
	foreign := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !slices.Contains(tempFiles, e.Name()) })
	if err != nil || readErr != nil || !info.Mode().IsRegular() || !isMine(info) || foreign {
		lock.Close()
		return
	}
	_ = dir.remove()
}

func isMine(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
