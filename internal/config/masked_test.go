package config

import (
	"strings"
	"testing"
	"time"
)

func TestTheMaskedConfigurationIsAFileThatLoads(t *testing.T) {
	t.Parallel()
	secret := writeAs(t, "url", "host=db\npassword=hunter2\n")
	odd := "  - name: {schema: \"o dd\", name: \"a: b\"}\n    lock: '{{#}}: {x}'\n"
	for name, text := range map[string]string{
		"the shortest": minimal,
		"the example":  example,
		"odd names":    minimal[:len(head)] + "tables:\n" + odd,
		"a URL from a file": strings.Replace(minimal, `{url: "postgres://app@db/legacy"}`,
			"{url_file: "+secret+"}", 1),
		"other values": minimal + "log: {level: warn, format: text}\nadmin_listen: off\nleases: {max_ttl: 90s, max_lifetime: 90m}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := mustLoad(t, text).Masked()
			if again := mustLoad(t, first).Masked(); again != first {
				t.Errorf("loaded again it is\n%s\nnot\n%s", again, first)
			}
			if strings.Contains(first, "hunter2") {
				t.Errorf("the password shows:\n%s", first)
			}
		})
	}
}

func TestTheMaskedConfigurationShowsWhatWasReadFromAFile(t *testing.T) {
	t.Parallel()
	secret := writeAs(t, "url", "postgres://app:hunter2@db/x\n")
	masked := mustLoad(t, minimal, "FENCEGATE_DATABASE_URL_FILE="+secret).Masked()
	want := "  # holds postgres://app:xxxxx@db/x\n  url_file: " + secret + "\n"
	if !strings.Contains(masked, want) {
		t.Errorf("no\n%s in\n%s", want, masked)
	}
}

func TestADurationIsShownBriefly(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		time.Hour: "1h", 90 * time.Minute: "1h30m", 5 * time.Minute: "5m", 10 * time.Minute: "10m",
		time.Hour + time.Second: "1h0m1s", 10 * time.Second: "10s", 0: "0s", time.Millisecond: "1ms",
	} {
		if got := brief(d); got != want {
			t.Errorf("%d is %s, want %s", d, got, want)
		}
	}
}

func TestASizeIsShownInItsLargestUnit(t *testing.T) {
	t.Parallel()
	for size, want := range map[ByteSize]string{0: "0B", 100: "100B", KiB: "1KiB", 1536 * KiB: "1536KiB", GiB: "1GiB"} {
		if got := size.String(); got != want {
			t.Errorf("%d is %s, want %s", int64(size), got, want)
		}
	}
}
