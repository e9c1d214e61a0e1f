package devstack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// account is the user that a server runs as. The zero value is the user of this
// process, which need not drop anything.
type account struct {
	drop     bool
	name     string
	uid, gid uint32
}

// accountFor picks the user: PostgreSQL refuses to run as root, so root becomes
// the owner of dataDir if it has an ordinary one, else postgres, else nobody.
func accountFor(dataDir string) (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	if info, err := os.Stat(dataDir); dataDir != "" && err == nil {
		if stat := info.Sys().(*syscall.Stat_t); stat.Uid != 0 {
			return account{drop: true, name: userName(stat.Uid), uid: stat.Uid, gid: stat.Gid}, nil
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
		if uidErr == nil && gidErr == nil {
			return account{drop: true, name: name, uid: uint32(uid), gid: uint32(gid)}, nil
		}
	}
	return account{}, errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor nobody to run it as; use an ordinary user")
}

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if found, err := user.LookupId(id); err == nil {
		return found.Username
	}
	return "id " + id
}

func (a account) credential() *syscall.Credential {
	if !a.drop {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}

func (a account) chown(path string) error {
	if !a.drop {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}

// checkReach returns an error naming the first directory on the way to dir, or
// dir itself, that the account cannot enter. Access lists are not looked at. It
// checks nothing for a user that stays the same.
func (a account) checkReach(dir string) error {
	if !a.drop {
		return nil
	}
	var way []string
	for at := dir; ; at = filepath.Dir(at) {
		way = append(way, at)
		if at == filepath.Dir(at) {
			break
		}
	}
	slices.Reverse(way)
	for _, at := range way {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		if !a.mayEnter(info) {
			return fmt.Errorf("user %s, which the server runs as, cannot enter %s (%s): use a directory outside of it, or run `chmod o+x %s`, or start as an ordinary user",
				a.name, at, info.Mode(), at)
		}
	}
	return nil
}

func (a account) mayEnter(info fs.FileInfo) bool {
	stat := info.Sys().(*syscall.Stat_t)
	switch {
	case stat.Uid == a.uid:
		return info.Mode()&0o100 != 0
	case stat.Gid == a.gid:
		return info.Mode()&0o010 != 0
	}
	return info.Mode()&0o001 != 0
}

// prepareDataDir makes dir if it is not there, hands an empty one to the
// account, and returns its absolute path without symbolic links.
func prepareDataDir(dir string, as account) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(abs), 0o755); err != nil {
		return "", err
	}
	if err := os.Mkdir(abs, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", err
	}
	entries, err := os.ReadDir(real)
	if err != nil {
		return "", err
	}
	if len(entries) == 0 {
		if err := as.chown(real); err != nil {
			return "", err
		}
	}
	return real, as.checkReach(filepath.Dir(real))
}
