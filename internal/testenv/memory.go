package testenv

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"
)

// PID is the gateway's process id.
func (g *Gateway) PID() int { return g.cmd.Process.Pid }

// ForgetPeak makes PeakMemory start anew.
func (g *Gateway) ForgetPeak(t testing.TB) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", g.PID()), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}

var peakLine = regexp.MustCompile(`(?m)^VmHWM:\s+([0-9]+) kB$`)

// PeakMemory is the most memory that the gateway has had resident, in bytes.
func (g *Gateway) PeakMemory(t testing.TB) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.PID()))
	if err != nil {
		t.Fatal(err)
	}
	found := peakLine.FindSubmatch(status)
	if found == nil {
		t.Fatalf("no VmHWM in\n%s", status)
	}
	kilobytes, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// Races reports whether the gateway was built with the race detector, under
// which it needs several times the memory.
func (g *Gateway) Races(t testing.TB) bool {
	t.Helper()
	info, err := buildinfo.ReadFile(GatewayBinary(t))
	if err != nil {
		t.Fatal(err)
	}
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
