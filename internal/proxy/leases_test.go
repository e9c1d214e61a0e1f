package proxy_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/testenv"
)

// shortLeases lets leases run out while a test looks on.
const shortLeases = "leases: {min_ttl: 100ms}\n"

func post(g *testenv.Gateway, t *testing.T, path, body string) testenv.Response {
	t.Helper()
	return g.Do(t, testenv.Request{Method: http.MethodPost, Path: path, Body: body, Broken: true})
}

// claim is the body of a renewal or release.
func claim(l testenv.Lease, ttl string) string {
	body := strings.TrimSuffix(l.Claim(), "}")
	if ttl != "" {
		body += `,"ttl_ms":` + ttl
	}
	return body + "}"
}

type state struct {
	Live        bool
	RemainingMS int64 `json:"remaining_ms"`
	OfMark      bool  `json:"mark_holds_lease"`
	Mark        *struct{ Key, Token, State, Client string }
}

func look(t *testing.T, g *testenv.Gateway, key string) (s state) {
	t.Helper()
	g.Do(t, testenv.Request{Path: "/v1/leases?key=" + key}).JSON(t, &s)
	return s
}

// awaitExpiry asks until the lease is gone.
func awaitExpiry(t *testing.T, g *testenv.Gateway, key string) {
	t.Helper()
	for look(t, g, key).Live {
		if t.Context().Err() != nil {
			t.Fatal("the lease does not end")
		}
	}
}

// grants counts what was ever granted.
func grants(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	return scalar[int](t, pool, `SELECT count(*) FROM fencegate.grants`)
}

