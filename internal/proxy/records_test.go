package proxy_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

type refusal struct {
	ID          string
	OccurredAt  time.Time `json:"occurred_at"`
	Code        string
	Disposition string
	Operation   string
	Table       string
	Key         string
	Token       string `json:"presented_token"`
	Mark        string `json:"mark_token"`
	Client      string
	RequestID   string `json:"request_id"`
}

func listed(t *testing.T, g *testenv.Gateway, query string) []refusal {
	t.Helper()
	page, _ := refusalPage(t, g, query)
	return page
}

func refusalPage(t *testing.T, g *testenv.Gateway, query string) (page []refusal, next string) {
	t.Helper()
	var body struct {
		Refusals []refusal
		Next     string `json:"next_cursor"`
	}
	g.Do(t, testenv.Request{Path: "/v1/refusals?" + query}).JSON(t, &body)
	return body.Refusals, body.Next
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	held := g.Acquire(t, "order:B", 60000)
	refuse := func(key, table string) string {
		q := testenv.Request{Method: http.MethodDelete, Path: "/rest/" + table + "?sku=eq.x&order_no=eq.x",
			Header: http.Header{"Lock-Key": {key}, "Lock-Holder": {"h"}, "Fencing-Token": {held.Token}}}
		return g.Do(t, q).Problem(t).AuditID
	}

	t.Run("NoneIsAnEmptyPage", func(t *testing.T) {
		if answer := g.Do(t, testenv.Request{Path: "/v1/refusals"}); answer.Body != `{"refusals":[]}` {
			t.Error(answer.Body)
		}
	})

	var all []string
	for i := range 7 {
		all = append(all, refuse("inventory:A", "inventory"))
		if i%2 == 0 {
			all = append(all, refuse("order:B", "order_lines"))
		}
	}
	slices.Reverse(all)

	t.Run("TheNewestComesFirst", func(t *testing.T) {
		if got := idsOf(listed(t, g, "")); !slices.Equal(got, all) {
			t.Errorf("%v, not %v", got, all)
		}
	})

	t.Run("FiltersNarrow", func(t *testing.T) {
		for query, want := range map[string]int{
			"key=inventory:A":                      7,
			"key=order:B":                          4,
			"key=base64:b3JkZXI6Qg==":              4,
			"key=order:b":                          0,
			"key=order":                            0,
			"code=token_not_granted":               7,
			"code=holder_mismatch":                 4,
			"code=holder_mismatch&key=inventory:A": 0,
			"code=HOLDER_MISMATCH":                 0,
			"code=%25":                             0,
			"table=shop.order_lines":               4,
			"table=order_lines":                    0,
			"table=shop.inventory&key=inventory:A&limit=1000": 7,
			"since=2000-01-01T00:00:00Z":                      11,
			"since=2999-01-01T00:00:00Z":                      0,
			"until=2000-01-01T00:00:00Z":                      0,
			"until=2999-01-01T00:00:00%2B02:00":               11,
		} {
			if got := listed(t, g, query); len(got) != want {
				t.Errorf("%s: %d records, not %d", query, len(got), want)
			}
		}
	})

	t.Run("TimesCutWhereTheyAre", func(t *testing.T) {
		records := listed(t, g, "")
		middle := records[5]
		at := url.QueryEscape(middle.OccurredAt.Format(time.RFC3339Nano))
		since, until := idsOf(listed(t, g, "since="+at)), idsOf(listed(t, g, "until="+at))
		if got := append(since, until...); !slices.Equal(got, all) || !slices.Contains(since, middle.ID) {
			t.Errorf("since %v and until %v", since, until)
		}
	})

	t.Run("PagesHaveNoGapsAndNoDoubles", func(t *testing.T) {
		for _, limit := range []int{1, 2, 3, 10, 11, 12, 1000} {
			var got []string
			pages := 0
			for cursor := ""; ; pages++ {
				page, next := refusalPage(t, g, fmt.Sprintf("limit=%d%s", limit, cursor))
				if len(page) > limit || next != "" && len(page) < limit || pages > 20 {
					t.Fatalf("limit %d: a page of %d, next is %q", limit, len(page), next)
				}
				got = append(got, idsOf(page)...)
				if next == "" {
					break
				}
				cursor = "&cursor=" + next
			}
			if !slices.Equal(got, all) {
				t.Errorf("limit %d: %v, not %v", limit, got, all)
			}
		}
	})

	t.Run("FilteredPagesAreWholeToo", func(t *testing.T) {
		first, next := refusalPage(t, g, "key=order:B&limit=3")
		second, end := refusalPage(t, g, "key=order:B&limit=3&cursor="+next)
		if len(first) != 3 || len(second) != 1 || end != "" || first[2].ID == second[0].ID {
			t.Errorf("%v, %v, %q", idsOf(first), idsOf(second), end)
		}
	})

	t.Run("NewRecordsDontShiftThePages", func(t *testing.T) {
		first, next := refusalPage(t, g, "limit=4")
		added := refuse("inventory:A", "inventory")
		second, _ := refusalPage(t, g, "limit=1000&cursor="+next)
		if got := append(idsOf(first), idsOf(second)...); !slices.Equal(got, all) {
			t.Errorf("%v, not %v", got, all)
		}
		if newest := listed(t, g, "limit=1"); newest[0].ID != added {
			t.Errorf("%s is not on top of %+v", added, newest)
		}
	})

	t.Run("OneRecordCanBeRead", func(t *testing.T) {
		var record refusal
		g.Do(t, testenv.Request{Path: "/v1/refusals/" + all[0]}).JSON(t, &record)
		if page := listed(t, g, "limit=1000"); page[1] != record {
			t.Errorf("%+v, not %+v", record, page[1])
		}
	})

	t.Run("ARecordThatIsNotThereIs404", func(t *testing.T) {
		for _, id := range []string{"999999", "9223372036854775807"} {
			mustRefuse(t, g.Do(t, testenv.Request{Path: "/v1/refusals/" + id}), want{status: 404, slug: "not_found"})
		}
		for _, id := range []string{"0", "-1", "01", "x", "1.0", "9223372036854775808", "1%20", "%00", "1e3"} {
			mustRefuse(t, g.Do(t, testenv.Request{Path: "/v1/refusals/" + id, Broken: true}), want{status: 400, slug: "malformed_query", parameter: "id"})
		}
	})

	for query, parameter := range map[string]string{
		"limit=0": "limit", "limit=-1": "limit", "limit=1001": "limit", "limit=x": "limit", "limit=1.5": "limit", "limit=": "limit",
		"limit=99999999999999999999": "limit", "cursor=0": "cursor", "cursor=x": "cursor", "cursor=-1": "cursor", "cursor=": "cursor",
		"since=yesterday": "since", "until=2026-02-30T00:00:00Z": "until", "since=2026-01-01T00:00:00+01:00": "since", "kee=x": "kee", "principals=x": "principals",
		"key=a&key=b": "key", "code=a&code=b": "code", "code=%00": "code", "code=%ff": "code", "table=a%00b": "table", "code=%zz": "code", "Key=x": "Key",
		"order=id": "order", "%00=x": "%00",
	} {
		t.Run("Refused/"+query, func(t *testing.T) {
			mustRefuse(t, g.Do(t, testenv.Request{Path: "/v1/refusals?" + query, Broken: true}), want{status: 400, slug: "malformed_query", parameter: parameter})
		})
	}
	t.Run("AMalformedKeyIsRefused", func(t *testing.T) {
		for _, key := range []string{"", "a,b", "base64:*"} {
			mustRefuse(t, g.Do(t, testenv.Request{Path: "/v1/refusals?key=" + key, Broken: true}), want{status: 400, slug: "fencing_malformed", parameter: "key"})
		}
	})
}

