package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// minimal is the shortest valid file.
const minimal = `auth: none
database: {url: "postgres://app@db/legacy"}
redis: {url: "redis://cache:6379"}
tables: [{name: inventory, lock: "inventory:{sku}"}]
`

// write puts text into a file named gateway.yaml.
func write(t *testing.T, text string) string {
	t.Helper()
	return writeAs(t, "gateway.yaml", text)
}

func writeAs(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustLoad(t *testing.T, text string, environ ...string) *Config {
	t.Helper()
	c, err := Load(write(t, text), environ, nil)
	if err != nil {
		t.Fatalf("Load:\n%v", err)
	}
	return c
}

// mistakesOf returns what is wrong, one a line, without the directory.
func mistakesOf(t *testing.T, text string, environ ...string) []string {
	t.Helper()
	path := write(t, text)
	c, err := Load(path, environ, nil)
	if err == nil {
		return nil
	}
	if c != nil {
		t.Error("a configuration came with the error")
	}
	var mistakes Mistakes
	if !errors.As(err, &mistakes) {
		t.Fatalf("Load returned %T: %v", err, err)
	}
	text = strings.ReplaceAll(err.Error(), filepath.Dir(path)+string(filepath.Separator), "")
	return strings.Split(text, "\n")
}

// wantMistakes compares mistakes with the beginnings wanted of them.
func wantMistakes(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d mistakes, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("mistake %d:\n%s\nwant\n%s…", i, got[i], want[i])
		}
	}
}