func TestAcquire(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	pool := g.Database.Pool(t)

	t.Run("TheAnswerHasAllThatAWriteNeeds", func(t *testing.T) {
		answer := post(g, t, "/v1/leases", `{"key":"inventory:SKU-1","ttl_ms":30000,"client":"worker 1"}`)
		var l struct {
			Key, Holder, Token string
			TTL                int64     `json:"ttl_ms"`
			ExpiresAt          time.Time `json:"expires_at"`
			RenewAfter         int64     `json:"renew_after_ms"`
			Lifetime           int64     `json:"max_lifetime_ms"`
			Headers            map[string]string
		}
		answer.JSON(t, &l)
		if answer.Status != http.StatusCreated || l.Key != "inventory:SKU-1" || len(l.Holder) < 32 || l.Token != "1" || l.TTL != 30000 ||
			l.RenewAfter != 10000 || l.Lifetime != 3600000 || time.Until(l.ExpiresAt) > 30*time.Second || time.Until(l.ExpiresAt) < 20*time.Second {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
		for name, value := range map[string]string{"Lock-Key": l.Key, "Lock-Holder": l.Holder, "Fencing-Token": l.Token} {
			if l.Headers[name] != value || answer.Header.Get(name) != value {
				t.Errorf("%s: %q and %q, not %q", name, l.Headers[name], answer.Header.Get(name), value)
			}
		}
		if s := look(t, g, l.Key); !s.Live || !s.OfMark || s.Mark.Client != "worker 1" || s.Mark.State != "held" {
			t.Errorf("%+v", s)
		}
	})

	t.Run("ATakenLockIsNotGivenTwice", func(t *testing.T) {
		g.Acquire(t, "twice", 60000)
		before := grants(t, pool)
		for range 3 {
			answer := g.TryAcquire(t, "twice", 60000)
			mustRefuse(t, answer, want{status: 423, slug: "lock_held"})
			if wait, err := strconv.Atoi(answer.Header.Get("Retry-After")); err != nil || wait < 1 || wait > 60 {
				t.Errorf("Retry-After: %q", answer.Header.Get("Retry-After"))
			}
		}
		if after := grants(t, pool); after != before {
			t.Errorf("%d grants after a refused acquire, %d before", after, before)
		}
	})

	t.Run("OneKeyInTwoFormsIsOneLock", func(t *testing.T) {
		g.Acquire(t, "form:a", 60000)
		mustRefuse(t, g.TryAcquire(t, "base64:Zm9ybTph", 0), want{status: 423, slug: "lock_held"})
		g.Acquire(t, "FORM:a", 60000)
	})

	before := grants(t, pool)
	for body, want := range map[string]want{
		``:                        {status: 400, slug: "malformed_json"},
		`{}`:                      {status: 400, slug: "fencing_malformed", pointer: "/key"},
		`null`:                    {status: 400, slug: "fencing_malformed", pointer: "/key"},
		`[]`:                      {status: 400, slug: "malformed_json"},
		`"bad"`:                   {status: 400, slug: "malformed_json"},
		`{"key":""}`:              {status: 400, slug: "fencing_malformed", pointer: "/key"},
		`{"key":null}`:            {status: 400, slug: "fencing_malformed", pointer: "/key"},
		`{"key":5}`:               {status: 400, slug: "malformed_json", pointer: "/key"},
		`{"key":["bad"]}`:         {status: 400, slug: "malformed_json", pointer: "/key"},
		`{"key":"a,b"}`:           {status: 400, slug: "fencing_malformed", pointer: "/key"},
		`{"key":"a\tb"}`:          {status: 400, slug: "fencing_malformed", pointer: "/key"},
		`{"key":"a\u0000b"}`:      {status: 400, slug: "malformed_json", pointer: "/key"},
		`{"key":"u\u0308"}`:       {status: 400, slug: "fencing_malformed", pointer: "/key"},
		`{"key":"\ud800"}`:        {status: 400, slug: "malformed_json"},
		"{\"key\":\"\xff\"}":      {status: 400, slug: "malformed_json"},
		`{"key":" bad"}`:          {status: 400, slug: "fencing_malformed", pointer: "/key"},
		`{"key":"base64:YW\nJj"}`: {status: 400, slug: "fencing_malformed", pointer: "/key"},
		`{"key":"base64:AA=="}`:   {status: 400, slug: "fencing_malformed", pointer: "/key"},
		`{"key":"` + strings.Repeat("k", 513) + `"}`: {status: 400, slug: "fencing_malformed", pointer: "/key"},
		`{"Key":"bad"}`:                                             {status: 400, slug: "malformed_json", pointer: "/Key"},
		`{"key":"bad","key":"bad"}`:                                 {status: 400, slug: "malformed_json", pointer: "/key"},
		`{"key":"bad","KEY":"bad"}`:                                 {status: 400, slug: "malformed_json", pointer: "/KEY"},
		`{"key":"bad"} {}`:                                          {status: 400, slug: "malformed_json"},
		`{"key":"bad","keys":["a"]}`:                                {status: 400, slug: "malformed_json", pointer: "/keys"},
		`{"keys":["bad"]}`:                                          {status: 400, slug: "malformed_json", pointer: "/keys"},
		`{"key":"bad","wait_ms":100}`:                               {status: 400, slug: "malformed_json", pointer: "/wait_ms"},
		`{"key":"bad","holder":"mine"}`:                             {status: 400, slug: "malformed_json", pointer: "/holder"},
		`{"key":"bad","token":"7"}`:                                 {status: 400, slug: "malformed_json", pointer: "/token"},
		`{"key":"bad","ttl_ms":0}`:                                  {status: 422, slug: "ttl_out_of_range", pointer: "/ttl_ms"},
		`{"key":"bad","ttl_ms":-1}`:                                 {status: 422, slug: "ttl_out_of_range", pointer: "/ttl_ms"},
		`{"key":"bad","ttl_ms":499}`:                                {status: 422, slug: "ttl_out_of_range", pointer: "/ttl_ms"},
		`{"key":"bad","ttl_ms":300001}`:                             {status: 422, slug: "ttl_out_of_range", pointer: "/ttl_ms"},
		`{"key":"bad","ttl_ms":18446744073710}`:                     {status: 422, slug: "ttl_out_of_range", pointer: "/ttl_ms"}, // × 10^6 passes 2^64 by little
		`{"key":"bad","ttl_ms":9223372036854775807}`:                {status: 422, slug: "ttl_out_of_range", pointer: "/ttl_ms"},
		`{"key":"bad","ttl_ms":-9223372036854775808}`:               {status: 422, slug: "ttl_out_of_range", pointer: "/ttl_ms"},
		`{"key":"bad","ttl_ms":9223372036854775808}`:                {status: 400, slug: "malformed_json", pointer: "/ttl_ms"},
		`{"key":"bad","ttl_ms":"5000"}`:                             {status: 400, slug: "malformed_json", pointer: "/ttl_ms"},
		`{"key":"bad","ttl_ms":1000.5}`:                             {status: 400, slug: "malformed_json", pointer: "/ttl_ms"},
		`{"key":"bad","ttl_ms":1e3}`:                                {status: 400, slug: "malformed_json", pointer: "/ttl_ms"},
		`{"key":"bad","ttl_ms":true}`:                               {status: 400, slug: "malformed_json", pointer: "/ttl_ms"},
		`{"key":"bad","ttl_ms":[]}`:                                 {status: 400, slug: "malformed_json", pointer: "/ttl_ms"},
		`{"key":"bad","client":5}`:                                  {status: 400, slug: "malformed_json", pointer: "/client"},
		`{"key":"bad","client":"a\u0000"}`:                          {status: 400, slug: "malformed_json", pointer: "/client"},
		`{"key":"bad","client":"` + strings.Repeat("ü", 201) + `"}`: {status: 400, slug: "malformed_json", pointer: "/client"},
		`{"key":"bad","client":` + strings.Repeat("[", 100):         {status: 400, slug: "malformed_json"},
	} {
		t.Run("Refused/"+body[:min(len(body), 50)], func(t *testing.T) {
			mustRefuse(t, post(g, t, "/v1/leases", body), want)
			if after := grants(t, pool); after != before {
				t.Errorf("%d grants, %d before", after, before)
			}
		})
	}

	t.Run("ParametersMeanNothing", func(t *testing.T) {
		for _, query := range []string{"wait_ms=100", "key=x", "%00=1", "a=%zz"} {
			mustRefuse(t, post(g, t, "/v1/leases?"+query, `{"key":"bad"}`), want{status: 400, slug: "malformed_query"})
		}
	})

	t.Run("NothingRefusedTookTheLock", func(t *testing.T) {
		if l := g.Acquire(t, "bad", 0); l.Token != "1" {
			t.Errorf("%+v", l)
		}
	})

	t.Run("TheBoundsThemselvesAreAllowed", func(t *testing.T) {
		g.Acquire(t, "shortest", 500)
		g.Acquire(t, "longest", 300000)
		g.Acquire(t, strings.Repeat("k", 512), 0)
		if l := g.Acquire(t, "default", 0); l.TTLMS != 10000 {
			t.Errorf("%+v", l)
		}
		answer := post(g, t, "/v1/leases", `{"key":"long client","client":"`+strings.Repeat("ü", 200)+`"}`)
		if answer.Status != http.StatusCreated {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})
}

func TestRenew(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: shortLeases})
	events := func(t *testing.T, key string) []refusal { return listed(t, g, "key="+key+"&limit=1000") }

	t.Run("ItSetsTheEndAndAddsNothing", func(t *testing.T) {
		l := g.Acquire(t, "renew", 60000)
		for _, c := range []struct{ ttl, want string }{{"30000", "30000"}, {"30000", "30000"}, {"300000", "300000"}, {"1000", "1000"}, {"", "10000"}} {
			answer := post(g, t, "/v1/leases/renew", claim(l, c.ttl))
			var renewed testenv.Lease
			answer.JSON(t, &renewed)
			if answer.Status != 200 || renewed.Token != l.Token || renewed.Holder != l.Holder || strconv.FormatInt(renewed.TTLMS, 10) != c.want {
				t.Errorf("%d %s", answer.Status, answer.Body)
			}
			if s := look(t, g, l.Key); !s.Live || s.RemainingMS > renewed.TTLMS || s.RemainingMS < renewed.TTLMS-900 {
				t.Errorf("%s: %+v", c.ttl, s)
			}
		}
		if answer := g.Patch(t, l, "inventory?sku=eq.SKU-1", `{"available":1}`); answer.Problem(t).Slug() != "lock_scope" {
			t.Errorf("%s", answer.Body) // alive: only the scope is wrong
		}
	})

	t.Run("OnlyTheHolderRenews", func(t *testing.T) {
		l := g.Acquire(t, "strangers", 60000)
		for code, other := range map[string]testenv.Lease{
			"holder_mismatch":   {Key: l.Key, Holder: "somebody", Token: l.Token},
			"token_not_granted": {Key: l.Key, Holder: l.Holder, Token: "2"},
		} {
			p := mustRefuse(t, post(g, t, "/v1/leases/renew", claim(other, "")), want{status: 412, slug: code})
			if p.AuditID == "" || p.PresentedToken != other.Token || p.HighWaterToken != l.Token {
				t.Errorf("%+v", p)
			}
		}
		got := events(t, "strangers")
		if len(got) != 2 || got[0].Disposition != "event" || got[0].Operation != "renew" || got[0].Table != "" {
			t.Errorf("%+v", got)
		}
	})

	t.Run("AKeyThatWasNeverGrantedIsNotRenewed", func(t *testing.T) {
		p := mustRefuse(t, post(g, t, "/v1/leases/renew", `{"key":"unknown","holder":"h","token":"1"}`), want{status: 412, slug: "token_not_granted"})
		if p.HighWaterToken != "" || look(t, g, "unknown").Live {
			t.Errorf("%+v", p)
		}
	})

	t.Run("AnExpiredLeaseIsNotRevived", func(t *testing.T) {
		l := g.Acquire(t, "expired", 100)
		awaitExpiry(t, g, l.Key)
		mustRefuse(t, post(g, t, "/v1/leases/renew", claim(l, "")), want{status: 412, slug: "lease_expired"})
		if look(t, g, l.Key).Live {
			t.Error("it lives again")
		}
		if got := events(t, l.Key); len(got) != 1 || got[0].Code != "lease_expired" || got[0].Disposition != "event" || got[0].Client != t.Name() {
			t.Errorf("%+v", got)
		}
	})

	t.Run("AReleasedLeaseIsNotRevived", func(t *testing.T) {
		l := g.Acquire(t, "released", 60000)
		post(g, t, "/v1/leases/release", claim(l, ""))
		mustRefuse(t, post(g, t, "/v1/leases/renew", claim(l, "")), want{status: 412, slug: "lease_released"})
		next := g.Acquire(t, l.Key, 60000)
		mustRefuse(t, post(g, t, "/v1/leases/renew", claim(l, "")), want{status: 412, slug: "stale_token"})
		if s := look(t, g, l.Key); !s.OfMark || s.Mark.Token != next.Token {
			t.Errorf("%+v", s)
		}
	})

	t.Run("TimesOutOfRangeAreRefused", func(t *testing.T) {
		l := g.Acquire(t, "range", 60000)
		for _, ttl := range []string{"0", "-1", "99", "300001", "9223372036854775807"} {
			mustRefuse(t, post(g, t, "/v1/leases/renew", claim(l, ttl)), want{status: 422, slug: "ttl_out_of_range"})
		}
		if s := look(t, g, l.Key); s.RemainingMS < 50000 {
			t.Errorf("%+v", s)
		}
	})
}

