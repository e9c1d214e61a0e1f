package proxy_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// hostile is something that must get nobody anywhere, whichever door it comes to.
type hostile struct {
	name  string
	value string
	slugs []string // what it may be answered with
}

func malformed(slug string, values ...string) (all []hostile) {
	for _, value := range values {
		all = append(all, hostile{value, value, []string{slug}})
	}
	return all
}

func hostileTokens() []hostile {
	return malformed("fencing_malformed", "0", "-1", "+1", "01", "1.0", "1e3", "0x10", "٣", "1_0", "9223372036854775808", "18446744073709551617", "null", "true", "[]", "{}", "'1'", "1;")
}

// hostileKeys are malformed, or twins of the live key that nobody was granted.
func hostileKeys() []hostile {
	return append(malformed("fencing_malformed", "a,b", strings.Repeat("k", 513), "stock:li\u0301ve", "stock:live\u0085", "base64:", "base64:*", "base64:YQ", "base64:AA=="),
		malformed("token_not_granted", "stock:LIVE", "stock:live\u200b", "stock:*", "{stock:live}", "stock:live:", "stock:live%20", "stock:live' OR true --", "stock:${live}", "stock:l\u00edve")...)
}

func hostileNames() []hostile {
	return malformed("", `stock"; DROP TABLE shop.stock; --`, `"stock"`, "STOCK", "Stock", "stock ", "shop.stock", `shop"."stock`, "public.stock", "pg_catalog.pg_authid", "pg_authid", "pg_class",
		"information_schema.tables", "fencegate.marks", "marks", "refusals", "stock\u200b", "stoc\u212a", "ſtock", "s\u0301tock", "stock)", "stock,orders", "*", "$1", "stock--", "stock/*", strings.Repeat("stock", 14))
}

// hostileBodies are made of a right one.
func hostileBodies(body string) []hostile {
	broken := []string{"malformed_json", "empty_batch", "unknown_column", "unknown_parameter"}
	open := strings.IndexByte(body, '{') + 1
	list := []hostile{
		{name: "nothing", value: ""}, {name: "null", value: "null"}, {name: "a text", value: `"str"`}, {name: "a number", value: "1e400"}, {name: "an empty array", value: "[]"},
		{name: "an array in an array", value: "[[]]"}, {name: "a second value", value: body + "{}"}, {name: "a byte order mark", value: "\ufeff" + body}, {name: "NUL behind it", value: body + "\x00"},
		{name: "UTF-16", value: strings.Join(strings.Split(body, ""), "\x00") + "\x00"}, {name: "cut off", value: body[:len(body)-1]}, {name: "depth", value: body[:open] + `"x":` + strings.Repeat("[", 10_000) + body[open:]},
		{name: "a prototype", value: body[:open] + `"__proto__":{"n":1},` + body[open:]}, {name: "a name in quotes", value: body[:open] + `"n\" = 7, \"n":1,` + body[open:]},
		{name: "a member twice", value: body[:open] + `"n":1,"\u006e":2,` + body[open:]}, {name: "a member in another case", value: body[:open] + `"N":1,` + body[open:]},
		{name: "a Kelvin sign", value: body[:open] + `"s\u212au":1,` + body[open:]}, {name: "a system column", value: body[:open] + `"ctid":"(0,1)",` + body[open:]}, {name: "not UTF-8", value: body[:open] + "\"\xff\":1," + body[open:]},
	}
	for i := range list {
		list[i].slugs = broken
	}
	return list
}

// hostileFilters match nothing, or are refused.
func hostileFilters() []string {
	return []string{"n=in.()", "nope=eq.1", "n=eq.9e999", "n=eq.", "or=()", "or=(n.eq.1", "not.and=()", "note=eq.'; DROP TABLE shop.stock; --", "note=like.%00", "n=is.nothing", "n=eq.1;select=*",
		"note=in.(" + strings.Repeat("x,", 1500) + "x)", "note->x=eq.1", "n::text=eq.1 or true", `"n"=eq.77`, "N=eq.0", "n=eq(any).{", "ctid=eq.(0,1)", "pg_sleep(9)=eq.1", "note=match.(((((a+)+)+)+)+$&n=eq.77"}
}

