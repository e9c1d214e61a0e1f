package config

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestTheMaskedConfigurationIsAFileThatLoads(t *testing.T) {
	t.Parallel()
	secret := writeAs(t, "url", "host=db\npassword=hunter2\n")
	odd := "  - name: {schema: \"o dd\", name: \"a: b\"}\n    lock: '{{#}}: {x}'\n    fence_column: \"a\\n b \\r\"\n"
	routine := "statements:\n  - name: a\n    lock: 'a:{x}:{y}'\n    params: {x: text, y: \"integer[]\"}\n    expect_rows: 0\n    sql: "
	for name, text := range map[string]string{
		"the shortest": minimal,
		"the example":  example,
		"odd names":    minimal[:len(head)] + "tables:\n" + odd,
		"a URL from a file": strings.Replace(minimal, `{url: "postgres://app@db/legacy"}`,
			"{url_file: "+secret+"}", 1),
		"a function of an odd name": minimal + "functions: [{name: {schema: \" \\ta\", name: \"b\\n\"}, lock: 'a:{x y}'}]\n",
		"a statement of lines":      minimal + routine + "|\n      SELECT :x,\n      \t:y -- : #\n",
		"a statement in quotes":     minimal + routine + "\"\\t\\r\\n SELECT :x \\n, :y\\x01\\u2028\"\n",
		"a statement of one line":   minimal + routine + "'SELECT :x, :y, ''yes'' '\n",
		"a pooler":                  "database: {url: \"postgres://db/x\", pooler: transaction}\n" + minimal[:11] + minimal[55:],
		"other values":              minimal + "log: {level: warn, format: text}\nadmin_listen: off\nleases: {max_ttl: 90s, max_lifetime: 90m}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := mustLoad(t, text).Masked()
			again := mustLoad(t, first)
			if again.Masked() != first {
				t.Errorf("loaded again it is\n%s\nnot\n%s", again.Masked(), first)
			}
			if got, want := routinesOf(again), routinesOf(mustLoad(t, text)); !reflect.DeepEqual(got, want) {
				t.Errorf("loaded again there is\n%q\nnot\n%q", got, want)
			}
			if strings.Contains(first, "hunter2") {
				t.Errorf("the password shows:\n%s", first)
			}
		})
	}
}

// routinesOf is the tables, statements and functions without their places.
func routinesOf(c *Config) []any {
	for i := range c.Statements {
		c.Statements[i].Place, c.Statements[i].Line = "", 0
	}
	for i := range c.Tables {
		c.Tables[i].Place = ""
	}
	for i := range c.Functions {
		c.Functions[i].Place = ""
	}
	return []any{c.Tables, c.Statements, c.Functions}
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