func TestMaximumLifetime(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{
		Config: "leases: {min_ttl: 100ms, default_ttl: 500ms, max_ttl: 1s, max_lifetime: 1s}\n",
	})
	began := time.Now()
	l := g.Acquire(t, "lifetime", 500)
	for {
		answer := post(g, t, "/v1/leases/renew", claim(l, "1000"))
		if answer.Status == http.StatusOK {
			if time.Since(began) > 10*time.Second {
				t.Fatal("it is renewed for ever")
			}
			continue
		}
		mustRefuse(t, answer, want{status: 412, slug: "lease_expired"})
		break
	}
	if lived := time.Since(began); lived < 990*time.Millisecond {
		t.Errorf("it ended after %s", lived)
	}
	awaitExpiry(t, g, l.Key)
	if next := g.Acquire(t, l.Key, 0); next.Token != "2" {
		t.Errorf("%+v", next)
	}
}

func TestRelease(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: shortLeases})
	w := watch(t, g)
	release := func(t *testing.T, l testenv.Lease) string {
		t.Helper()
		answer := post(g, t, "/v1/leases/release", claim(l, ""))
		if answer.Status != http.StatusOK {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
		return answer.Body
	}

	t.Run("NothingIsAdmittedAfterwards", func(t *testing.T) {
		l := g.Acquire(t, "inventory:SKU-1", 60000)
		if got := release(t, l); got != `{"released":true}` {
			t.Error(got)
		}
		q := testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1", Header: l.Header(), Body: `{"available":1}`}
		p := w.refused(t, g, q, want{status: 412, slug: "lease_released"})
		if p.HighWaterToken != l.Token || p.AuditID == "" {
			t.Errorf("%+v", p)
		}
		if s := look(t, g, l.Key); s.Live || s.Mark.State != "released" {
			t.Errorf("%+v", s)
		}
	})

	t.Run("TwiceIsOnce", func(t *testing.T) {
		l := g.Acquire(t, "twice", 60000)
		if got := release(t, l) + release(t, l); got != `{"released":true}{"reason":"already_released","released":true}` {
			t.Error(got)
		}
	})

	t.Run("TheNextOneNeedNotWait", func(t *testing.T) {
		l := g.Acquire(t, "next", 60000)
		release(t, l)
		if next := g.Acquire(t, "next", 60000); next.Token != "2" {
			t.Errorf("%+v", next)
		}
	})

	t.Run("AStrangersReleaseChangesNothing", func(t *testing.T) {
		old := g.Acquire(t, "stranger", 60000)
		release(t, old)
		l := g.Acquire(t, "stranger", 60000)
		for reason, other := range map[string]testenv.Lease{
			"holder_mismatch":   {Key: l.Key, Holder: "somebody", Token: l.Token},
			"stale_token":       old,
			"token_not_granted": {Key: l.Key, Holder: l.Holder, Token: "3"},
		} {
			if got := release(t, other); got != `{"reason":"`+reason+`","released":false}` {
				t.Errorf("%s: %s", reason, got)
			}
			events := listed(t, g, "key=stranger&code="+reason)
			if len(events) != 1 || events[0].Disposition != "event" || events[0].Operation != "release" {
				t.Errorf("%s: %+v", reason, events)
			}
		}
		if got := release(t, testenv.Lease{Key: "never", Holder: "h", Token: "1"}); got != `{"reason":"token_not_granted","released":false}` {
			t.Error(got)
		}
		if s := look(t, g, l.Key); !s.Live || !s.OfMark || s.Mark.State != "held" {
			t.Errorf("%+v", s)
		}
	})

	t.Run("AnExpiredLeaseCanBeClosed", func(t *testing.T) {
		l := g.Acquire(t, "late", 100)
		awaitExpiry(t, g, l.Key)
		if got := release(t, l); got != `{"released":true}` {
			t.Error(got)
		}
	})

	for body, want := range map[string]want{
		`{"key":"k","holder":"h"}`:                          {status: 400, slug: "fencing_malformed", pointer: "/token"},
		`{"key":"k","token":"1"}`:                           {status: 400, slug: "fencing_malformed", pointer: "/holder"},
		`{"holder":"h","token":"1"}`:                        {status: 400, slug: "fencing_malformed", pointer: "/key"},
		`{"key":"k","holder":"h","token":1}`:                {status: 400, slug: "malformed_json", pointer: "/token"},
		`{"key":"k","holder":"h","token":"01"}`:             {status: 400, slug: "fencing_malformed", pointer: "/token"},
		`{"key":"k","holder":"h,i","token":"1"}`:            {status: 400, slug: "fencing_malformed", pointer: "/holder"},
		`{"key":"k","holder":"h","token":"1","force":true}`: {status: 400, slug: "malformed_json", pointer: "/force"},
		`{"key":"k","holder":"h","token":"1","reason":"x"}`: {status: 400, slug: "malformed_json", pointer: "/reason"},
		`{"key":"k","holder":"h","token":"1","token":"2"}`:  {status: 400, slug: "malformed_json", pointer: "/token"},
	} {
		t.Run("Refused/"+body, func(t *testing.T) {
			for _, path := range []string{"/v1/leases/release", "/v1/leases/renew"} {
				mustRefuse(t, post(g, t, path, body), want)
			}
		})
	}
}

