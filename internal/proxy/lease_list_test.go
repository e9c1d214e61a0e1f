package proxy_test

import (
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestLiveLeasesAreListed(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: shortLeases})
	for _, key := range []string{"a:1", "a:2", "a:3", "b:1", "a:ü"} {
		g.Acquire(t, key, 60000)
	}
	post(g, t, "/v1/leases/release", g.Acquire(t, "a:0", 60000).Claim())
	g.Acquire(t, "a:25", 100)
	awaitExpiry(t, g, "a:25")

	// list follows the pages to their end.
	list := func(query string) (keys string, pages int) {
		for cursor := ""; ; pages++ {
			var page struct {
				Leases []struct {
					state
					Key string
				}
				Next string `json:"next_cursor"`
			}
			g.Do(t, testenv.Request{Path: "/v1/leases?" + query + cursor}).JSON(t, &page)
			for _, l := range page.Leases {
				keys += l.Key + " "
				if !l.Live || !l.OfMark || l.RemainingMS < 1 || l.Mark.Token != "1" {
					t.Errorf("%+v", l)
				}
			}
			if page.Next == "" {
				return keys, pages + 1
			}
			cursor = "&cursor=" + page.Next
		}
	}
	if got, _ := list("prefix=a:&cursor=a:2"); got != "a:3 a:ü " {
		t.Errorf("from a cursor on: %s", got)
	}
	for query, want := range map[string]string{
		"": "a:1 a:2 a:3 a:ü b:1 ", "prefix=a:": "a:1 a:2 a:3 a:ü ", "prefix=a:2": "a:2 ", "prefix=c": "", "prefix=%25": "",
	} {
		if got, _ := list(query); got != want {
			t.Errorf("%s: %s, not %s", query, got, want)
		}
		if got, pages := list(query + "&limit=1"); got != want || want != "" && pages < 2 {
			t.Errorf("%s by ones: %s in %d pages, not %s", query, got, pages, want)
		}
	}
}
