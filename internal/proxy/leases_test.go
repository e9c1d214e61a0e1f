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
		`{"Key":"bad"}`:              {status: 400, slug: "malformed_json", pointer: "/Key"},
		`{"key":"bad","key":"bad"}`:  {status: 400, slug: "malformed_json", pointer: "/key"},
		`{"key":"bad","KEY":"bad"}`:  {status: 400, slug: "malformed_json", pointer: "/KEY"},
		`{"key":"bad"} {}`:           {status: 400, slug: "malformed_json"},
		`{"key":"bad","keys":["a"]}`: {status: 400, slug: "fencing_malformed", pointer: "/key"},
		`{"keys":[]}`:                {status: 400, slug: "fencing_malformed", pointer: "/keys"},
		`{"keys":["bad"` + strings.Repeat(`,"bad"`, 32) + `]}`:      {status: 400, slug: "too_many_locks", pointer: "/keys"},
		`{"keys":["bad","a,b"]}`:                                    {status: 400, slug: "fencing_malformed", pointer: "/keys/1"},
		`{"keys":["bad","base64:YmFk"]}`:                            {status: 400, slug: "fencing_malformed", pointer: "/keys/1"},
		`{"keys":"bad"}`:                                            {status: 400, slug: "malformed_json", pointer: "/keys"},
		`{"key":"bad","wait_ms":-1}`:                                {status: 422, slug: "out_of_range", pointer: "/wait_ms"},
		`{"key":"bad","wait_ms":60001}`:                             {status: 422, slug: "out_of_range", pointer: "/wait_ms"},
		`{"key":"bad","wait_ms":"1"}`:                               {status: 400, slug: "malformed_json", pointer: "/wait_ms"},
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
		for _, query := range []string{"key=", "key=a,b", "key=%00", "key=%ff", "key=+a", "key=a&x=1", "key=a&key=b", "key=%zz", "limit=1&key=a", "prefix=a&key=a", "limit=0", "limit=1001", "cursor=a,b", "holder=a"} {
			answer := g.Do(t, testenv.Request{Path: "/v1/leases?" + query, Broken: true})
			if p := answer.Problem(t); answer.Status != 400 || p.Outcome != "not_applied" {
				t.Errorf("%s: %d %s", query, answer.Status, answer.Body)
			}
		}
	})
}