func TestLook(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: shortLeases})

	t.Run("AKeyThatNobodyAskedForIsFree", func(t *testing.T) {
		if answer := g.Do(t, testenv.Request{Path: "/v1/leases?key=free"}); answer.Body != `{"key":"free","live":false}` {
			t.Error(answer.Body)
		}
	})
	t.Run("TheHolderStaysSecret", func(t *testing.T) {
		l := g.Acquire(t, "secret", 60000)
		for _, path := range []string{"/v1/leases?key=secret", "/v1/marks", "/v1/marks?key=secret"} {
			if answer := g.Do(t, testenv.Request{Path: path}); strings.Contains(answer.Body, l.Holder) || !strings.Contains(answer.Body, "secret") {
				t.Errorf("%s: %s", path, answer.Body)
			}
		}
	})
	t.Run("AnExpiredLeaseIsNotLive", func(t *testing.T) {
		l := g.Acquire(t, "brief", 100)
		awaitExpiry(t, g, l.Key)
		if s := look(t, g, l.Key); s.OfMark || s.Mark.State != "held" || s.Mark.Token != l.Token {
			t.Errorf("%+v", s)
		}
	})
	t.Run("MalformedKeysAreRefused", func(t *testing.T) {
		for _, query := range []string{"key=", "key=a,b", "key=%00", "key=%ff", "key=+a", "key=a&x=1", "key=a&key=b", "", "key=%zz", "prefix=a", "limit=1&key=a"} {
			answer := g.Do(t, testenv.Request{Path: "/v1/leases?" + query, Broken: true})
			if p := answer.Problem(t); answer.Status != 400 || p.Outcome != "not_applied" {
				t.Errorf("%s: %d %s", query, answer.Status, answer.Body)
			}
		}
	})
}

