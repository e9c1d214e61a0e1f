package config

import (
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// scalar is a key that holds one value, with its default.
type scalar struct{ section, key, value string }

// scalars lists the keys of the configuration by reflection, so that a field
// added later can't be left out of the documentation.
func scalars(section string, v reflect.Value) []scalar {
	var all []scalar
	for i, key := range keysOf(v.Type()) {
		field := v.Field(i)
		switch value := field.Interface().(type) {
		case time.Duration:
			all = append(all, scalar{section, key, brief(value)})
			continue
		case ByteSize:
			all = append(all, scalar{section, key, value.String()})
			continue
		}
		switch field.Kind() {
		case reflect.Struct:
			all = append(all, scalars(strings.TrimPrefix(section+"."+key, "."), field)...)
		case reflect.Slice:
			all = append(all, scalar{section, key, ""})
		case reflect.Int:
			all = append(all, scalar{section, key, strconv.FormatInt(field.Int(), 10)})
		case reflect.Float64:
			all = append(all, scalar{section, key, strconv.FormatFloat(field.Float(), 'g', -1, 64)})
		case reflect.Bool:
			all = append(all, scalar{section, key, strconv.FormatBool(field.Bool())})
		default:
			all = append(all, scalar{section, key, field.String()})
		}
	}
	return all
}

func TestTheDocumentationHasEveryKeyWithItsDefault(t *testing.T) {
	t.Parallel()
	doc := read(t, "../../docs/configuration.md")
	all := scalars("", reflect.ValueOf(*defaults()))
	for section, form := range map[string]reflect.Type{
		"tables": reflect.TypeFor[tableForm](), "statements": reflect.TypeFor[statementForm](), "functions": reflect.TypeFor[functionForm](),
		"roles": reflect.TypeFor[Role](), "principals": reflect.TypeFor[Principal](),
	} {
		for _, key := range keysOf(form) {
			all = append(all, scalar{section, key, ""})
		}
	}
	for _, s := range all {
		part := sectionOf(doc, s.section)
		row := regexp.MustCompile("(?m)^\\| `" + s.key + "` \\| (.*?) \\|").FindStringSubmatch(part)
		switch {
		case row == nil:
			t.Errorf("section %q has no row for %s", s.section, s.key)
		case s.value != "" && row[1] != "`"+s.value+"`":
			t.Errorf("the default of %s.%s is %s, want `%s`", s.section, s.key, row[1], s.value)
		}
	}
}

func TestTheDocumentationHasEveryVariableAndFlag(t *testing.T) {
	t.Parallel()
	doc := read(t, "../../docs/configuration.md")
	for _, o := range overlays() {
		for _, want := range []string{"`" + o.env + "`", "`--" + o.flag + "`"} {
			if want != "`--`" && !strings.Contains(doc, want) {
				t.Errorf("%s is missing", want)
			}
		}
	}
}

func TestTheExampleHasEveryKeyAndItsDefaults(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, Example())
	want := *defaults()
	want.Auth, want.Schemas, want.Tables = c.Auth, c.Schemas, c.Tables
	want.Statements, want.Functions = c.Statements, c.Functions
	want.Database.URL, want.Redis.URL = c.Database.URL, c.Redis.URL
	if !reflect.DeepEqual(*c, want) {
		t.Errorf("the example is %+v\nwant %+v", *c, want)
	}
	for _, s := range scalars("", reflect.ValueOf(want)) {
		if !regexp.MustCompile(`(?m)^ *(# *)?` + s.key + `:`).MatchString(Example()) {
			t.Errorf("the example lacks %s.%s", s.section, s.key)
		}
	}
}

func TestTheExampleIsTheOneInExamples(t *testing.T) {
	t.Parallel()
	if read(t, "../../examples/gateway.yaml") != Example() {
		t.Error("examples/gateway.yaml and internal/config/example.yaml differ; copy the latter")
	}
}

// sectionOf returns the part of doc under the heading of section.
func sectionOf(doc, section string) string {
	heading := "## Top level\n"
	if section != "" {
		heading = "## `" + section + "`\n"
	}
	_, part, _ := strings.Cut(doc, heading)
	part, _, _ = strings.Cut(part, "\n## ")
	return part
}
