package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestClaim(t *testing.T) {
	t.Parallel()
	g := testenv.StartGateway(t, testenv.GatewayOptions{})
	l := g.Acquire(t, "inventory:SKU-1", 60000)
	w := watch(t, g)
	patch := func(h http.Header) testenv.Request {
		return testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1", Header: h, Body: `{"available":7}`}
	}
	names := []string{"Lock-Key", "Lock-Holder", "Fencing-Token"}

	for _, name := range names {
		t.Run("AMissingHeaderIsNamed/"+name, func(t *testing.T) {
			h := l.Header()
			h.Del(name)
			w.refused(t, g, patch(h), want{status: 428, slug: "fencing_required", parameter: name})
		})
		t.Run("AHeaderGivenTwiceIsRefused/"+name, func(t *testing.T) {
			h := l.Header()
			h.Add(name, h.Get(name))
			w.refused(t, g, patch(h), want{status: 400, slug: "fencing_malformed", parameter: name})
		})
		t.Run("MergedHeadersAreRefused/"+name, func(t *testing.T) {
			h := l.Header()
			h.Set(name, h.Get(name)+", "+h.Get(name))
			w.refused(t, g, patch(h), want{status: 400, slug: "fencing_malformed", parameter: name})
		})
		t.Run("AnEmptyHeaderIsRefused/"+name, func(t *testing.T) {
			h := l.Header()
			h.Set(name, "")
			w.refused(t, g, patch(h), want{status: 400, slug: "fencing_malformed", parameter: name})
		})
	}

	t.Run("EveryWriteNeedsAClaim", func(t *testing.T) {
		for _, q := range []testenv.Request{
			{Method: http.MethodPost, Path: "/rest/inventory", Body: `{"sku":"SKU-9"}`},
			{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1", Body: `{"available":7}`},
			{Method: http.MethodDelete, Path: "/rest/inventory?sku=eq.SKU-1"},
		} {
			w.refused(t, g, q, want{status: 428, slug: "fencing_required", parameter: "Lock-Key"})
		}
	})

	t.Run("MalformedTokensAreRefused", func(t *testing.T) {
		for _, token := range []string{"0", "-1", "+" + l.Token, "0" + l.Token, l.Token + ".0", "1e3", "0x10", "١", `"1"`,
			"9223372036854775808", "18446744073709551617", "null", "*"} {
			w.refused(t, g, patch(with(l, "Fencing-Token", token)), want{status: 400, slug: "fencing_malformed"})
			h := l.Header()
			h.Set("Fencing-Token", token)
			w.refused(t, g, patch(h), want{status: 400, slug: "fencing_malformed", parameter: "Fencing-Token"})
		}
	})

	t.Run("MalformedKeysAndHoldersAreRefused", func(t *testing.T) {
		for _, text := range []string{"a,b", strings.Repeat("k", 513), "u\u0308ber", "\xff\xfe", "a\u0085b", "base64:", "base64:*", "base64:YQ"} {
			for _, name := range names[:2] {
				h := l.Header()
				h.Set(name, text)
				p := w.refused(t, g, patch(h), want{status: 400, slug: "fencing_malformed", parameter: name})
				if strings.Contains(p.Detail, text) && len(text) > 3 {
					t.Errorf("the detail repeats the value: %s", p.Detail)
				}
			}
		}
	})

	t.Run("ATokenAboveTheMarkLocksNobodyOut", func(t *testing.T) {
		h := l.Header()
		h.Set("Fencing-Token", "9223372036854775807")
		p := w.refused(t, g, patch(h), want{status: 412, slug: "token_not_granted"})
		if p.HighWaterToken != l.Token || p.AuditID == "" {
			t.Errorf("%+v", p)
		}
	})

	t.Run("AnotherHolderUnderTheSameTokenIsRefused", func(t *testing.T) {
		h := l.Header()
		h.Set("Lock-Holder", "somebody-else")
		w.refused(t, g, patch(h), want{status: 412, slug: "holder_mismatch"})
	})

	t.Run("Base64IsTheSameClaim", func(t *testing.T) {
		h := http.Header{}
		h.Set("Lock-Key", "base64:aW52ZW50b3J5OlNLVS0x")
		h.Set("Lock-Holder", l.Holder)
		h.Set("Fencing-Token", l.Token)
		if answer := g.Do(t, patch(h)); answer.Status != http.StatusNoContent {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})

	t.Run("TheHeadersOfAnAcquireCanBeSentByEveryClient", func(t *testing.T) {
		for key, plain := range map[string]bool{"lager:Köln": false, "lager:在庫": false, "lager:1": true} {
			l := g.Acquire(t, key, 60000)
			if l.Key != key || (l.Headers["Lock-Key"] == key) != plain {
				t.Errorf("key %q, headers %v", l.Key, l.Headers)
			}
			answer := g.Do(t, testenv.Request{Method: http.MethodDelete, Path: "/rest/inventory?sku=eq.x", Header: l.Header()})
			if p := mustRefuse(t, answer, want{status: 403, slug: "lock_scope"}); p.LockKey != key {
				t.Errorf("the key arrived as %q", p.LockKey)
			}
		}
	})

	t.Run("AWriteTellsTheTimeLeft", func(t *testing.T) {
		answer := g.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/inventory?sku=eq.SKU-1",
			Header: with(l, "Prefer", "return=representation, count=exact", "Request-Id", "my-request"), Body: `{"available":8}`})
		for name, value := range map[string]string{
			"Fencing-Token": l.Token, "Lease-Checked": "live", "Request-Id": "my-request", "Content-Range": "0-0/1",
			"Content-Type": "application/json; charset=utf-8", "Preference-Applied": "return=representation, count=exact",
		} {
			if got := answer.Header.Get(name); got != value {
				t.Errorf("%s is %q, not %q", name, got, value)
			}
		}
		var left int
		if _, err := fmt.Sscan(answer.Header.Get("Lease-Remaining-Ms"), &left); err != nil || left < 1 || left > 60000 {
			t.Errorf("Lease-Remaining-Ms is %q", answer.Header.Get("Lease-Remaining-Ms"))
		}
	})
}
