package proxy_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

const secretsSQL = `
CREATE TABLE shop.cards (id text PRIMARY KEY, pin text, "n u" numeric, notes json);
CREATE TABLE shop.plain (id text PRIMARY KEY, pin text);
`

const secretsTables = `tables:
  - {name: shop.cards, lock: "card:{id}", record_payload: true, redact: [pin, notes]}
  - {name: shop.plain, lock: "card:{id}"}
`

func TestWhatWasToBeWrittenIsRecordedWhereItIsAskedFor(t *testing.T) {
	t.Parallel()
	g := startOn(t, secretsSQL, secretsTables, "")
	l := g.Acquire(t, "card:A", 60000)
	post(g, t, "/v1/leases/release", l.Claim())
	many := strings.Repeat(`{"id":"A","n u":1},`, 5000)
	insert := func(table, body string) testenv.Request {
		return testenv.Request{Method: http.MethodPost, Path: "/rest/" + table, Header: l.Header(), Body: body}
	}
	for name, c := range map[string]struct {
		q    testenv.Request
		want string
	}{
		"an update": {testenv.Request{Method: http.MethodPatch, Path: "/rest/cards?id=eq.A", Header: l.Header(), Body: `{"pin":"1234","n u":1.50}`},
			`[{"operation":0,"table":"shop.cards","rows":[{"pin":"[redacted]","n u":1.50}]}]`},
		"an insert": {insert("cards", `[{"id":"A","n u":12345678901234567890.1,"notes":{"pin":"1","a":[1,{"pin":2}]}},{"id":"A"}]`),
			`[{"operation":0,"table":"shop.cards","rows":[{"id":"A","n u":12345678901234567890.1,"notes":"[redacted]"},{"id":"A"}]}]`},
		"a delete":      {testenv.Request{Method: http.MethodDelete, Path: "/rest/cards?id=eq.A", Header: l.Header()}, ""},
		"another table": {insert("plain", `{"id":"A","pin":"1234"}`), ""},
		"a transaction": {run(transaction([]testenv.Lease{l},
			`{"op":"insert","table":"plain","rows":[{"id":"A","pin":"1234"}]},{"op":"update","table":"cards","where":{"id":"eq.A"},"increment":{"n u":2},"set":{"pin":"9"}}`)),
			`[{"operation":1,"table":"shop.cards","rows":[{"pin":"[redacted]"}],"increment":{"n u":2}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			p := mustRefuse(t, g.Do(t, c.q), want{status: 412, slug: "lease_released"})
			if got := payload(t, g, p.AuditID); got != c.want {
				t.Errorf("%s\nnot\n%s", got, c.want)
			}
		})
	}

	t.Run("AsMuchAsThereIsRoomFor", func(t *testing.T) {
		big := startOn(t, secretsSQL, secretsTables, "limits: {max_rows: 10000}\n")
		old := big.Acquire(t, "card:A", 60000)
		post(big, t, "/v1/leases/release", old.Claim())
		p := mustRefuse(t, big.Do(t, testenv.Request{Method: http.MethodPost, Path: "/rest/cards", Header: old.Header(), Body: "[" + strings.TrimSuffix(many, ",") + "]"}),
			want{status: 412, slug: "lease_released"})
		var parts []struct {
			Rows    []json.RawMessage
			LeftOut int `json:"rows_left_out"`
		}
		if err := json.Unmarshal([]byte(payload(t, big, p.AuditID)), &parts); err != nil || len(parts) != 1 || parts[0].LeftOut == 0 || len(parts[0].Rows)+parts[0].LeftOut != 5000 {
			t.Errorf("%d rows, %d left out, %v", len(parts[0].Rows), parts[0].LeftOut, err)
		}
	})

	t.Run("AndNowhereElse", func(t *testing.T) {
		for _, path := range []string{"/v1/refusals", "/v1/refusals?key=card:A"} {
			if answer := g.Do(t, testenv.Request{Path: path}); strings.Contains(answer.Body, `"payload":`) {
				t.Errorf("%s: %s", path, answer.Body)
			}
		}
		if strings.Contains(g.Log(), "1234") {
			t.Error("it is in the log")
		}
	})
}

func payload(t *testing.T, g *testenv.Gateway, id string) string {
	t.Helper()
	var record struct{ Payload json.RawMessage }
	g.Do(t, testenv.Request{Path: "/v1/refusals/" + id}).JSON(t, &record)
	return string(record.Payload)
}
