package config

import (
	"errors"
	"strings"
	"testing"
)

func TestAReloadTakesOverOnlyWhatCanChange(t *testing.T) {
	t.Parallel()
	started := mustLoad(t, minimal)
	for name, c := range map[string]struct{ from, to, says string }{
		"TheFileAsItWas":                 {"auth", "# Not much.\nauth", ""},
		"Limits":                         {"auth", "limits: {max_rows: 7}\nauth", ""},
		"LeaseTerms":                     {"auth", "leases: {default_ttl: 7s}\nauth", ""},
		"TheLogLevel":                    {"auth", "log: {level: debug}\nauth", ""},
		"Tables":                         {"inventory", "stock", ""},
		"APasswordOfTheDatabase":         {"app@db", "app:pw@db", "database.url: changed: needs a restart"},
		"TheDatabase":                    {"app@db", "app@other", "gateway.yaml:2:17: database.url: changed: needs a restart"},
		"TheLockService":                 {"cache:6379", "other:6379", "gateway.yaml:3:14: redis.url: changed: needs a restart"},
		"TheLogFormat":                   {"auth", "log: {format: text}\nauth", "gateway.yaml:1:15: log.format: changed: needs a restart"},
		"WhereItListens":                 {"auth", "listen: 127.0.0.1:1\nauth", "gateway.yaml:1:9: listen: changed: needs a restart"},
		"MoreInFlightThanThereIsRoomFor": {"auth", "limits: {max_in_flight: 513}\nauth", "limits.max_in_flight: is more than the 512 that this gateway started with: needs a restart"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := write(t, strings.Replace(minimal, c.from, c.to, 1))
			next, err := Reload(started, path, nil, nil)
			if name == "TheFileAsItWas" && len(next.Changes(started)) > 0 {
				t.Errorf("changed: %q", next.Changes(started))
			}
			var mistakes Mistakes
			switch {
			case c.says == "" && err != nil:
				t.Errorf("%v", err)
			case c.says != "" && (!errors.As(err, &mistakes) || len(mistakes) != 1 || !strings.Contains(err.Error(), c.says)):
				t.Errorf("%v, expected %q", err, c.says)
			}
		})
	}
}

func TestAPasswordInAURLMayChange(t *testing.T) {
	t.Parallel()
	before := strings.NewReplacer("app@db", "app:one@db", "redis://", "redis://:one@").Replace(minimal)
	started := mustLoad(t, before)
	next, err := Reload(started, write(t, strings.ReplaceAll(before, "one@", "two@")), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if changes := next.Changes(started); len(changes) > 0 {
		t.Errorf("changed: %q", changes)
	}
	if !strings.Contains(next.Database.URL.Reveal(), ":two@") || !strings.Contains(next.Redis.URL.Reveal(), ":two@") {
		t.Errorf("the passwords are still those of before")
	}
}
