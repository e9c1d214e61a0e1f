package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/devstack"
	"github.com/fencegate/fencegate/internal/testenv"
	migrations "github.com/fencegate/fencegate/sql"
)

// gateway runs a command to its end.
func gateway(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.Command(testenv.GatewayBinary(t), args...)
	raw, err := cmd.CombinedOutput()
	if exit, ok := err.(*exec.ExitError); err != nil && !ok {
		t.Fatal(err)
	} else if ok {
		return string(raw), exit.ExitCode()
	}
	return string(raw), 0
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func configFor(t *testing.T, databaseURL, tables string) string {
	t.Helper()
	redis, _ := testenv.Redis(t)
	return configFile(t, "listen: 127.0.0.1:0\nadmin_listen: off\nauth: none\ndatabase: {url: '"+databaseURL+
		"'}\nredis: {url: '"+redis+"'}\n"+tables)
}

// Whoever has to find out which gateways have a fault must be told their version.
func TestTheVersionIsToldAndLogged(t *testing.T) {
	t.Parallel()
	out, code := gateway(t, "version")
	name, version, _ := strings.Cut(strings.TrimSpace(out), " ")
	if code != 0 || name != "fencegate" || version == "" {
		t.Errorf("exit code %d: %q", code, out)
	}
	if g := testenv.StartGateway(t, testenv.GatewayOptions{}); !strings.Contains(g.Log(), `"version":"`+version+`"`) {
		t.Errorf("the log of %s is\n%s", version, g.Log())
	}
}

func TestCheckNamesTheLineOfAMistake(t *testing.T) {
	t.Parallel()
	path := configFile(t, "auth: none\ndatabase: {url: postgres://a:secret@localhost/b}\nredis: {url: redis://localhost}\n"+
		"tables:\n  - name: shop.inventory\n    lock: \"inventory:{sku\"\n")
	out, code := gateway(t, "check", "--config", path)
	if code != 1 || !strings.Contains(out, "gateway.yaml:6:") || !strings.Contains(out, "tables[0].lock") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if strings.Contains(out, "secret") {
		t.Errorf("the password is shown: %s", out)
	}
}

func TestCheckPrintsAnExampleThatIsRight(t *testing.T) {
	t.Parallel()
	example, code := gateway(t, "check", "--example")
	if code != 0 {
		t.Fatal(example)
	}
	if out, code := gateway(t, "check", "--config", configFile(t, example)); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	db := testenv.EmptyPostgres(t)
	path := configFor(t, db.URL, devstack.ShopTables)
	try := func(args string, expected int, says string) {
		t.Helper()
		out, code := gateway(t, append(strings.Fields(args), "--config", path)...)
		if code != expected || !strings.Contains(out, says) {
			t.Fatalf("%s: exit code %d, expected %d and %q: %s", args, code, expected, says, out)
		}
	}
	latest := int(migrations.Latest())
	version := func(n int) string { return fmt.Sprintf("version %d of %d", n, latest) }
	try("migrate status", 1, version(0))
	try("serve", 1, "gateway migrate up")
	try("migrate up", 0, version(latest))
	try("migrate up", 0, version(latest))
	try("migrate status", 0, version(latest))
	try("serve", 1, "there is no such table")
	try("migrate down", 1, "late writers would be admitted")
	for _, n := range below(t, latest) {
		try("migrate down --forget-marks", 0, version(n))
		try("serve", 1, "gateway migrate up")
	}
	try("migrate up", 0, version(latest))
	db.Exec(t, `UPDATE fencegate.schema_migrations SET version = 99`)
	if out, code := gateway(t, "serve", "--config", path); code != 1 || !strings.Contains(out, "run a newer gateway") {
		t.Errorf("serve on a newer schema: exit code %d: %s", code, out)
	}
}

// below returns the versions before latest, the highest first, and 0.
func below(t *testing.T, latest int) (all []int) {
	t.Helper()
	files, err := filepath.Glob("../../sql/migrations/*.up.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.Backward(files) {
		number, _, _ := strings.Cut(filepath.Base(file), "_")
		if n, err := strconv.Atoi(number); err != nil {
			t.Fatal(err)
		} else if n < latest {
			all = append(all, n)
		}
	}
	return append(all, 0)
}

func TestServeRefusesToStart(t *testing.T) {
	t.Parallel()
	db := testenv.Shop(t)
	for name, c := range map[string]struct{ url, tables, says string }{
		"WithoutADatabase":            {"postgres://nobody@127.0.0.1:1/x?connect_timeout=1", devstack.ShopTables, "connecting to the database"},
		"OnAColumnThatIsNotThere":     {db.URL, "tables: [{name: shop.inventory, lock: 'inventory:{SKU}'}]\n", `there is no column "SKU"`},
		"OnAColumnThatCannotBeAKey":   {db.URL, "tables: [{name: shop.inventory, lock: 'inventory:{unit_price}'}]\n", `column "unit_price" is numeric`},
		"OnTheGatewaysOwnSchema":      {db.URL, "tables: [{name: fencegate.marks, lock: 'x'}]\n", "the gateway's own schema"},
		"OnTwoMistakesAndNamesBoth":   {db.URL, "tables: [{name: shop.no, lock: 'x'}, {name: shop.nope, lock: 'x'}]\n", `"shop"."nope"`},
		"WithoutAConfigurationFile":   {"", "", "--config FILE is needed"},
		"WhenNobodySaidAuthIsNothing": {"-", "", "auth"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"serve", "--config", configFor(t, c.url, c.tables)}
			switch c.url {
			case "":
				args = args[:1]
			case "-":
				args[2] = configFile(t, "database: {url: 'host=/nowhere'}\nredis: {url: redis://localhost}\n"+devstack.ShopTables)
			}
			if out, code := gateway(t, args...); code != 1 || !strings.Contains(out, c.says) {
				t.Errorf("exit code %d, expected 1 and %q: %s", code, c.says, out)
			}
		})
	}
}
