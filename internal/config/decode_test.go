package config

import (
	"reflect"
	"strings"
	"testing"
)

// A case is a file's text and the beginnings of the mistakes it must give.
type mistakeCase struct {
	name, text string
	want       []string
}

func runMistakes(t *testing.T, cases []mistakeCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			wantMistakes(t, mistakesOf(t, tc.text), tc.want)
		})
	}
}

func TestAMistakeOfFormIsReportedWhereItStands(t *testing.T) {
	t.Parallel()
	runMistakes(t, []mistakeCase{
		{"an unknown key", minimal + "lissten: x\n",
			[]string{"gateway.yaml:5:1: lissten: unknown key; known here: listen, admin_listen"}},
		{"an unknown key of a section", minimal + "leases:\n  min_ttl: 1s\n  ttl: 1s\n",
			[]string{"gateway.yaml:7:3: leases.ttl: unknown key; known here: backend, default_ttl, "}},
		{"an unknown key of a table", minimal[:strings.Index(minimal, "tables")] + "tables:\n  - name: a\n    lock: a\n    look: b\n",
			[]string{"gateway.yaml:7:5: tables[0].look: unknown key"}},
		{"a key in another case", minimal + "Listen: x\n",
			[]string{"gateway.yaml:5:1: Listen: unknown key"}},
		{"a merge key", minimal + "<<: {listen: x}\n",
			[]string{"gateway.yaml:5:1: unknown key"}},
		{"a key written twice", minimal + "log:\n  level: info\n  level: warn\n",
			[]string{"gateway.yaml:7:3: log.level: is written twice, first on line 6"}},
		{"a section written twice", minimal + "redis:\n  timeout: 1s\n",
			[]string{"gateway.yaml:5:1: redis: is written twice, first on line 3"}},
		{"an anchor", minimal + "listen: &here 127.0.0.1:1\nadmin_listen: *here\n",
			[]string{"gateway.yaml:5:9: listen: anchors, ", "gateway.yaml:6:15: admin_listen: anchors, "}},
		{"a tag", minimal + "listen: !!str x\n",
			[]string{"gateway.yaml:5:9: listen: anchors, aliases and tags"}},
		{"a number for text", minimal + "redis2: 1\nlisten: 8080\n",
			[]string{"gateway.yaml:5:1: redis2: unknown key", "gateway.yaml:6:9: listen: must be text, not a number"}},
		{"nothing for text", minimal + "listen:\n",
			[]string{"gateway.yaml:5:1: listen: has no value"}},
		{"text for a section", minimal + "leases: strict\n",
			[]string{"gateway.yaml:5:9: leases: must be a mapping"}},
		{"text for a list", minimal + "schemas: public\n",
			[]string{"gateway.yaml:5:10: schemas: must be a list"}},
		{"a duration without a unit", minimal + "leases:\n  min_ttl: 10\n",
			[]string{"gateway.yaml:6:12: leases.min_ttl: must be a duration with its unit"}},
		{"a duration in words", minimal + "leases:\n  max_ttl: 1 hour\n",
			[]string{"gateway.yaml:6:12: leases.max_ttl: must be a duration"}},
		{"a fraction for a count", minimal + "limits:\n  max_rows: 1.5\n",
			[]string{"gateway.yaml:6:13: limits.max_rows: must be a whole number"}},
		{"a size in decimal units", minimal + "limits:\n  max_body_bytes: 1MB\n",
			[]string{"gateway.yaml:6:19: limits.max_body_bytes: must be a number of bytes or a size"}},
		{"a size past counting", minimal + "limits:\n  max_body_bytes: 9999999999GiB\n",
			[]string{"gateway.yaml:6:19: limits.max_body_bytes: must be a number of bytes or a size"}},
		{"several at once, in the order of lines", minimal + "listen: 1\nlog:\n  level: loud\n  colour: red\n",
			[]string{"gateway.yaml:5:9: listen: ", "gateway.yaml:7:10: log.level: ", "gateway.yaml:8:3: log.colour: "}},
	})
}

func TestATextThatIsNoConfigurationIsReportedAlone(t *testing.T) {
	t.Parallel()
	runMistakes(t, []mistakeCase{
		{"an empty file", "", []string{"gateway.yaml: is empty"}},
		{"a file of comments", "# later\n", []string{"gateway.yaml: is empty"}},
		{"a list", "- a\n", []string{"gateway.yaml:1:1: must be a mapping"}},
		{"two documents", "auth: none\n---\nauth: none\n", []string{"gateway.yaml:3:1: a second YAML document"}},
		{"broken YAML", "auth: none\nlog: {level\n", []string{"gateway.yaml:2:"}},
		{"a tab as indentation", "log:\n\tlevel: info\n", []string{"gateway.yaml:2:1: isn't YAML: "}},
	})
}

func TestAFileMayLeaveOutWhatHasADefault(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"as it is":                           minimal,
		"with a section all commented out":   minimal + "leases:\n  # min_ttl: 1s\n",
		"with the line ends of Windows":      strings.ReplaceAll(minimal, "\n", "\r\n"),
		"with one document marked as such":   "---\n" + minimal,
		"with an explicit end and a comment": minimal + "# end\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := mustLoad(t, text)
			want := defaults()
			if c.Listen != want.Listen || !reflect.DeepEqual(c.Leases, want.Leases) || c.Limits != want.Limits || c.Log != want.Log {
				t.Errorf("defaults changed: %+v", c)
			}
		})
	}
}

func TestASizeIsANumberOrHasAUnit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]ByteSize{
		"1048576": MiB, "1MiB": MiB, "512KiB": 512 * KiB, "2 MiB": 2 * MiB, "100B": 100, "1GiB": GiB,
	} {
		c := mustLoad(t, minimal+"limits: {max_body_bytes: "+text+"}\n")
		if c.Limits.MaxBodyBytes != want {
			t.Errorf("%s is %d bytes, want %d", text, c.Limits.MaxBodyBytes, want)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(minimal)
	f.Add(example)
	f.Fuzz(func(t *testing.T, text string) {
		c := defaults()
		r := newReport("gateway.yaml")
		if decode([]byte(text), c, r) {
			c.fillSchemas(r)
			c.validate(r)
		} else if r.err() == nil {
			t.Error("nothing was read and nothing reported")
		}
	})
}
