package fencegate_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/fencegate/fencegate"

// doors lists, floor by floor, which rooms a room may import. A room that is
// not listed may import none; docs/design.md draws the house.
var doors = map[string][]string{
	"internal/lease": {},
	"internal/api":   {},
	"sql":            {},
	"":               {},

	"internal/catalog":  {"internal/lease"},
	"internal/config":   {"internal/lease"},
	"internal/devstack": {},
	"internal/pooled":   {},

	"internal/fence":                {"internal/lease", "internal/pooled"},
	"internal/audit":                {"internal/lease", "internal/pooled"},
	"internal/lockclient":           {"internal/lease"},
	"internal/lockclient/redislock": {"internal/lease", "internal/lockclient"},
	"internal/lockclient/redlock":   {"internal/lease", "internal/lockclient"},
	"internal/lockclient/etcdlock":  {"internal/lease", "internal/lockclient"},
	"internal/lockclient/pglock":    {"internal/lease", "internal/lockclient", "internal/pooled"},
	"internal/lockclient/locktest":  {"internal/lease", "internal/lockclient"},
	"internal/auth":                 {"internal/catalog", "internal/lease"},
	"internal/identity":             {"internal/auth"},
	"internal/statement":            {"internal/catalog", "internal/lease"},

	"internal/gate": {"internal/audit", "internal/auth", "internal/catalog", "internal/fence",
		"internal/lease", "internal/lockclient", "internal/pooled", "internal/statement"},

	"internal/proxy": {"internal/api", "internal/audit", "internal/auth", "internal/catalog", "internal/fence",
		"internal/gate", "internal/identity", "internal/lease", "internal/lockclient", "internal/statement"},
	"internal/admin": {},
	"internal/admin/dashboard": {"internal/audit", "internal/auth", "internal/catalog", "internal/doctor", "internal/fence",
		"internal/gate", "internal/lease", "internal/telemetry"},
	"internal/doctor":    {"internal/catalog", "internal/config", "internal/lease", "sql"},
	"internal/telemetry": {"internal/audit", "internal/catalog", "internal/gate", "internal/proxy"},

	"client": {}, // public: nothing of the house shows in it
}

// anywhere may import what it likes: the one program that wires everything, and
// what only tests use.
var anywhere = []string{"cmd/gateway", "internal/testenv", "test/"}

// walls keeps technology out of rooms that must not know it.
var walls = map[string][]string{
	"internal/lease":     {"net", "os", "database/sql"},
	"internal/statement": {"net/http", "os", "context", "github.com/jackc/pgx"},
	"internal/auth":      {"net/http", "os", "context"},
	"internal/identity":  {"os", "github.com/jackc/pgx", "github.com/redis"},
	"internal/gate":      {"net/http", "os", "github.com/redis"},
	"internal/proxy":     {"os", "github.com/jackc/pgx", "github.com/redis"},
	"internal/doctor":    {"net/http", "os", "github.com/redis"},
	"client":             {"os", "github.com", "golang.org"},
}

// watchers are what counts and traces with, which only internal/telemetry knows.
var watchers = []string{"github.com/prometheus/", "go.opentelemetry.io/"}

func TestDoors(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		room := strings.TrimPrefix(strings.TrimPrefix(fields[0], module), "/")
		if slices.ContainsFunc(anywhere, func(free string) bool { return strings.HasPrefix(room, free) }) {
			continue
		}
		allowed, listed := doors[room]
		if !listed {
			t.Errorf("the room %q has no entry in doors", room)
		}
		for _, imported := range fields[1:] {
			if other, ours := strings.CutPrefix(imported, module); ours && !slices.Contains(allowed, strings.TrimPrefix(other, "/")) {
				t.Errorf("%s may not import %s", room, imported)
			}
			if room != "internal/telemetry" && slices.ContainsFunc(watchers, func(w string) bool { return strings.HasPrefix(imported, w) }) {
				t.Errorf("%s may not know %s: what happens is told to internal/telemetry", room, imported)
			}
			for _, wall := range walls[room] {
				if imported == wall || strings.HasPrefix(imported, wall+"/") && wall != "net" {
					t.Errorf("%s may not know %s", room, imported)
				}
			}
		}
	}
}
