package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestPrefer(t *testing.T) {
	t.Parallel()
	g := startKinds(t, "")
	l := g.Acquire(t, "kind:K", 60000)
	exec(t, g, `INSERT INTO shop.lines (line) VALUES (1), (2), (3)`)
	w := watch(t, g)
	patch := func(prefer ...string) testenv.Request {
		h := l.Header()
		h["Prefer"] = prefer
		return testenv.Request{Method: http.MethodPatch, Path: "/rest/lines?id=eq.K&select=more", Header: h, Body: `{"more":7}`,
			Broken: len(prefer) > 1}
	}

	for _, prefer := range []string{
		"tx=Rollback", "tx", "tx=", "tx=rollback; foo=bar", "tx=rollback, tx=commit", "handling=strict, tx=rollback, wait=10",
		"resolution=replace", "resolution", "resolution=merge-duplicates, resolution=ignore-duplicates",
		"timezone", "timezone=", "missing=null", "count=planned", "count=estimated", "return=everything", "return",
		"handling=sloppy", "max-affected=-1", "max-affected=x", "max-affected=", "max-affected", "max-affected=1.5",
		"max-affected=9223372036854775808", "return=minimal, return=representation", "max-affected=1, max-affected=3",
		"handling=strict, respond-async", "respond-async, handling=strict", "handling=strict, wait=10",
	} {
		t.Run("Refused/"+prefer, func(t *testing.T) {
			p := want{status: 400, slug: "invalid_preference", parameter: "Prefer"}
			w.refused(t, g, patch(prefer), p)
			w.refused(t, g, testenv.Request{Method: http.MethodPost, Path: "/rest/lines", Header: with(l, "Prefer", prefer), Body: `{"line":9}`}, p)
			w.refused(t, g, testenv.Request{Method: http.MethodDelete, Path: "/rest/lines?id=eq.K", Header: with(l, "Prefer", prefer)}, p)
			mustRefuse(t, g.Do(t, testenv.Request{Path: "/rest/lines", Header: http.Header{"Prefer": {prefer}}}), p)
		})
	}

	t.Run("SeveralHeadersAreOne", func(t *testing.T) {
		w.refused(t, g, patch("return=representation", "return=minimal"), want{status: 400, slug: "invalid_preference"})
		w.refused(t, g, patch("handling=strict", "respond-async"), want{status: 400, slug: "invalid_preference"})
		answer := g.Do(t, patch("return=representation", "count=exact, max-affected=3"))
		if answer.Status != 200 || answer.Header.Get("Preference-Applied") != "return=representation, count=exact, max-affected=3" {
			t.Errorf("%d %v %s", answer.Status, answer.Header, answer.Body)
		}
	})

	t.Run("WhatWasHonouredIsSaid", func(t *testing.T) {
		for prefer, c := range map[string]struct {
			applied, body, contentRange string
			status                      int
		}{
			"":                                             {"", "", "0-2/*", 204},
			"return=minimal":                               {"return=minimal", "", "0-2/*", 204},
			"return=headers-only":                          {"return=headers-only", "", "0-2/*", 204},
			"return=representation":                        {"return=representation", `[{"more":7},{"more":7},{"more":7}]`, "0-2/*", 200},
			"Return = representation":                      {"return=representation", `[{"more":7},{"more":7},{"more":7}]`, "0-2/*", 200},
			"count=exact":                                  {"count=exact", "", "0-2/3", 204},
			"max-affected=3,return=minimal":                {"max-affected=3, return=minimal", "", "0-2/*", 204},
			"handling=strict, count=exact":                 {"handling=strict, count=exact", "", "0-2/3", 204},
			"handling=lenient, respond-async":              {"handling=lenient", "", "0-2/*", 204},
			"respond-async, wait=10":                       {"", "", "0-2/*", 204},
			"missing=default, tx=commit":                   {"missing=default, tx=commit", "", "0-2/*", 204},
			" , return=minimal, , ":                        {"return=minimal", "", "0-2/*", 204},
			"Return=minimal, return=minimal":               {"return=minimal", "", "0-2/*", 204},
			"count=exact, return=minimal, count=\"exact\"": {"count=exact, return=minimal", "", "0-2/3", 204},
		} {
			answer := g.Do(t, patch(prefer))
			if answer.Status != c.status || answer.Body != c.body || answer.Header.Get("Preference-Applied") != c.applied ||
				answer.Header.Get("Content-Range") != c.contentRange {
				t.Errorf("%q: %d %q, %v", prefer, answer.Status, answer.Body, answer.Header)
			}
		}
	})

	t.Run("MaxAffectedBindsAnUpdate", func(t *testing.T) {
		for _, n := range []string{"0", "1", "2"} {
			for _, handling := range []string{"", ", handling=strict", ", handling=lenient"} {
				q := patch("max-affected=" + n + handling)
				q.Body = `{"more":8}`
				w.refused(t, g, q, want{status: 409, slug: "max_affected_exceeded"})
			}
		}
		if answer := g.Do(t, patch("max-affected=3")); answer.Status != http.StatusNoContent {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})

	t.Run("MaxAffectedBindsADelete", func(t *testing.T) {
		q := testenv.Request{Method: http.MethodDelete, Path: "/rest/lines?id=eq.K", Header: with(l, "Prefer", "max-affected=2")}
		w.refused(t, g, q, want{status: 409, slug: "max_affected_exceeded"})
		q.Path += "&line=eq.none"
		w.refused(t, g, q, want{status: 422, slug: "invalid_value"})
	})

	t.Run("MaxAffectedBindsAnInsert", func(t *testing.T) {
		q := testenv.Request{Method: http.MethodPost, Path: "/rest/lines", Header: with(l, "Prefer", "max-affected=1"), Body: `[{"line":8},{"line":9,"more":1}]`}
		w.refused(t, g, q, want{status: 409, slug: "max_affected_exceeded"})
		q.Body = `{"line":8}`
		if answer := g.Do(t, q); answer.Status != http.StatusCreated || answer.Header.Get("Preference-Applied") != "max-affected=1" {
			t.Errorf("%d %s", answer.Status, answer.Body)
		}
	})

	t.Run("NothingIsAppliedToARefusal", func(t *testing.T) {
		h := with(l, "Prefer", "return=representation")
		h.Set("Fencing-Token", "9")
		answer := g.Do(t, testenv.Request{Method: http.MethodPatch, Path: "/rest/lines?id=eq.K", Header: h, Body: `{"more":7}`})
		if mustRefuse(t, answer, want{status: 412, slug: "token_not_granted"}); answer.Header.Get("Preference-Applied") != "" ||
			strings.HasPrefix(answer.Body, "[") {
			t.Errorf("%v %s", answer.Header, answer.Body)
		}
	})
}
