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
			"/rest/inventory": 200, "/rest/inventory?nope=eq.1": 422, "/rest/none": 404, "/v1/leases?key=k": 200, "/v1/leases": 400, "/v1/refusals": 200,
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
		for _, op := range statement.Ops() {
			for _, column := range columns {
				for _, value := range []string{"1", "{1}", "(1)"} {
					path := "/rest/kinds?" + column + "=" + op + "." + value
					if answer := g.Do(t, testenv.Request{Path: path}); answer.Status != 200 && answer.Status != 400 && answer.Status != 422 {
						t.Errorf("%s: %d %s", path, answer.Status, answer.Body)
					}
				}
			}
		}
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

// badQueries are refused by reads and writes alike.
var badQueries = map[string]want{
	"nope=eq.1":                             {status: 422, slug: "unknown_column", code: "42703", parameter: "nope", column: "nope"},
	"SKU=eq.SKU-1":                          {status: 422, slug: "unknown_column", code: "42703", column: "SKU"},
	"ctid=eq.(0,1)":                         {status: 422, slug: "unknown_column"},
	"select=sku,nope":                       {status: 422, slug: "unknown_column", parameter: "select", column: "nope"},
	"select=sku,sku":                        {status: 400, slug: "malformed_query", parameter: "select"},
	"select=sku,":                           {status: 400, slug: "malformed_query", parameter: "select"},
	"select=*,sku,*":                        {status: 400, slug: "malformed_query", parameter: "select"},
	"select=sku,a:sku,sku":                  {status: 400, slug: "malformed_query", parameter: "select"},
	"select=sku,sku:available":              {status: 400, slug: "malformed_query", parameter: "select"},
	"select=*,sku":                          {status: 400, slug: "malformed_query", parameter: "select"},
	"select=*,available:sku":                {status: 400, slug: "malformed_query", parameter: "select"},
	"select=:sku":                           {status: 400, slug: "malformed_query", parameter: "select"},
	"select=%22%22:sku":                     {status: 400, slug: "malformed_query", parameter: "select"},
	"select=a:":                             {status: 400, slug: "malformed_query", parameter: "select"},
	"select=sku::":                          {status: 400, slug: "malformed_query", parameter: "select"},
	"select=sku::varchar(2)":                {status: 400, slug: "malformed_query", parameter: "select"},
	"select=sku::char":                      {status: 400, slug: "malformed_query", parameter: "select"},
	"select=sku::name":                      {status: 400, slug: "malformed_query", parameter: "select"},
	"select=sku::pg_catalog.text":           {status: 400, slug: "malformed_query", parameter: "select"},
	"select=sku::public.inventory":          {status: 400, slug: "malformed_query", parameter: "select"},
	"select=sku::text::text":                {status: 400, slug: "malformed_query", parameter: "select"},
	"select=sku::regclass":                  {status: 400, slug: "malformed_query", parameter: "select"},
	"select=sku,order_lines(*)":             {status: 400, slug: "malformed_query", parameter: "select"},
	"select=order_lines!inner(sku,line)":    {status: 400, slug: "malformed_query", parameter: "select"},
	"select=...order_lines(sku)":            {status: 400, slug: "malformed_query", parameter: "select"},
	"select=l:order_lines()":                {status: 400, slug: "malformed_query", parameter: "select"},
	"select=available.sum()":                {status: 400, slug: "malformed_query", parameter: "select"},
	"select=count()":                        {status: 400, slug: "malformed_query", parameter: "select"},
	"select=sku,(":                          {status: 400, slug: "malformed_query", parameter: "select"},
	"select=sku,%22":                        {status: 400, slug: "malformed_query", parameter: "select"},
	"select=attributes-%3E":                 {status: 400, slug: "malformed_query", parameter: "select"},
	"select=attributes-%3E%3Ea-%3Eb":        {status: 400, slug: "malformed_query", parameter: "select"},
	"select=attributes-%3Ea-%3E%22%22":      {status: 400, slug: "malformed_query", parameter: "select"},
	"select=sku-%3Ea":                       {status: 422, slug: "not_json", parameter: "select", column: "sku"},
	"select=nope-%3Ea":                      {status: 422, slug: "unknown_column", parameter: "select", column: "nope"},
	"select=x:nope":                         {status: 422, slug: "unknown_column", parameter: "select", column: "nope"},
	"order=sku-%3Ea":                        {status: 422, slug: "not_json", parameter: "order", column: "sku"},
	"order=attributes-%3E":                  {status: 400, slug: "malformed_query", parameter: "order"},
	"order=attributes-%3Ea,attributes-%3Ea": {status: 400, slug: "malformed_query", parameter: "order"},
	"sku-%3Ea=eq.1":                         {status: 422, slug: "not_json", parameter: "sku", column: "sku"},
	"or=(sku-%3Ea.eq.1)":                    {status: 422, slug: "not_json", parameter: "or", column: "sku"},
	"attributes-%3Eml=eq.x":                 {status: 422, slug: "invalid_value", code: "22P02"},
	"attributes-%3E99999999999=eq.x":        {status: 422, slug: "invalid_value"},
	"attributes-%3E%3E=eq.x":                {status: 400, slug: "malformed_query"},
	"select=sku&select=sku":                 {status: 400, slug: "malformed_query", parameter: "select"},
	"order_lines.sku=eq.x":                  {status: 422, slug: "unknown_column"},
	"sku=SKU-1":                             {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=":                                  {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku":                                   {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=eq":                                {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=not.":                              {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=not.eq":                            {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=not.not.eq.SKU-1":                  {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=EQ.SKU-1":                          {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=is.NULL":                           {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=is.":                               {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=is.null,true":                      {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=in.SKU-1":                          {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=in.":                               {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=in.(":                              {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=in.(SKU-1":                         {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=in.(SKU-1))":                       {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=in.(%22SKU-1)":                     {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=in.(%22SKU-1%22x)":                 {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=in.(%22SKU%22-1%22)":               {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=eq(any).SKU-1":                     {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=eq(some).{SKU-1}":                  {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=eq().SKU-1":                        {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=neq(any).{SKU-1}":                  {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=in(any).(SKU-1)":                   {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=fts(any).{x}":                      {status: 422, slug: "operator_not_possible", code: "42704"},
	"sku=fts(1).x":                          {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=fts(a'b).x":                        {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=regexp.x":                          {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=match.(":                           {status: 422, slug: "invalid_value", code: "2201B"},
	"sku=fts.a+b":                           {status: 422, slug: "invalid_value", code: "42601"},
	"available=fts.a":                       {status: 422, slug: "operator_not_possible", code: "42883"},
	"available=like.1*":                     {status: 422, slug: "operator_not_possible", code: "42883"},
	"available=sl.1":                        {status: 422, slug: "type_mismatch", code: "42804"},
	"sku=eq(any).{%22}":                     {status: 422, slug: "invalid_value", code: "22P02"},
	"or=":                                   {status: 400, slug: "malformed_query", parameter: "or"},
	"or=()":                                 {status: 400, slug: "malformed_query", parameter: "or"},
	"or=(sku.eq.x,)":                        {status: 400, slug: "malformed_query", parameter: "or"},
	"or=(sku.eq.x":                          {status: 400, slug: "malformed_query", parameter: "or"},
	"or=sku.eq.x":                           {status: 400, slug: "malformed_query", parameter: "or"},
	"or=(sku.eq.x))":                        {status: 400, slug: "malformed_query", parameter: "or"},
	"or=(sku.eq.x)(sku.eq.y)":               {status: 400, slug: "malformed_query", parameter: "or"},
	"or=(sku)":                              {status: 400, slug: "malformed_query", parameter: "or"},
	"or=(sku.eq)":                           {status: 400, slug: "malformed_query", parameter: "or"},
	"or=(sku.is.NULL)":                      {status: 400, slug: "malformed_query", parameter: "or"},
	"or=(sku.in.SKU-1)":                     {status: 400, slug: "malformed_query", parameter: "or"},
	"or=(sku.eq.%22x)":                      {status: 400, slug: "malformed_query", parameter: "or"},
	"or=(sku.eq.%22x%22y)":                  {status: 400, slug: "malformed_query", parameter: "or"},
	"or=(sku.eq.x%22y%22)":                  {status: 400, slug: "malformed_query", parameter: "or"},
	"or=(sku.eq.f(x))":                      {status: 400, slug: "malformed_query", parameter: "or"},
	"not.or=(nope.eq.1)":                    {status: 422, slug: "unknown_column", parameter: "not.or", column: "nope"},
	"and=(or(sku.eq.x,nope.eq.1))":          {status: 422, slug: "unknown_column", parameter: "and", column: "nope"},
	"not.not.or=(sku.eq.x)":                 {status: 400, slug: "malformed_query", parameter: "not.not.or"},
	"and=(or(and(or(and(or(and(or(and(sku.eq.x)))))))))": {status: 400, slug: "malformed_query", parameter: "and"},
	"columns=sku":                    {status: 400, slug: "malformed_query", parameter: "columns"},
	"on_conflict=sku":                {status: 400, slug: "malformed_query", parameter: "on_conflict"},
	"limit=-1":                       {status: 400, slug: "malformed_query", parameter: "limit"},
	"limit=":                         {status: 400, slug: "malformed_query", parameter: "limit"},
	"limit=1.5":                      {status: 400, slug: "malformed_query", parameter: "limit"},
	"limit=1e3":                      {status: 400, slug: "malformed_query", parameter: "limit"},
	"limit=0x10":                     {status: 400, slug: "malformed_query", parameter: "limit"},
	"limit=all":                      {status: 400, slug: "malformed_query", parameter: "limit"},
	"limit=9223372036854775808":      {status: 400, slug: "malformed_query", parameter: "limit"},
	"limit=1&limit=2":                {status: 400, slug: "malformed_query", parameter: "limit"},
	"offset=-1":                      {status: 400, slug: "malformed_query", parameter: "offset"},
	"offset=%D9%A1":                  {status: 400, slug: "malformed_query", parameter: "offset"},
	"order=nope":                     {status: 422, slug: "unknown_column", parameter: "order"},
	"order=":                         {status: 422, slug: "unknown_column", parameter: "order"},
	"order=sku,":                     {status: 422, slug: "unknown_column", parameter: "order"},
	"order=sku.up":                   {status: 400, slug: "malformed_query", parameter: "order"},
	"order=sku.desc.asc":             {status: 400, slug: "malformed_query", parameter: "order"},
	"order=sku.nullslast.desc":       {status: 400, slug: "malformed_query", parameter: "order"},
	"order=sku.nullsfirst.nullslast": {status: 400, slug: "malformed_query", parameter: "order"},
	"order=sku&order=sku":            {status: 400, slug: "malformed_query", parameter: "order"},
	"all=true":                       {status: 400, slug: "malformed_query", parameter: "all"},
	"sku=eq.%zz":                     {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=eq.%":                       {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=eq.a;b":                     {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=eq.%00":                     {status: 400, slug: "malformed_query", parameter: "sku"},
	"sku=eq.%ff":                     {status: 400, slug: "malformed_query", parameter: "sku"},
	"%ff=eq.1":                       {status: 400, slug: "malformed_query"},
	"sku%00=eq.1":                    {status: 400, slug: "malformed_query"},
	"=eq.1":                          {status: 422, slug: "unknown_column"},
	"sku%20=eq.1":                    {status: 422, slug: "unknown_column"},
}

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
