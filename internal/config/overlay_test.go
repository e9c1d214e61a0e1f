package config

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func flagSet(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("gateway", pflag.ContinueOnError)
	Flags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fs
}

func TestFlagsOutrankTheEnvironmentTheFileAndTheDefaults(t *testing.T) {
	t.Parallel()
	file := minimal + "listen: 127.0.0.1:2\nlog: {level: warn}\n"
	environ := []string{"FENCEGATE_LISTEN=127.0.0.1:3", "FENCEGATE_LOG_LEVEL=error"}
	args := []string{"--listen=127.0.0.1:4", "--admin-listen=off"}
	for _, tc := range []struct {
		name, text, listen, admin, level string
		environ, args                    []string
	}{
		{"defaults", minimal, "127.0.0.1:8080", "127.0.0.1:9090", "info", nil, nil},
		{"file", file, "127.0.0.1:2", "127.0.0.1:9090", "warn", nil, nil},
		{"environment", file, "127.0.0.1:3", "127.0.0.1:9090", "error", environ, nil},
		{"flags", file, "127.0.0.1:4", "off", "error", environ, args},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c, err := Load(write(t, tc.text), tc.environ, flagSet(t, tc.args...))
			if err != nil {
				t.Fatal(err)
			}
			if c.Listen != tc.listen || c.Admin != tc.admin || c.Log.Level != tc.level {
				t.Errorf("listen %s, admin_listen %s, level %s", c.Listen, c.Admin, c.Log.Level)
			}
		})
	}
}

func TestTheEnvironmentReplacesWhatTheFileSaysAboutAURL(t *testing.T) {
	t.Parallel()
	secret := writeAs(t, "url", "postgres://from@file/x\n")
	for name, tc := range map[string]struct{ file, env, want string }{
		"url over url":           {"{url: postgres://a/b}", "FENCEGATE_DATABASE_URL=postgres://env/x", "postgres://env/x"},
		"url over url_file":      {"{url_file: /nowhere}", "FENCEGATE_DATABASE_URL=postgres://env/x", "postgres://env/x"},
		"url_file over url":      {"{url: postgres://a/b}", "FENCEGATE_DATABASE_URL_FILE=" + secret, "postgres://from@file/x"},
		"url_file over url_file": {"{url_file: /nowhere}", "FENCEGATE_DATABASE_URL_FILE=" + secret, "postgres://from@file/x"},
		"url over nothing":       {"{}", "FENCEGATE_DATABASE_URL=postgres://env/x", "postgres://env/x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(minimal, `{url: "postgres://app@db/legacy"}`, tc.file, 1)
			if got := mustLoad(t, text, tc.env).Database.URL.Reveal(); got != tc.want {
				t.Errorf("URL is %s, want %s", got, tc.want)
			}
		})
	}
}

func TestAMistakeInTheEnvironmentNamesItsVariable(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ environ, want []string }{
		"an unknown variable":     {[]string{"FENCEGATE_LISTNE=x"}, []string{"FENCEGATE_LISTNE: unknown variable; known are FENCEGATE_LISTEN, "}},
		"a service link":          {[]string{"FENCEGATE_SERVICE_HOST=10.0.0.1"}, []string{"FENCEGATE_SERVICE_HOST: unknown variable; it looks like a Kubernetes"}},
		"a variable of the tests": {[]string{"FENCEGATE_TEST_X=1", "OTHER=2", "fencegate_x=3"}, nil},
		"an empty variable":       {[]string{"FENCEGATE_DATABASE_URL="}, []string{"FENCEGATE_DATABASE_URL: database.url: is set but empty"}},
		"a wrong value":           {[]string{"FENCEGATE_AUTH=jwt"}, []string{`FENCEGATE_AUTH: auth: is "jwt"`}},
		"the last of two":         {[]string{"FENCEGATE_AUTH=jwt", "FENCEGATE_AUTH=none"}, nil},
		"a wrong URL":             {[]string{"FENCEGATE_REDIS_URL=http://x"}, []string{"FENCEGATE_REDIS_URL: redis.url: the URL must begin with redis://"}},
		"a URL and its file": {[]string{"FENCEGATE_REDIS_URL=redis://x", "FENCEGATE_REDIS_URL_FILE=/x"},
			[]string{"FENCEGATE_REDIS_URL_FILE: redis.url_file: stands beside FENCEGATE_REDIS_URL"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantMistakes(t, mistakesOf(t, minimal, tc.environ...), tc.want)
		})
	}
}

func TestAMistakeInAFlagNamesIt(t *testing.T) {
	t.Parallel()
	_, err := Load(write(t, minimal), nil, flagSet(t, "--listen=", "--log-level=loud"))
	if err == nil || !strings.Contains(err.Error(), "--listen: listen: ") || !strings.Contains(err.Error(), "--log-level: log.level: ") {
		t.Errorf("Load: %v", err)
	}
}

func TestAURLComesFromExactlyOnePlace(t *testing.T) {
	t.Parallel()
	empty := writeAs(t, "empty", "\n")
	with := func(section string) string {
		return strings.Replace(minimal, `{url: "redis://cache:6379"}`, section, 1)
	}
	runMistakes(t, []mistakeCase{
		{"neither", with("{timeout: 1s}"), []string{"gateway.yaml:3:1: redis: needs url or url_file, or FENCEGATE_REDIS_URL"}},
		{"no section", with("\n"), []string{"gateway.yaml:3:1: redis: needs url or url_file"}},
		{"both", with("{url: redis://x, url_file: /x}"), []string{"gateway.yaml:3:35: redis.url_file: stands beside url"}},
		{"a URL that isn't text", with("{url: 5}"), []string{"gateway.yaml:3:14: redis.url: must be text"}},
	})
	for _, file := range []string{empty, "/nowhere/url"} {
		got := mistakesOf(t, with("{url_file: "+file+"}"))
		if len(got) != 1 || !strings.HasPrefix(got[0], "gateway.yaml:3:19: redis.url_file: ") || !strings.Contains(got[0], file) {
			t.Errorf("%s: %q", file, got)
		}
	}
}

func TestAFileThatCannotBeReadIsNoMistake(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", filepath.Join(t.TempDir(), "none.yaml")} {
		_, err := Load(path, nil, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "read configuration: ") {
			t.Errorf("Load(%q): %v", path, err)
		}
	}
}
