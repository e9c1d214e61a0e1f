package proxy_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/statement"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestRead(t *testing.T) {
	t.Parallel()
	g := startKinds(t, "limits: {max_rows: 10, max_filters: 3}\n")
	pool := g.Database.Pool(t)
	if _, err := pool.Exec(t.Context(), `UPDATE shop.kinds SET ok = true; INSERT INTO shop.kinds (id, ok, i4) VALUES ('F', false, 1), ('U', NULL, 2)`); err != nil {
		t.Fatal(err)
	}
	ids := func(t *testing.T, path string) string {
		t.Helper()
		answer := g.Do(t, testenv.Request{Path: path})
		if answer.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, answer.Status, answer.Body)
		}
		var rows []map[string]any
		answer.JSON(t, &rows)
		var all []string
		for _, row := range rows {
			for _, value := range row {
				all = append(all, fmt.Sprint(value))
			}
		}
		return strings.Join(all, "|")
	}

	for filter, want := range map[string]string{
		"sku=eq.SKU-1":                               "SKU-1",
		"sku=neq.SKU-1":                              "SKU-2|SKU-3",
		"available=gt.4":                             "SKU-1",
		"available=gte.4":                            "SKU-1|SKU-2",
		"available=lt.4":                             "SKU-3",
		"available=lte.4":                            "SKU-2|SKU-3",
		"available=not.gt.4":                         "SKU-2|SKU-3",
		"available=gte.2&available=lt.10":            "SKU-2|SKU-3",
		"sku=in.(SKU-1,SKU-3)":                       "SKU-1|SKU-3",
		"sku=not.in.(SKU-1,SKU-3)":                   "SKU-2",
		"available=in.(4,10)":                        "SKU-1|SKU-2",
		`sku=in.("SKU-1")`:                           "SKU-1",
		"sku=in.()":                                  "",
		"sku=not.in.()":                              "SKU-1|SKU-2|SKU-3",
		"attributes=is.null":                         "SKU-3",
		"attributes=is.not_null":                     "SKU-1|SKU-2",
		"attributes=not.is.null":                     "SKU-1|SKU-2",
		"description=eq.Milk+jug":                    "SKU-2",
		"description=eq.Milk%20jug":                  "SKU-2",
		"description=eq.Espresso%20cup,%20white":     "SKU-1",
		"sku=eq.null":                                "",
		"unit_price=eq.6.9":                          "SKU-1",
		`%22sku%22=eq.SKU-1`:                         "SKU-1",
		"updated_at=gt.2000-01-01T00:00:00%2B00:00":  "SKU-1|SKU-2|SKU-3",
		"sku=eq.SKU-1&&":                             "SKU-1",
		"warehouse=eq.MUC&sku=gt.SKU-1&sku=lt.SKU-3": "SKU-2",
		"sku=in.(SKU-1,%22%22,%22a%2Cb%22)":          "SKU-1",
		"description=eq.eq.x":                        "",
		"sku=like.*-1":                               "SKU-1",
		"sku=like.sku*":                              "",
		"sku=ilike.sku*":                             "SKU-1|SKU-2|SKU-3",
		"sku=not.like.%25-1":                         "SKU-2|SKU-3",
		"sku=match.[12]$":                            "SKU-1|SKU-2",
		"sku=match.^sku":                             "",
		"sku=imatch.^sku":                            "SKU-1|SKU-2|SKU-3",
		"attributes=isdistinct.{}":                   "SKU-1|SKU-2|SKU-3",
		"sku=not.isdistinct.SKU-2":                   "SKU-2",
		"attributes=cs.{}":                           "SKU-1|SKU-2",
		"attributes=not.cd.{}":                       "SKU-1|SKU-2",
		"sku=eq(any).{SKU-1,SKU-3}":                  "SKU-1|SKU-3",
		"available=gt(all).{2,3}":                    "SKU-1|SKU-2",
		"sku=like(any).{*1,*2}":                      "SKU-1|SKU-2",
		"sku=not.ilike(any).{*1,*2}":                 "SKU-3",
		"sku=imatch(all).{sku,3}":                    "SKU-3",
		"description=fts.milk":                       "SKU-2",
		"description=fts(english).jugs":              "SKU-2",
		"description=plfts(english).white+cups":      "SKU-1",
		"description=phfts(english).milk+jugs":       "SKU-2",
		"description=wfts(english).jug+or+cup":       "SKU-1|SKU-2",
		"or=(sku.eq.SKU-1,sku.eq.SKU-2)":             "SKU-1|SKU-2",
		"or=(sku.eq.SKU-1,+sku.eq.SKU-2)":            "SKU-1|SKU-2",
		"and=(sku.gt.SKU-1,available.gt.2)":          "SKU-2",
		"not.or=(sku.eq.SKU-1,sku.eq.SKU-2)":         "SKU-3",
		"not.and=(sku.gt.SKU-1,available.gt.2)":      "SKU-1|SKU-3",
		"or=(attributes.is.null,not.and(sku.in.(SKU-1,%22SKU-3%22),available.gt.1))": "SKU-2|SKU-3",
		"or=(description.eq.%22Espresso+cup,+white%22,%22sku%22.not.neq.SKU-3)":      "SKU-1|SKU-3",
		"or=(sku.like(any).{*1,*2})&sku=neq.SKU-1":                                   "SKU-2",
		"or=(description.fts(english).cups,description.eq.%22a%5C%22b%22)":           "SKU-1",
		"and=(or(and(or(and(or(and(or(sku.eq.SKU-2))))))))":                          "SKU-2",
		"description=in.(%22Espresso+cup%2C+white%22)":                               "SKU-1",
	} {
		t.Run("Filter/"+filter, func(t *testing.T) {
			if got := ids(t, "/rest/inventory?select=sku&order=sku&"+filter); got != want {
				t.Errorf("%q, not %q", got, want)
			}
		})
	}

	for filter, want := range map[string]string{
		"ok=is.true": "K", "ok=is.false": "F", "ok=is.unknown": "U", "ok=not.is.true": "F|U", "ok=eq.true": "K", "ok=not.eq.true": "F",
	} {
		t.Run("Truth/"+filter, func(t *testing.T) {
			if got := ids(t, "/rest/kinds?select=id&order=id&"+filter); got != want {
				t.Errorf("%q, not %q", got, want)
			}
		})
	}

	odd := "/rest/" + url.PathEscape(`Odd, "name".x`) + "?select="
	for list, want := range map[string]string{
		`("a,b")`:              "a,b",
		`("q\"q")`:             `q"q`,
		`(q"q,K)`:              `K|q"q`,
		`(q")`:                 "",
		`("b\\s")`:             `b\s`,
		`("")`:                 "",
		`("(p)",K)`:            "(p)|K",
		`(a b,100%,x&y=z)`:     "100%|a b|x&y=z",
		`(null)`:               "null",
		`(K,)`:                 "|K",
		`(,)`:                  "",
		`(K,"a,b",'K',{K},K*)`: "K|a,b",
	} {
		t.Run("List/"+list, func(t *testing.T) {
			got := ids(t, odd+"id&id=in."+url.QueryEscape(list))
			if sorted(got) != sorted(want) {
				t.Errorf("%q, not %q", got, want)
			}
		})
	}

	t.Run("OddColumnsCanBeNamed", func(t *testing.T) {
		names := `"a.b","a,b","quo\"te","back\\s",two words,größe,"select","or"`
		order := `"a.b".desc.nullslast,"a,b".asc,"quo\"te"`
		answer := g.Do(t, testenv.Request{Path: odd + url.QueryEscape(names) + "&order=" + url.QueryEscape(order) +
			"&%22or%22=eq.or&%22select%22=eq.reserved&" + url.QueryEscape(`"quo\"te"`) + "=eq.quote&limit=1"})
		const want = `[{"a.b":"dot","a,b":"comma","quo\"te":"quote","back\\s":"backslash","two words":"space","größe":1,"select":"reserved","or":"or"}]`
		if answer.Body != want {
			t.Errorf("%s, not %s", answer.Body, want)
		}
	})

	t.Run("RowsComeInTheAskedOrder", func(t *testing.T) {
		for order, want := range map[string]string{
			"available":                     "2|4|10",
			"available.desc":                "10|4|2",
			"warehouse,available.asc":       "2|4|10",
			"attributes.nullsfirst,sku":     "2|10|4",
			"attributes.desc.nullslast,sku": "4|10|2",
			"%22available%22.desc":          "10|4|2",
		} {
			if got := ids(t, "/rest/inventory?select=available&order="+order); !strings.HasPrefix(order, "attributes") && got != want {
				t.Errorf("%s: %q, not %q", order, got, want)
			} else if strings.Contains(order, "nullsfirst") && !strings.HasPrefix(got, "2|") || strings.Contains(order, "nullslast") && !strings.HasSuffix(got, "|2") {
				t.Errorf("%s: %q", order, got)
			}
		}
	})

	t.Run("SelectNamesCastsAndEntersJSON", func(t *testing.T) {
		exec(t, g, `INSERT INTO shop.kinds (id, j, jb, n, i4) VALUES ('S', '{"a": [{"b": 1.50}, "x"], "0": "zero"}', '{"a": [{"b": 1.50}, "x"], "0": "zero"}', 1.50, 7)`)
		long := strings.Repeat("long", 30)
		for list, want := range map[string]string{
			`key:id`:                              `{"key":"S"}`,
			`"a:b,\"c":id`:                        `{"a:b,\"c":"S"}`,
			long + `1:id,` + long + `2:i4`:        `{"` + long + `1":"S","` + long + `2":7}`,
			`n::text,i4::int8`:                    `{"n":"1.50","i4":7}`,
			`i4::double precision`:                `{"i4":7}`,
			`x:n::int`:                            `{"x":2}`,
			`id,none:i8`:                          `{"id":"S","none":null}`,
			`jb->a->0->b,j->a`:                    `{"b":1.50,"a":[{"b": 1.50}, "x"]}`,
			`jb->a->-1`:                           `{"a":"x"}`,
			`jb->0`:                               `{"jb":null}`,
			`jb->"0"`:                             `{"0":"zero"}`,
			`jb->a->0->>b,t:j->a->>1`:             `{"b":"1.50","t":"x"}`,
			`jb->a->0->>b::numeric,k:jb->a::text`: `{"b":1.50,"k":"[{\"b\": 1.50}, \"x\"]"}`,
			`jb->none->>a`:                        `{"a":null}`,
			`id,again:id`:                         `{"id":"S","again":"S"}`,
		} {
			answer := g.Do(t, testenv.Request{Path: "/rest/kinds?id=eq.S&select=" + url.QueryEscape(list)})
			if answer.Body != "["+want+"]" {
				t.Errorf("%s: %s, not %s", list, answer.Body, want)
			}
		}
		star := g.Do(t, testenv.Request{Path: "/rest/inventory?sku=eq.SKU-2&select=key:sku,*,attributes-%3E%3Eml"}).Body
		if !strings.HasPrefix(star, `[{"key":"SKU-2","sku":"SKU-2","description":"Milk jug",`) || !strings.HasSuffix(star, `,"ml":"350"}]`) {
			t.Errorf("%s", star)
		}
		mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/kinds?select=id::int"}), want{status: 422, slug: "invalid_value", code: "22P02"})
		mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/kinds?select=i4::uuid"}), want{status: 422, slug: "type_mismatch", code: "42846"})
		for order, want := range map[string]string{
			"jb-%3Ea.nullslast&limit=1": "S", "j-%3Ea-%3E0-%3Eb.desc.nullslast&limit=1": "S", "jb-%3E%3Ea.asc.nullsfirst,id.desc&limit=1": "U",
		} {
			if got := ids(t, "/rest/kinds?select=id&order="+order); got != want {
				t.Errorf("%s: %q, not %q", order, got, want)
			}
		}
		exec(t, g, `DELETE FROM shop.kinds WHERE id = 'S'`)
	})

	t.Run("PagesAreCounted", func(t *testing.T) {
		for _, c := range []struct {
			query, prefer, sku, contentRange string
			status                           int
		}{
			{"limit=2", "", "SKU-1|SKU-2", "0-1/*", 200},
			{"limit=2", "count=exact", "SKU-1|SKU-2", "0-1/3", 206},
			{"limit=2&offset=2", "count=exact", "SKU-3", "2-2/3", 206},
			{"offset=1", "", "SKU-2|SKU-3", "1-2/*", 200},
			{"limit=0", "count=exact", "", "*/3", 206},
			{"offset=3", "count=exact", "", "*/3", 206},
			{"offset=99", "count=exact", "", "*/3", 416},
			{"offset=99", "", "", "*/*", 200},
			{"sku=eq.none", "count=exact", "", "*/0", 200},
			{"limit=1000", "count=exact", "SKU-1|SKU-2|SKU-3", "0-2/3", 200},
			{"limit=4611686018427387903&offset=0", "", "SKU-1|SKU-2|SKU-3", "0-2/*", 200},
		} {
			q := testenv.Request{Path: "/rest/inventory?select=sku&order=sku&" + c.query, Header: http.Header{}}
			if c.prefer != "" {
				q.Header.Set("Prefer", c.prefer)
			}
			answer := g.Do(t, q)
			if got := answer.Header.Get("Content-Range"); answer.Status != c.status || got != c.contentRange || answer.Header.Get("Preference-Applied") != c.prefer {
				t.Errorf("%s: %d, Content-Range %q, not %q; Preference-Applied %q", c.query, answer.Status, got, c.contentRange, answer.Header.Get("Preference-Applied"))
			}
			if c.status == 416 {
				mustRefuse(t, answer, want{status: 416, slug: "range_not_satisfiable", code: "PGRST103"})
			}
			if got := ids(t, q.Path); got != c.sku {
				t.Errorf("%s: %q, not %q", c.query, got, c.sku)
			}
			q.Method = http.MethodHead
			if head := g.Do(t, q); head.Status != answer.Status || head.Body != "" || head.Header.Get("Content-Range") != c.contentRange {
				t.Errorf("HEAD %s: %d %q %v", c.query, head.Status, head.Body, head.Header)
			}
		}
	})

	t.Run("RangesAreLimitAndOffset", func(t *testing.T) {
		for _, c := range []struct {
			ranged, prefer, contentRange string
			status                       int
		}{
			{"0-1", "", "0-1/*", 200}, {"0-1", "count=exact", "0-1/3", 206}, {"1-", "count=exact", "1-2/3", 206}, {"0-99", "count=exact", "0-2/3", 200},
			{"2-2", "", "2-2/*", 200}, {"4-5", "", "*/*", 200},
		} {
			h := http.Header{"Range": {c.ranged}, "Range-Unit": {"items"}, "Prefer": {c.prefer}}
			answer := g.Do(t, testenv.Request{Path: "/rest/inventory?order=sku", Header: h})
			if got := answer.Header.Get("Content-Range"); answer.Status != c.status || got != c.contentRange {
				t.Errorf("%s: %d %q", c.ranged, answer.Status, got)
			}
		}
		for given, w := range map[string]want{
			"4-5": {status: 416, slug: "range_not_satisfiable", code: "PGRST103"}, "5-4": {status: 416, slug: "range_not_satisfiable", code: "PGRST103"},
			"bytes=0-1": {status: 400, slug: "malformed_query", parameter: "Range"}, "-1": {status: 400, slug: "malformed_query", parameter: "Range"},
			"9223372036854775808-": {status: 400, slug: "malformed_query", parameter: "Range"},
		} {
			mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/inventory", Header: http.Header{"Range": {given}, "Prefer": {"count=exact"}}}), w)
		}
		both := http.Header{"Range": {"0-1"}}
		mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/inventory?limit=1", Header: both}), want{status: 400, slug: "malformed_query", parameter: "Range"})
		mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/inventory?offset=0", Header: both}), want{status: 400, slug: "malformed_query", parameter: "Range"})
		mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/inventory", Header: http.Header{"Range-Unit": {"bytes"}}}), want{status: 400, slug: "malformed_query", parameter: "Range-Unit"})
	})

	t.Run("HEADAnswersWhereGETDoes", func(t *testing.T) {
		for path, status := range map[string]int{
			"/rest/inventory": 200, "/rest/inventory?nope=eq.1": 422, "/rest/none": 404, "/v1/leases?key=k": 200, "/v1/leases": 200, "/v1/leases?limit=0": 400, "/v1/refusals": 200,
			"/v1/refusals/9": 404, "/v1/marks": 200, "/openapi.yaml": 200,
		} {
			answer := g.Do(t, testenv.Request{Method: http.MethodHead, Path: path, Broken: true})
			if answer.Status != status || answer.Body != "" {
				t.Errorf("%s: %d %q", path, answer.Status, answer.Body)
			}
		}
	})

	t.Run("NoAnswerIsLongerThanTheLimit", func(t *testing.T) {
		if _, err := pool.Exec(t.Context(), `INSERT INTO shop.lines (line) SELECT generate_series(1, 25)`); err != nil {
			t.Fatal(err)
		}
		for query, want := range map[string]int{"": 10, "limit=5": 5, "limit=10": 10, "limit=11": 10, "limit=1000000": 10, "limit=20&offset=20": 5} {
			answer := g.Do(t, testenv.Request{Path: "/rest/lines?order=line&" + query, Header: http.Header{"Prefer": {"count=exact"}}})
			var rows []struct{ Line int }
			answer.JSON(t, &rows)
			if len(rows) != want || !strings.HasSuffix(answer.Header.Get("Content-Range"), "/25") {
				t.Errorf("%q: %d rows, %s", query, len(rows), answer.Header.Get("Content-Range"))
			}
		}
	})

	t.Run("ReadingNeedsNoLockAndWritesNothing", func(t *testing.T) {
		w := watch(t, g)
		exec(t, g, `CREATE FUNCTION shop.wrote() RETURNS integer LANGUAGE sql AS 'DELETE FROM shop.lines; SELECT 1';
			CREATE VIEW shop.sly AS SELECT shop.wrote() AS n`)
		sly := testenv.StartGateway(t, testenv.GatewayOptions{Database: g.Database, Tables: "tables: [{name: shop.sly, lock: sly}]\n"})
		mustRefuse(t, sly.Do(t, testenv.Request{Path: "/rest/sly"}), want{status: 422, slug: "not_possible_here", code: "25006"})
		w.unchanged(t)
	})

	for query, want := range badQueries {
		t.Run("Refused/"+query, func(t *testing.T) {
			mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/inventory?" + query, Broken: true}), want)
		})
	}

	t.Run("EveryOperatorOnEveryTypeIsAnsweredOrRefused", func(t *testing.T) {
		columns := strings.Fields("id i2 i4 i8 n f8 ok c3 v3 bit3 b j jb ta ia d ts u")
		var requests []testenv.Request
		for _, op := range statement.Ops() {
			for _, column := range columns {
				for _, value := range []string{"1", "{1}", "(1)"} {
					requests = append(requests, testenv.Request{Path: "/rest/kinds?" + column + "=" + op + "." + value})
				}
			}
		}
		atOnce(t, g, requests, func(q testenv.Request, answer testenv.Response) {
			if answer.Status != 200 && answer.Status != 400 && answer.Status != 422 {
				t.Errorf("%s: %d %s", q.Path, answer.Status, answer.Body)
			}
		})
	})

	t.Run("MoreFiltersThanAllowedAreRefused", func(t *testing.T) {
		mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/inventory?" + strings.Repeat("sku=eq.x&", 4)}), want{status: 400, slug: "malformed_query", parameter: "sku"})
		mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/inventory?sku=eq.x&or=(sku.eq.x,and(sku.eq.x,sku.eq.y))"}), want{status: 400, slug: "malformed_query", parameter: "or"})
	})

	t.Run("ValuesThatDontFitTheColumnAreRefused", func(t *testing.T) {
		for filter, w := range map[string]want{
			"available=eq.x":                    {status: 422, slug: "invalid_value", code: "22P02"},
			"available=eq.":                     {status: 422, slug: "invalid_value", code: "22P02"},
			"available=eq.2147483648":           {status: 422, slug: "invalid_value", code: "22003"},
			"available=in.(1,x)":                {status: 422, slug: "invalid_value", code: "22P02"},
			"available=is.true":                 {status: 422, slug: "type_mismatch", code: "42804"},
			"updated_at=gt.2000-01-01T00:00+00": {status: 422, slug: "invalid_value"}, // + is a space
		} {
			mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/inventory?" + filter}), w)
		}
		mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/kinds?j=eq.1"}), want{status: 422, slug: "operator_not_possible", code: "42883"})
	})
}
