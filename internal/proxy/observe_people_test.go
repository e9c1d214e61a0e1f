package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestObserveModeLetsNobodyPastTheKeysThatTheyMayHold(t *testing.T) {
	t.Parallel()
	p := startPeople(t, doorsSQL, observing(doorsTables+doorsRoutines), "")
	patch := func(h http.Header) testenv.Request { return patching("stock?sku=eq.live", `{"n":1}`, h) }
	if code := observed(t, p.as("worker"), patch(nil)); code != "fencing_required" {
		t.Errorf("a worker who may hold every key is observed for %q", code)
	}
	w := watch(t, p.Gateway)
	tenant := p.as("tenant")
	own := tenant.Acquire(t, "tenant:acme:1", 60_000)
	w.refused(t, tenant, patch(nil), want{status: 428, slug: "fencing_required", parameter: "Lock-Key"})
	w.refused(t, tenant, testenv.Request{Method: http.MethodPost, Path: "/v1/transactions",
		Body: `{"operations":[{"op":"update","table":"stock","where":{"sku":"eq.live"},"set":{"n":2}}]}`}, want{status: 428, slug: "fencing_required", pointer: "/locks"})
	w.refused(t, tenant, patch(own.Header()), want{status: 403, slug: "lock_scope"})
	w.refused(t, tenant, patch(forged("stock:live", "h", "1").Header()), want{status: 403, slug: "lock_not_allowed"})
	if answer := p.as("nobody").Do(t, patch(nil)); answer.Status < 400 {
		t.Errorf("nobody: %d", answer.Status)
	}
	w.unchanged(t)
	mustRefuse(t, p.as("worker").Do(t, testenv.Request{Path: "/v1/refusals/report"}), want{status: 403, slug: "forbidden"})
	if answer := p.as("operator").Do(t, testenv.Request{Path: "/v1/refusals/report"}); !strings.Contains(answer.Body, `"admitted":1,"cut":false`) {
		t.Error(answer.Body)
	}
	if records := listed(t, p.as("worker"), "disposition=admitted"); len(records) != 1 {
		t.Errorf("the worker sees %+v", records)
	}
}
