package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// Masked returns the effective configuration as YAML, defaults included, with
// the passwords in URLs masked. A URL read from a file shows as a comment above
// the name of its file.
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
	out, err := yaml.MarshalWithOptions(shown,
		yaml.WithComment(comments),
		yaml.IndentSequence(true),
		yaml.CustomMarshaler(func(d time.Duration) ([]byte, error) { return []byte(brief(d)), nil }),
	)
	if err != nil {
		return fmt.Sprintf("# rendering the configuration: %v\n", err)
	}
	return string(out)
}

// oneLine keeps a key=value string with line breaks inside its comment.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// MarshalYAML returns the table as a file would write it.
func (t Table) MarshalYAML() (any, error) {
	form := struct {
		Name       any      `yaml:"name"`
		Lock       string   `yaml:"lock"`
		Operations []string `yaml:"operations,flow"`
	}{t.Schema + "." + t.Name, t.Lock.String(), t.Operations}
	if !isPlainName(t.Schema) || !isPlainName(t.Name) {
		form.Name = nameForm{t.Schema, t.Name}
	}
	return form, nil
}

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
