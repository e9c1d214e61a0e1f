package proxy_test

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// recordedSQL makes refusals of two weeks, as many as several pages of an export.
const recordedSQL = `
SELECT fencegate.add_refusal_week(day) FROM unnest('{2026-01-05 12:00+00,2026-01-12 12:00+00}'::timestamptz[]) AS day;
INSERT INTO fencegate.refusals (occurred_at, code, disposition, operation, table_name, lock_key, presented_token, mark_token, holder_digest, client, principal, request_id, remote_address, instance)
SELECT '2026-01-10 00:00+00'::timestamptz + n * interval '1 minute', CASE WHEN n % 2 = 0 THEN 'stale_token' ELSE 'lease_lost' END, 'refused', 'update',
       'shop.inventory', 'item:' || n % 3, n, nullif(n % 7, 0), 'd', CASE n % 5 WHEN 0 THEN '=1+1' WHEN 1 THEN 'a,"b"' || chr(10) || 'c' WHEN 2 THEN '' END, 'anyone', 'r', '@a', 'i'
  FROM generate_series(1, 4321) AS n;
`

func export(t *testing.T, g *testenv.Gateway, media, query string) string {
	t.Helper()
	answer := g.Do(t, testenv.Request{Path: "/v1/refusals?" + query, Header: http.Header{"Accept": {media}}})
	if answer.Status != http.StatusOK || !strings.HasPrefix(answer.Header.Get("Content-Type"), media) {
		t.Fatalf("%d %v", answer.Status, answer.Header)
	}
	return answer.Body
}

func TestExport(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	g.Database.Exec(t, recordedSQL)

	t.Run("LinesAreAllThatMatchesNewestFirst", func(t *testing.T) {
		for query, want := range map[string]struct{ first, step, count int }{
			"": {4321, 1, 4321}, "code=stale_token": {4320, 2, 2160}, "key=item:1&until=2026-01-10T00:10:00Z": {7, 3, 3}, "key=item:9": {},
		} {
			lines := strings.SplitAfter(export(t, g, "application/x-ndjson", query), "\n")
			lines = lines[:len(lines)-1]
			if len(lines) != want.count {
				t.Errorf("%s: %d lines", query, len(lines))
			}
			for i, line := range lines {
				var r struct {
					ID    string
					Token string `json:"presented_token"`
				}
				if err := json.Unmarshal([]byte(line), &r); err != nil || r.Token != strconv.Itoa(want.first-i*want.step) {
					t.Fatalf("%s: line %d is %s, %v", query, i, line, err)
				}
			}
		}
	})

	t.Run("CSVIsReadAsItWasWritten", func(t *testing.T) {
		rows, err := csv.NewReader(strings.NewReader(export(t, g, "text/csv", ""))).ReadAll()
		if err != nil || len(rows) != 4322 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		column := map[string]int{}
		for i, name := range rows[0] {
			column[name] = i
		}
		for i, row := range rows[1:] {
			n := 4321 - i
			client := []string{"'=1+1", "a,\"b\"\nc", "", "", ""}[n%5]
			if row[column["presented_token"]] != strconv.Itoa(n) || row[column["client"]] != client || row[column["remote_address"]] != "'@a" {
				t.Fatalf("row %d is %q", i, row)
			}
		}
	})

	t.Run("WhatMakesNoSenseIsRefused", func(t *testing.T) {
		for query, parameter := range map[string]string{"limit=5": "limit", "since=x": "since", "nope=1": "nope"} {
			q := testenv.Request{Path: "/v1/refusals?" + query, Header: http.Header{"Accept": {"text/csv"}}, Broken: true}
			mustRefuse(t, g.Do(t, q), want{status: 400, slug: "malformed_query", parameter: parameter})
		}
	})

	t.Run("HEADIsOnlyHeaders", func(t *testing.T) {
		answer := g.Do(t, testenv.Request{Method: http.MethodHead, Path: "/v1/refusals", Header: http.Header{"Accept": {"text/csv"}}})
		if answer.Status != http.StatusOK || answer.Body != "" {
			t.Errorf("%d %q", answer.Status, answer.Body)
		}
	})
}

// events follows the stream of refusals; each has an id and a record's token.
type events struct {
	lines *bufio.Scanner
	id    string
}

func follow(t *testing.T, ctx context.Context, g *testenv.Gateway, query, last string) *events {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.URL+"/v1/refusals/stream"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	return &events{lines: bufio.NewScanner(resp.Body)}
}

