package config

import (
	"maps"
	"strings"
	"testing"
)

func tracing(block string) string { return minimal + "traces: {" + block + "}\n" }

func TestNothingIsTracedUnlessAnEndpointIsGiven(t *testing.T) {
	t.Parallel()
	if c := mustLoad(t, minimal); c.Traces.Endpoint != "" || strings.Contains(c.Masked(), "traces") {
		t.Errorf("traces go to %q, shown as\n%s", c.Traces.Endpoint, c.Masked())
	}
	for text, want := range map[string]string{
		"http://a:4318":           "http://a:4318/v1/traces",
		"https://a/":              "https://a/v1/traces",
		"https://a/otlp/v1/spans": "https://a/otlp/v1/spans",
	} {
		if got := mustLoad(t, tracing("endpoint: '"+text+"'")).Traces.URL(); got != want {
			t.Errorf("%s is %s, not %s", text, got, want)
		}
	}
	if c := mustLoad(t, minimal, "FENCEGATE_TRACES_ENDPOINT=http://a:1", "OTEL_EXPORTER_OTLP_ENDPOINT=http://b:1"); c.Traces.Endpoint != "http://a:1" {
		t.Errorf("traces go to %q", c.Traces.Endpoint)
	}
}

func TestHeadersOfTracesAreReadAndNeverShown(t *testing.T) {
	t.Parallel()
	const endpoint = "endpoint: 'https://a'"
	file := writeAs(t, "headers", "x-key=hunter2\n")
	for name, c := range map[string]struct {
		text, env string
		want      map[string]string
	}{
		"written":         {tracing(endpoint + ", headers: 'authorization=Bearer%20hunter2, X-Org = a=b'"), "", map[string]string{"authorization": "Bearer hunter2", "X-Org": "a=b"}},
		"a file":          {tracing(endpoint + ", headers_file: " + file), "", map[string]string{"x-key": "hunter2"}},
		"a variable":      {tracing(endpoint + ", headers_file: " + file), "FENCEGATE_TRACES_HEADERS=y=hunter2", map[string]string{"y": "hunter2"}},
		"a variable file": {tracing(endpoint), "FENCEGATE_TRACES_HEADERS_FILE=" + file, map[string]string{"x-key": "hunter2"}},
		"none":            {tracing(endpoint), "", map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loaded := mustLoad(t, c.text, c.env)
			got, err := loaded.Traces.HeaderValues()
			if err != nil || !maps.Equal(got, c.want) {
				t.Errorf("the headers are %v, %v", got, err)
			}
			if strings.Contains(loaded.Masked(), "hunter2") {
				t.Errorf("the headers show:\n%s", loaded.Masked())
			}
		})
	}
}

func TestAMistakeAboutTracesIsReportedWhereItStands(t *testing.T) {
	t.Parallel()
	line := func(rest string) string { return tracing("endpoint: 'https://a', " + rest) }
	for name, c := range map[string]struct{ text, want string }{
		"no endpoint":             {tracing("sample_ratio: 0.5"), "traces: needs endpoint"},
		"no URL":                  {tracing("endpoint: collector"), "traces.endpoint: must be http://host:port"},
		"another scheme":          {tracing("endpoint: 'grpc://a:4317'"), "traces.endpoint: must be http://host:port"},
		"a password":              {tracing("endpoint: 'https://u:hunter2@a'"), "traces.endpoint: must be http://host:port"},
		"a query":                 {tracing("endpoint: 'https://a?key=hunter2'"), "traces.endpoint: must be http://host:port"},
		"headers of another form": {line("headers: 'authorization: Bearer hunter2'"), "traces.headers: must be name=value"},
		"a header that is none":   {line("headers: 'x-key=%0ahunter2'"), "traces.headers: have a value with a character that must be percent-encoded"},
		"headers and their file":  {line("headers: 'a=hunter2', headers_file: f"), "traces.headers_file: stands beside headers"},
		"more than all":           {line("sample_ratio: 1.5"), "traces.sample_ratio: is 1.5; must be 0 to 1"},
		"less than none":          {line("sample_ratio: -1"), "traces.sample_ratio: is -1; must be 0 to 1"},
		"a ratio in words":        {line("sample_ratio: half"), "traces.sample_ratio: must be a number"},
		"not a number":            {line("sample_ratio: .nan"), "traces.sample_ratio: must be a number"},
		"no time":                 {line("timeout: 0s"), "traces.timeout: is 0s; must be 1ms to 24h"},
		"a certificate for http":  {tracing("endpoint: 'http://a', ca_file: x"), "traces.ca_file: is for servers whose endpoint is https://"},
		"a certificate alone":     {line("cert_file: x"), "traces.cert_file: cert_file and key_file go together"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := mistakesOf(t, c.text)
			if len(got) != 1 || !strings.Contains(got[0], c.want) || strings.Contains(got[0], "hunter2") {
				t.Errorf("%q, not %q", got, c.want)
			}
		})
	}
}
