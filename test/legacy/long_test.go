package legacy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// TestLongTexts is apart from the other types: no URL carries these.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	w := build(t, `CREATE SCHEMA long; CREATE TABLE long.books (k text PRIMARY KEY, t text, j jsonb, ts text[]);`, table{"long", "books", "book:{k}"})
	l := w.Acquire(t, "book:K", 300_000)
	for name, text := range map[string]string{
		"ASCII":           strings.Repeat("a long story. ", 30_000),
		"several scripts": strings.Repeat("größe 中文 עברית 👩\u200d👧 e\u0301 ", 1_500),
		"what is quoted":  strings.Repeat(`"\{}'`+"\n\x01", 3_000),
	} {
		quoted := jsonText(text)
		body := fmt.Sprintf(`{"k":"K","t":%[1]s,"j":{"t":%[1]s},"ts":[null,%[1]s]}`, quoted)
		must(t, w.send(t, l, http.MethodPost, "books", merge, body))
		w.holds(t, name, text)
		read := must(t, w.Do(t, testenv.Request{Path: "/rest/books"})).Body
		w.rows(t, "UPDATE long.books SET t = NULL, j = NULL, ts = NULL")
		must(t, w.send(t, l, http.MethodPost, "books", merge, read))
		w.holds(t, name+" sent back", text)
	}
}

func (w *world) holds(t *testing.T, name, text string) {
	t.Helper()
	for _, column := range []string{"t", "j ->> 't'", "ts[2]"} {
		if got := w.text(t, "SELECT "+column+" FROM long.books"); got != text {
			t.Errorf("%s: %d bytes are stored in %s, not %d", name, len(got), column, len(text))
		}
	}
}
