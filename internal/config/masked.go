package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// Masked returns the effective configuration as YAML, defaults included, with
// passwords masked. A URL read from a file shows as a comment above the name of
// its file. Lock services that are not the chosen one don't show, nor do traces that
// nobody asked for.
func (c *Config) Masked() string {
	shown := *c
	comments := yaml.CommentMap{}
	note := func(section string, url *Secret, file string) {
		if file != "" {
			comments["$."+section+".url_file"] = []*yaml.Comment{yaml.HeadComment(" holds " + oneLine(url.String()))}
			*url = ""
		}
	}
	note("database", &shown.Database.URL, c.Database.URLFile)
	note("redis", &shown.Redis.URL, c.Redis.URLFile)
	shown.hideFromFiles()
	if !c.Identity.JWT.Taken() {
		shown.Identity.JWT = JWT{}
	}
	if !c.Leases.Backend.OnRedis() {
		shown.Redis = Redis{}
	}
	if c.Leases.Backend != BackendEtcd {
		shown.Etcd = Etcd{}
	}
	if c.Traces.Endpoint == "" {
		shown.Traces = Traces{}
	}
	out, err := yaml.MarshalWithOptions(shown,
		yaml.WithComment(comments),
		yaml.IndentSequence(true),
		yaml.UseLiteralStyleIfMultiline(true),
		yaml.CustomMarshaler(func(d time.Duration) ([]byte, error) { return []byte(brief(d)), nil }),
	)
	if err != nil {
		return fmt.Sprintf("# rendering the configuration: %v\n", err)
	}
	return string(out)
}

// hideFromFiles leaves only the name of a file where a secret came from one.
func (c *Config) hideFromFiles() {
	for _, one := range []struct {
		password *Password
		file     string
	}{
		{&c.Redis.Password, c.Redis.PasswordFile},
		{&c.Redis.Sentinel.Password, c.Redis.Sentinel.PasswordFile},
		{&c.Etcd.Password, c.Etcd.PasswordFile},
		{&c.Traces.Headers, c.Traces.HeadersFile},
	} {
		if one.file != "" {
			*one.password = ""
		}
	}
	if len(c.Redis.Redlock.URLFiles) > 0 {
		c.Redis.Redlock.URLs = nil
	}
}

// oneLine keeps a key=value string with line breaks inside its comment.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// MarshalYAML returns the table as a file would write it.
func (t Table) MarshalYAML() (any, error) {
	form := struct {
		Name       any      `yaml:"name"`
		Lock       string   `yaml:"lock"`
		Mode       string   `yaml:"mode,omitempty"`
		Operations []string `yaml:"operations,flow"`
		Fence      any      `yaml:"fence_column,omitempty"`
		Record     bool     `yaml:"record_payload,omitempty"`
		Redact     []any    `yaml:"redact,omitempty,flow"`
	}{Name: written(t.Schema, t.Name), Lock: t.Lock.String(), Mode: unusual(t.Mode), Operations: t.Operations, Record: t.RecordPayload}
	for _, column := range t.Redact {
		form.Redact = append(form.Redact, shown(column))
	}
	if t.FenceColumn != "" {
		form.Fence = shown(t.FenceColumn)
	}
	return form, nil
}

// MarshalYAML returns the statement as a file would write it.
func (s Statement) MarshalYAML() (any, error) {
	form := struct {
		Name       string        `yaml:"name"`
		SQL        any           `yaml:"sql"`
		Params     yaml.MapSlice `yaml:"params,omitempty"`
		Lock       string        `yaml:"lock"`
		Mode       string        `yaml:"mode,omitempty"`
		ExpectRows *int          `yaml:"expect_rows,omitempty"`
	}{Name: s.Name, SQL: shown(s.SQL), Lock: s.Lock.String(), Mode: unusual(s.Mode)}
	for _, p := range s.Params {
		form.Params = append(form.Params, yaml.MapItem{Key: p.Name, Value: shown(p.Type)})
	}
	if s.ExpectRows != AnyRows {
		form.ExpectRows = &s.ExpectRows
	}
	return form, nil
}

// MarshalYAML returns the function as a file would write it.
func (f Function) MarshalYAML() (any, error) {
	return struct {
		Name any    `yaml:"name"`
		Lock string `yaml:"lock"`
		Mode string `yaml:"mode,omitempty"`
	}{written(f.Schema, f.Name), f.Lock.String(), unusual(f.Mode)}, nil
}

// unusual is the mode, "" if it is the one that goes without saying.
func unusual(mode string) string {
	if mode == ModeEnforce {
		return ""
	}
	return mode
}

// written is a name as a file writes it.
func written(schema, name string) any {
	if isPlainName(schema) && isPlainName(name) {
		return schema + "." + name
	}
	return struct {
		Schema any `yaml:"schema"`
		Name   any `yaml:"name"`
	}{shown(schema), shown(name)}
}

// odd is what a block of lines does not keep.
var odd = regexp.MustCompile(`^\s|[ \t]\n|[ \t]$|[^\t\n\x{20}-\x{10FFFF}]|[\x{7F}-\x{A0}\x{2028}\x{2029}\x{FEFF}]`)

// shown is text in the form that reads back the same.
func shown(s string) any {
	if odd.MatchString(s) {
		return quoted(s)
	}
	return s
}

// quoted is text that shows in double quotes.
type quoted string

// MarshalYAML returns the text in double quotes.
func (q quoted) MarshalYAML() ([]byte, error) { return []byte(strconv.Quote(string(q))), nil }

// brief is a duration without the zeros that time.Duration.String adds to whole
// hours and minutes.
func brief(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
