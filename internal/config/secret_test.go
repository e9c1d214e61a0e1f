package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestAPasswordIsMaskedWhereverItStands(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"postgres://app:hunter2@db:5432/x":                 "postgres://app:xxxxx@db:5432/x",
		"postgres://app:hunter2@a:1,b:2/x?sslmode=disable": "postgres://app:xxxxx@a:1,b:2/x?sslmode=disable",
		"postgres://app:hun@ter2@db/x":                     "postgres://app:xxxxx@db/x",
		"postgres://app@db/x?password=hunter2":             "postgres://app@db/x?password=xxxxx",
		"postgres://db/x?p%61ssword=hunter2&a=b":           "postgres://db/x?p%61ssword=xxxxx&a=b",
		"postgres://db/x?sslpassword=hunter2":              "postgres://db/x?sslpassword=xxxxx",
		"postgres://db/x?passfile=/etc/pgpass":             "postgres://db/x?passfile=/etc/pgpass",
		"postgres://app@[::1]:5432/x":                      "postgres://app@[::1]:5432/x",
		"host=db password=hunter2 user=app":                "host=db password=xxxxx user=app",
		"host=db  password = 'hunter2 \\' x' user=app":     "host=db password=xxxxx user=app",
		"password=hunter2\\ more":                          "password=xxxxx",
		"password=a://hunter2":                             "password=xxxxx",
		"redis://:hunter2@cache:6379/0":                    "redis://:xxxxx@cache:6379/0",
		"unix://app:hunter2@/run/redis.sock":               "unix://app:xxxxx@/run/redis.sock",
		// Where the password ends isn't certain, nothing shows.
		"postgres://app:hunt/er2@db/x":  masking,
		"postgres://app:hunt?er2@db/x":  masking,
		"postgres://app:hunt#er2@db/x":  masking,
		"postgres://app:hunter2/x":      masking,
		"password=hunter2 more host=db": masking,
		"password='hunter2":             masking,
		"hunter2":                       masking,
		"":                              "",
	} {
		s := Secret(in)
		if got := s.String(); got != want {
			t.Errorf("%s is shown as %s, want %s", in, got, want)
		}
		inJSON, _ := json.Marshal(s)
		for _, shown := range []string{fmt.Sprintf("%v %+v %#v %q", s, s, s, s), string(inJSON)} {
			if strings.Contains(shown, "hunter2") {
				t.Errorf("%s is shown as %s", in, shown)
			}
		}
	}
}

func TestAWrongURLIsReportedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ env, url, want string }{
		{"DATABASE", "mysql://app:hunter2@db/x", "must begin with postgres://"},
		{"DATABASE", "hunter2", "is neither a URL nor key=value pairs"},
		{"DATABASE", "postgres://app:hunter2@db:70000/x", "isn't usable: "},
		{"DATABASE", "postgres://app:hunter2@db/x?sslmode=odd", "sslmode is invalid"},
		{"DATABASE", "postgres://app:hunter2%zz@db/x", "must be percent-encoded"},
		{"DATABASE", "postgres://app:hunter2\n@db/x", "holds a line break"},
		{"DATABASE", "postgres://app:hunter2/3@db/x", "write @ / ? and # inside"},
		{"DATABASE", "postgres://app:hunter2/x", "has a port that isn't a number"},
		{"DATABASE", "host=db password=hunter2 sslmode=odd", "sslmode is invalid"},
		{"DATABASE", "host=db password=a hunter2 user=b", "is neither a URL nor key=value pairs"},
		{"REDIS", "http://:hunter2@cache", "must begin with redis://"},
		{"REDIS", "redis://:hunter2@cache/zero", "invalid database number"},
		{"REDIS", "redis://:hunter2@cache?colour=red", "unexpected option: colour"},
		{"REDIS", "redis://:hunter2%zz@cache", "must be percent-encoded"},
		{"REDIS", "redis://hunter2@cache", "has a user but no password"},
		{"REDIS", "redis://:hunter2", "has a port that isn't a number"},
		{"REDIS", "unix://:hunter2@", "empty unix socket path"},
	} {
		got := mistakesOf(t, minimal, "FENCEGATE_"+tc.env+"_URL="+tc.url)
		if len(got) != 1 || !strings.Contains(got[0], tc.want) {
			t.Errorf("%s: %q, want …%s…", tc.url, got, tc.want)
		}
		if strings.Contains(strings.Join(got, " "), "hunter2") {
			t.Errorf("%s: the password shows in %q", tc.url, got)
		}
	}
}

func TestAPasswordUnderTheWrongKeyIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"database_url: postgres://app:hunter2@db/x",
		"limits: {max_rows: hunter2}",
		"leases: {min_ttl: hunter2}",
		"limits: {max_body_bytes: hunter2}",
		"schemas: hunter2",
		"leases: hunter2",
		"a: [hunter2",
		"log: {url=postgres://app:hunter2@db/x}",
		"postgres://app:hunter2@db/x: 1",
	} {
		got := strings.Join(mistakesOf(t, minimal+line+"\n"), "\n")
		if got == "" || strings.Contains(got, "hunter2") {
			t.Errorf("%s: %s", line, got)
		}
	}
}

func TestAURLInPlaceOfItsFileIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://app:hunter2@db/x", "host=db password=hunter2"} {
		got := mistakesOf(t, minimal, "FENCEGATE_DATABASE_URL_FILE="+url)
		want := "FENCEGATE_DATABASE_URL_FILE: database.url_file: must be the name of a file, and holds a URL"
		if len(got) != 1 || got[0] != want {
			t.Errorf("%q, want %s", got, want)
		}
	}
}

func TestAUsableURLIsAccepted(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://app:p%40ss@db:5432/x?sslmode=disable",
		"postgresql://a:1,b:2/x?target_session_attrs=read-write",
		"host=/run/postgresql user=app dbname=legacy",
	} {
		if c := mustLoad(t, minimal, "FENCEGATE_DATABASE_URL="+url); c.Database.URL.Reveal() != url {
			t.Errorf("%s became %s", url, c.Database.URL.Reveal())
		}
	}
	for _, url := range []string{"redis://cache", "rediss://app:pw@cache:6380/1", "unix:///run/redis.sock?db=1"} {
		mustLoad(t, minimal, "FENCEGATE_REDIS_URL="+url)
	}
}