func idsOf(records []refusal) []string {
	ids := make([]string, len(records))
	for i, r := range records {
		ids[i] = r.ID
	}
	return ids
}

func TestMarks(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	type mark struct{ Key, Token, State, Client string }
	read := func(t *testing.T, query string) (keys []string, marks []mark, next string) {
		t.Helper()
		var body struct {
			Marks []mark
			Next  string `json:"next_cursor"`
		}
		g.Do(t, testenv.Request{Path: "/v1/marks?" + query}).JSON(t, &body)
		for _, m := range body.Marks {
			keys = append(keys, m.Key)
		}
		return keys, body.Marks, body.Next
	}

	t.Run("NoneIsAnEmptyPage", func(t *testing.T) {
		if answer := g.Do(t, testenv.Request{Path: "/v1/marks"}); answer.Body != `{"marks":[]}` {
			t.Error(answer.Body)
		}
	})

	// in byte order; the second is "m," and travels as base64
	keys := []string{"M:a", "base64:bSw=", "m:%", "m:B", "m:_", "m:a", "m:ab", "m:z", "m:ä", "n"}
	for _, key := range slices.Backward(keys) {
		g.Acquire(t, key, 60000)
	}

	t.Run("KeysComeInByteOrder", func(t *testing.T) {
		if got, _, next := read(t, ""); !slices.Equal(got, keys) || next != "" {
			t.Errorf("%v, next %q", got, next)
		}
	})

	t.Run("APrefixIsTakenAsItIs", func(t *testing.T) {
		for prefix, want := range map[string][]string{
			"":         keys,
			"m":        keys[1:9],
			"m:":       keys[2:9],
			"m:a":      {"m:a", "m:ab"},
			"m:%25":    {"m:%"},
			"m:_":      {"m:_"},
			"m%2C":     {"base64:bSw="},
			"m:%C3%A4": {"m:ä"},
			"M":        {"M:a"},
			"x":        nil,
			"'":        nil,
			"%5C":      nil,
		} {
			if got, _, _ := read(t, "prefix="+prefix); !slices.Equal(got, want) {
				t.Errorf("%q: %v, not %v", prefix, got, want)
			}
		}
	})

	t.Run("PagesHaveNoGapsAndNoDoubles", func(t *testing.T) {
		for limit := 1; limit <= len(keys)+1; limit++ {
			var got []string
			for cursor := ""; ; {
				page, _, next := read(t, "prefix=m&limit="+strconv.Itoa(limit)+cursor)
				if got = append(got, page...); next == "" {
					break
				}
				cursor = "&cursor=" + url.QueryEscape(next)
			}
			if !slices.Equal(got, keys[1:9]) {
				t.Errorf("limit %d: %v", limit, got)
			}
		}
	})

	t.Run("OneKeyIsExact", func(t *testing.T) {
		for _, key := range keys {
			if got, marks, _ := read(t, "key="+url.QueryEscape(key)); !slices.Equal(got, []string{key}) || marks[0].Token != "1" || marks[0].State != "held" {
				t.Errorf("%q: %v", key, marks)
			}
		}
		if got, _, _ := read(t, "key=m"); got != nil {
			t.Errorf("%v", got)
		}
	})

	for query, want := range map[string]want{
		"limit=0":           {status: 400, slug: "malformed_query", parameter: "limit"},
		"limit=1001":        {status: 400, slug: "malformed_query", parameter: "limit"},
		"limit=x":           {status: 400, slug: "malformed_query", parameter: "limit"},
		"prefix=%00":        {status: 400, slug: "malformed_query", parameter: "prefix"},
		"prefix=%ff":        {status: 400, slug: "malformed_query", parameter: "prefix"},
		"prefix=a&prefix=b": {status: 400, slug: "malformed_query", parameter: "prefix"},
		"key=n&prefix=m":    {status: 400, slug: "malformed_query", parameter: "prefix"},
		"key=n&limit=1":     {status: 400, slug: "malformed_query", parameter: "limit"},
		"state=held":        {status: 400, slug: "malformed_query", parameter: "state"},
		"key=":              {status: 400, slug: "fencing_malformed", parameter: "key"},
		"cursor=":           {status: 400, slug: "fencing_malformed", parameter: "cursor"},
		"cursor=base64:":    {status: 400, slug: "fencing_malformed", parameter: "cursor"},
	} {
		t.Run("Refused/"+query, func(t *testing.T) {
			mustRefuse(t, g.Do(t, testenv.Request{Path: "/v1/marks?" + query, Broken: true}), want)
		})
	}
}
