package devstack

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// serverLocale is a UTF-8 locale that needs no locale files.
const serverLocale = "C.UTF-8"

// sysProcAttr puts a child in a process group of its own, so that Ctrl-C in the
// terminal reaches only the parent, and has it signalled if the parent dies.
func sysProcAttr(onParentDeath syscall.Signal, credential *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: onParentDeath, Credential: credential}
}

// childrenOf lists the direct children of pid. PostgreSQL puts each in a
// session of its own, so that signalling the process group would miss them.
func childrenOf(pid int) []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var children []int
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // ended meanwhile
		}
		// pid (name, which may hold anything) state ppid ...
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		if child, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			children = append(children, child)
		}
	}
	return children
}

// postgresMagic starts every shared memory segment of PostgreSQL.
const postgresMagic = 679834894

// removeSharedMemory removes the System V segment that a killed postgres left:
// only its next start would, and a temporary data directory has none. The
// segment must carry PostgreSQL's mark and the process id in postmaster.pid.
func removeSharedMemory(dataDir string) {
	text, err := os.ReadFile(filepath.Join(dataDir, "postmaster.pid"))
	if err != nil {
		return // an orderly end removes the file, and the segment
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 7 {
		return
	}
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	segment := strings.Fields(lines[6]) // key, id
	if err != nil || len(segment) != 2 {
		return
	}
	id, err := strconv.Atoi(segment[1])
	if err != nil {
		return
	}
	memory, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
	if err != nil {
		return
	}
	defer func() { _ = unix.SysvShmDetach(memory) }()
	if len(memory) < 8 || binary.NativeEndian.Uint32(memory) != postgresMagic ||
		binary.NativeEndian.Uint32(memory[4:]) != uint32(pid) {
		return
	}
	_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
}
