package devstack

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// stale makes what a killed process leaves: no one holds its lock.
func stale(t *testing.T, base string) string {
	t.Helper()
	dir, err := makeLocked(base)
	must(t, err)
	must(t, dir.populate(account{}))
	must(t, os.WriteFile(filepath.Join(dir.path, "data", "file"), nil, 0o600))
	must(t, dir.lock.Close())
	return dir.path
}

func TestSweep(t *testing.T) {
	base, outside := useTempDir(t), openDir(t)
	foreign := stale(t, base)
	must(t, os.WriteFile(filepath.Join(foreign, "mine.txt"), nil, 0o600))
	linked := filepath.Join(base, "fencegate-1")
	must(t, os.Symlink(stale(t, outside), linked))
	inner := stale(t, base)
	must(t, os.Symlink(outside, filepath.Join(inner, "data", "link")))
	other := filepath.Join(base, "fencegate-2")
	must(t, os.Mkdir(other, 0o700))
	must(t, os.WriteFile(filepath.Join(other, "file"), nil, 0o600))
	named := filepath.Join(base, "fencegate-data")
	must(t, os.Mkdir(named, 0o700))
	unlocked := filepath.Join(base, "fencegate-3")
	must(t, os.Mkdir(unlocked, 0o700))
	stale(t, base)
	used, err := makeLocked(base)
	must(t, err)
	sweep(base)
	left, err := filepath.Glob(filepath.Join(base, "*"))
	must(t, err)
	want := []string{foreign, linked, other, named, used.path}
	slices.Sort(want)
	if !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
	if left, _ := filepath.Glob(filepath.Join(outside, "*", lockName)); len(left) != 1 {
		t.Error("the sweep followed a symbolic link")
	}
	must(t, used.remove())
}

func TestSweepOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to give a directory away")
	}
	base := useTempDir(t)
	path := stale(t, base)
	must(t, os.Chown(path, 12345, 12345))
	sweep(base)
	if _, err := os.Stat(path); err != nil {
		t.Errorf("another user's directory: %v", err)
	}
}

// TestSweepRace has many starts sweep each other's directories while they are
// being made.
func TestSweepRace(t *testing.T) {
	base := useTempDir(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				dir, err := newTempDir(account{})
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Stat(dir.join("run")); err != nil {
					t.Error(err)
				}
				if err := dir.remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	wantEmpty(t, base)
}

func TestLongTempDir(t *testing.T) {
	long := filepath.Join(openDir(t), strings.Repeat("x", 90))
	must(t, os.Mkdir(long, 0o755))
	t.Setenv("TMPDIR", long)
	base, err := tempBase(account{})
	must(t, err)
	if base != "/tmp" {
		t.Errorf("base %s", base)
	}
}

func TestDataDirOutOfReach(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root changes to another user")
	}
	useTempDir(t)
	closed := filepath.Join(openDir(t), "closed")
	must(t, os.Mkdir(closed, 0o700))
	_, err := StartPostgres(t.Context(), PostgresConfig{DataDir: filepath.Join(closed, "data")})
	if err == nil || !strings.Contains(err.Error(), "cannot enter "+closed+" ") {
		t.Errorf("error: %v", err)
	}
}