// The story that all of this is for.
func TestALateWriterIsRefused(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{Config: shortLeases})
	w := watch(t, g)
	paused := g.Acquire(t, "inventory:SKU-1", 100)
	late := testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1", Header: with(paused, "Request-Id", "late-1"), Body: `{"available":99}`}

	awaitExpiry(t, g, paused.Key)
	t.Run("ALeaseThatRanOutWritesNothing", func(t *testing.T) {
		w.refused(t, g, late, want{status: 412, slug: "lease_expired"})
	})

	next := g.Acquire(t, "inventory:SKU-1", 60000)
	t.Run("TheNextTokenIsHigher", func(t *testing.T) {
		if before, _ := strconv.Atoi(paused.Token); next.Token != strconv.Itoa(before+1) || paused.Holder == next.Holder {
			t.Errorf("%+v and %+v", paused, next)
		}
	})

	for _, q := range []testenv.Request{
		late,
		{Method: http.MethodPost, Path: "/rest/inventory", Header: late.Header, Body: `{"sku":"SKU-1"}`},
		{Method: http.MethodDelete, Path: "/rest/inventory?sku=eq.SKU-1", Header: late.Header},
		{Method: http.MethodDelete, Path: "/rest/inventory?sku=eq.SKU-2", Header: late.Header}, // stale before out of scope
	} {
		t.Run("TheOldTokenWritesNothing/"+q.Method, func(t *testing.T) {
			answer := g.Do(t, q)
			p := mustRefuse(t, answer, want{status: 412, slug: "stale_token"})
			w.unchanged(t)
			if answer.Header.Get("Fencing-Refused") != "stale_token" || p.HighWaterToken != next.Token || p.PresentedToken != paused.Token ||
				p.LockKey != paused.Key || p.AuditID == "" || p.Retryable {
				t.Errorf("%v %s", answer.Header, answer.Body)
			}
			var record refusal
			g.Do(t, testenv.Request{Path: "/v1/refusals/" + p.AuditID}).JSON(t, &record)
			if record.Code != "stale_token" || record.Disposition != "refused" || record.Mark != next.Token || record.Token != paused.Token ||
				record.RequestID != "late-1" || record.Table != "shop.inventory" || record.Client != t.Name()[:len("TestALateWriterIsRefused")] {
				t.Errorf("%+v", record)
			}
			if strings.Contains(answer.Body, next.Holder) {
				t.Error("the refusal gives the next holder away")
			}
		})
	}

	t.Run("TheNewHolderWrites", func(t *testing.T) {
		if answer := g.Patch(t, next, "inventory?sku=eq.SKU-1", `{"available":7}`); answer.Status != http.StatusNoContent {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
		if got := scalar[int](t, w.pool, `SELECT available FROM shop.inventory WHERE sku = 'SKU-1'`); got != 7 {
			t.Errorf("available is %d", got)
		}
	})
}
