package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestWriteQuery(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	l := g.Acquire(t, "inventory:SKU-1", 60000)
	w := watch(t, g)

	for _, method := range []string{http.MethodPatch, http.MethodDelete, http.MethodPost} {
		q := testenv.Request{Method: method, Header: l.Header(), Broken: true}
		if method != http.MethodDelete {
			q.Body = `{"sku":"SKU-1"}`
		}
		pin := "sku=eq.SKU-1&"
		if method == http.MethodPost {
			pin = ""
		}
		for query, want := range badQueries {
			isFilter := want.status == 422 && !strings.HasPrefix(query, "select=") && !strings.HasPrefix(query, "order=")
			switch {
			case query == "all=true" && method != http.MethodPost, query == "columns=sku" && method == http.MethodPost:
				continue // means something there
			case isFilter && method == http.MethodPost:
				want.status, want.slug, want.code, want.column = 400, "malformed_query", "", "" // means nothing for this call
			}
			t.Run("Refused/"+method+"/"+query, func(t *testing.T) {
				q.Path = "/rest/inventory?" + pin + query
				w.refused(t, g, q, want)
			})
		}
		for _, query := range []string{"limit=1", "offset=1", "limit=0"} {
			t.Run("Refused/"+method+"/"+query, func(t *testing.T) {
				q.Path = "/rest/inventory?" + pin + query
				name, _, _ := strings.Cut(query, "=")
				w.refused(t, g, q, want{status: 400, slug: "malformed_query", parameter: name})
			})
		}
	}

	t.Run("AnInsertTakesNoFilters", func(t *testing.T) {
		w.refused(t, g, testenv.Request{Method: http.MethodPost, Path: "/rest/inventory?sku=eq.SKU-1", Header: l.Header(), Body: `{"sku":"SKU-1"}`},
			want{status: 400, slug: "malformed_query", parameter: "sku"})
	})

	t.Run("AWriteTakesNoRange", func(t *testing.T) {
		w.refused(t, g, testenv.Request{Method: http.MethodDelete, Path: "/rest/inventory?sku=eq.SKU-1", Header: with(l, "Range", "0-0")},
			want{status: 400, slug: "malformed_query", parameter: "Range"})
	})

	t.Run("OnlyTrueMeansAll", func(t *testing.T) {
		for _, value := range []string{"false", "TRUE", "1", "", "yes"} {
			w.refused(t, g, testenv.Request{Method: http.MethodDelete, Path: "/rest/inventory?all=" + value, Header: l.Header()},
				want{status: 400, slug: "malformed_query", parameter: "all"})
		}
		w.refused(t, g, testenv.Request{Method: http.MethodDelete, Path: "/rest/inventory?all=true", Header: l.Header()},
			want{status: 403, slug: "lock_scope", parameter: "sku"})
	})

	t.Run("AFilterThatNothingMatchesChangesNothing", func(t *testing.T) {
		for _, filter := range []string{"available=gt.1000", "available=in.()", "sku=eq.SKU-2", "description=eq.Milk+jug", "or=(available.lt.0,sku.eq.SKU-2)"} {
			answer := g.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1&" + filter,
				Header: with(l, "Prefer", "return=representation"), Body: `{"available":1}`})
			if answer.Status != 200 || answer.Body != "[]" || answer.Header.Get("Content-Range") != "*/*" {
				t.Errorf("%s: %d %s %s", filter, answer.Status, answer.Body, answer.Header.Get("Content-Range"))
			}
			w.unchanged(t)
		}
	})

	t.Run("EveryFilterBindsAWrite", func(t *testing.T) {
		answer := g.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?select=sku,available&sku=eq.SKU-1&available=gte.1&available=not.lt.2&warehouse=in.(MUC)",
			Header: with(l, "Prefer", "return=representation"), Body: `{"available":77}`})
		if answer.Body != `[{"sku":"SKU-1","available":77}]` {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})

	t.Run("AWriteAnswersWhatIsSelected", func(t *testing.T) {
		h := with(l, "Prefer", "return=representation")
		for _, c := range []struct{ method, query, body, want string }{
			{http.MethodPatch, "sku=eq.SKU-1&select=n:available::text,attributes-%3E%3Eml,unit_price", `{"available":78,"unit_price":6.9}`, `[{"n":"78","ml":"70","unit_price":6.90}]`},
			{http.MethodPatch, "sku=eq.SKU-1&or=(available.gt.1,available.is.null)&attributes-%3Eml=eq.70&select=unit_price::int", `{"unit_price":6.9}`, `[{"unit_price":7}]`},
			{http.MethodDelete, "sku=eq.SKU-1&select=key:sku", "", `[{"key":"SKU-1"}]`},
			{http.MethodPost, "select=key:sku,available::float8", `{"sku":"SKU-1","available":3}`, `[{"key":"SKU-1","available":3}]`},
		} {
			answer := g.Do(t, testenv.Request{Method: c.method, Path: "/rest/inventory?" + c.query, Header: h, Body: c.body})
			if answer.Body != c.want {
				t.Errorf("%s %s: %d %s, not %s", c.method, c.query, answer.Status, answer.Body, c.want)
			}
		}
	})

	t.Run("ADeleteAnswersTheRowThatWas", func(t *testing.T) {
		l := g.Acquire(t, "inventory:SKU-3", 60000)
		answer := g.Do(t, testenv.Request{Method: http.MethodDelete, Path: "/rest/inventory?select=sku&sku=eq.SKU-3",
			Header: with(l, "Prefer", "return=representation")})
		if answer.Status != 200 || answer.Body != `[{"sku":"SKU-3"}]` {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
		again := g.Do(t, testenv.Request{Method: http.MethodDelete, Path: "/rest/inventory?sku=eq.SKU-3", Header: with(l, "Prefer", "count=exact")})
		if again.Status != http.StatusNoContent || again.Header.Get("Content-Range") != "*/0" {
			t.Errorf("%d %v", again.Status, again.Header)
		}
	})
}