// next returns the code of the next record, "" at the stream's end.
func (e *events) next(t *testing.T) string {
	t.Helper()
	for e.lines.Scan() {
		line := e.lines.Text()
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			e.id = id
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var r struct{ Code string }
			if err := json.Unmarshal([]byte(data), &r); err != nil {
				t.Fatal(err)
			}
			return r.Code
		}
	}
	return ""
}

func TestRefusalsAreFollowedAsTheyCome(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	refuse := func(key, code string) {
		g.Database.Exec(t, `INSERT INTO fencegate.refusals (code, disposition, operation, lock_key, presented_token, holder_digest, principal, request_id, remote_address, instance)
			VALUES ('`+code+`', 'refused', 'update', '`+key+`', 1, 'd', 'p', 'r', 'a', 'i')`)
	}
	refuse("k", "before")
	ctx, hangUp := context.WithCancel(t.Context())
	all, some := follow(t, ctx, g, "", ""), follow(t, t.Context(), g, "?key=k", "")
	all.lines.Scan() // the stream has begun
	some.lines.Scan()
	refuse("other", "first")
	refuse("k", "second")
	if a, b, c := all.next(t), all.next(t), some.next(t); a != "first" || b != "second" || c != "second" {
		t.Errorf("%s, %s; of the key %s", a, b, c)
	}
	hangUp()
	refuse("k", "third")
	again := follow(t, t.Context(), g, "", all.id)
	for code := again.next(t); code != "third"; code = again.next(t) {
		if code != "before" && code != "first" { // little older ones may come again
			t.Errorf("%q before the third", code)
		}
	}
	if code := some.next(t); code != "third" {
		t.Error(code)
	}
	mustRefuse(t, g.Do(t, testenv.Request{Path: "/v1/refusals/stream", Header: http.Header{"Last-Event-ID": {"x"}}}),
		want{status: 400, slug: "malformed_query", parameter: "Last-Event-ID"})
	mustRefuse(t, g.Do(t, testenv.Request{Path: "/v1/refusals/stream?limit=1", Broken: true}), want{status: 400, slug: "malformed_query", parameter: "limit"})
	g.Signal(t, syscall.SIGTERM)
	var last []string
	for some.lines.Scan() {
		last = append(last, some.lines.Text())
	}
	if all := strings.Join(last, "\n"); !strings.HasSuffix(all, "\nevent: stopping\ndata: {}\n") {
		t.Errorf("the stream ends with %q", all)
	}
	if code := g.Wait(); code != 0 || strings.Contains(g.Log(), "still in flight") {
		t.Errorf("exit code %d:\n%s", code, g.Log())
	}
}

func TestARecordTellsWhoTookOver(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	a := g.Acquire(t, "inventory:SKU-1", 60000)
	post(g, t, "/v1/leases/release", a.Claim())
	b := g.Acquire(t, "inventory:SKU-1", 60000)
	post(g, t, "/v1/leases/revoke", `{"key":"inventory:SKU-1","reason":"slow"}`)
	p := mustRefuse(t, g.Patch(t, a, "inventory?sku=eq.SKU-1", `{"available":1}`), want{status: 412, slug: "stale_token"})
	type grant struct{ Event, Token, Client, Reason string }
	var story struct {
		ID         string
		Superseded grant `json:"superseded_by"`
		History    []grant
	}
	g.Do(t, testenv.Request{Path: "/v1/refusals/" + p.AuditID}).JSON(t, &story)
	name := t.Name()
	history := []grant{{"granted", a.Token, name, ""}, {"released", a.Token, name, ""}, {"granted", b.Token, name, ""}, {"revoked", b.Token, name, "slow"}}
	if story.ID != p.AuditID || story.Superseded != history[2] || len(story.History) != 4 {
		t.Fatalf("%+v", story)
	}
	for i, want := range history {
		if story.History[i] != want {
			t.Errorf("%d: %+v, not %+v", i, story.History[i], want)
		}
	}
	for cursor, n := "", 3; n >= 0; n-- {
		var page struct {
			Grants []grant
			Next   string `json:"next_cursor"`
		}
		g.Do(t, testenv.Request{Path: "/v1/grants?key=inventory:SKU-1&limit=1" + cursor}).JSON(t, &page)
		if len(page.Grants) != 1 || page.Grants[0] != history[n] || (page.Next == "") != (n == 0) {
			t.Errorf("%+v, not %+v", page, history[n])
		}
		cursor = "&cursor=" + page.Next
	}
}