// TestNothingHostileGetsThroughADoor: each is answered as the caller's fault, by a
// whole problem that tells nothing of the SQL behind it, and changes nothing.
func TestNothingHostileGetsThroughADoor(t *testing.T) {
	t.Parallel()
	g := startOn(t, doorsSQL, doorsTables+doorsRoutines, "")
	w := watch(t, g)
	live, spare := g.Acquire(t, "stock:live", 300_000), g.Acquire(t, "stock:spare", 300_000)
	marks := func() string {
		return scalar[string](t, w.pool, `SELECT string_agg(m::text, ',' ORDER BY lock_key) FROM fencegate.marks AS m`)
	}
	granted := marks()
	for _, d := range doors() {
		if slices.ContainsFunc([]string{"Profile", "Preferred", "TwoLocks", "ForOneObject"}, func(s string) bool { return strings.Contains(d.name, s) }) {
			continue // what hostile things meet there is met at its neighbour
		}
		t.Run(d.name, func(t *testing.T) {
			locks := func(l testenv.Lease) []testenv.Lease { return (&hall{spare: spare}).locks(d, l) }
			try := func(what string, slugs []string, q testenv.Request) {
				t.Helper()
				q.Broken = true
				answer := g.Do(t, q)
				if answer.Status < 400 || answer.Status >= 500 {
					t.Errorf("%s: %d %s", what, answer.Status, answer.Body)
					return
				}
				if p := answer.Problem(t); !slices.Contains(slugs, p.Slug()) || p.Outcome != "not_applied" {
					t.Errorf("%s: %d %s, not %v", what, answer.Status, answer.Body, slugs)
				}
				if text := strings.ToLower(answer.Body); strings.Contains(text, "syntax error") || strings.Contains(text, "with w as") || strings.Contains(text, "fencegate.check") {
					t.Errorf("%s: the answer tells the SQL: %s", what, answer.Body)
				}
			}
			for _, h := range hostileTokens() {
				try("the token "+h.name, h.slugs, d.ask(d.target(), "live", "", locks(forged(live.Key, live.Holder, h.value))...))
			}
			for _, h := range hostileKeys() {
				try("the key "+h.name, h.slugs, d.ask(d.target(), "live", "", locks(forged(h.value, live.Holder, live.Token))...))
			}
			for _, h := range hostileNames() {
				name, gone := url.PathEscape(h.value), []string{"unknown_table", "unknown_routine"}
				if d.route == transact {
					quoted, _ := json.Marshal(h.value)
					name = string(quoted[1 : len(quoted)-1])
				}
				try("the name "+h.name, gone, d.ask(name, "live", "", locks(live)...))
			}
			q := d.ask(d.target(), "live", "", locks(live)...)
			if q.Body != "" {
				for _, h := range hostileBodies(q.Body) {
					mine := q
					mine.Body = h.value
					try("a body with "+h.name, h.slugs, mine)
				}
				if d.route != transact {
					mine := q
					mine.Header = q.Header.Clone()
					mine.Header.Set("Content-Encoding", "gzip")
					try("a compressed body", []string{"unsupported_media_type"}, mine)
				}
			}
			if strings.Contains(d.query, "sku=eq.") {
				for _, filter := range hostileFilters() {
					mine := q
					name, value, _ := strings.Cut(filter, "=")
					mine.Path += "&" + url.QueryEscape(name) + "=" + url.QueryEscape(value)
					if answer := g.Do(t, withBroken(mine)); answer.Status >= 500 {
						t.Errorf("%s: %d %s", filter[:min(len(filter), 60)], answer.Status, answer.Body)
					}
				}
			}
			w.unchanged(t)
		})
	}
	if now := marks(); now != granted {
		t.Errorf("the marks are\n%s, not\n%s", now, granted)
	}
	if answer := g.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/stock?sku=eq.live&line=eq.0", Header: live.Header(), Body: `{"n":5}`}); answer.Status != http.StatusNoContent {
		t.Errorf("a right write after it all: %d %s", answer.Status, answer.Body)
	}
}

func withBroken(q testenv.Request) testenv.Request {
	q.Broken = true
	return q
}
