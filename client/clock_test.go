package client

import (
	"net/url"
	"testing"
	"time"
)

const ms = time.Millisecond

// at is what the clocks show: so much after the origin by the monotonic one, and
// so much by the wall's.
func at(mono, wall time.Duration) reading {
	return reading{mono: mono, wall: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(wall)}
}

func TestTrustIsCountedFromTheSendingByTheClockThatMovedFurther(t *testing.T) {
	t.Parallel()
	held := trust{sent: at(100*ms, 100*ms), ttl: 1000 * ms, margin: 20 * ms}
	for name, c := range map[string]struct {
		now  reading
		left time.Duration
	}{
		"AtOnce":                      {at(100*ms, 100*ms), 980 * ms},
		"Later":                       {at(600*ms, 600*ms), 480 * ms},
		"AtTheMargin":                 {at(1080*ms, 1080*ms), 0},
		"PastIt":                      {at(1200*ms, 1200*ms), -120 * ms},
		"AfterASuspension":            {at(150*ms, 8*time.Hour), 880*ms - 8*time.Hour + 200*ms},
		"WithTheWallClockSetBack":     {at(600*ms, -time.Hour), 480 * ms},
		"WithTheWallClockSetForward":  {at(600*ms, 650*ms), 430 * ms},
		"WithTheWallClockStandingFor": {at(1100*ms, 100*ms), -20 * ms},
	} {
		if got := held.left(c.now); got != c.left {
			t.Errorf("%s: %s left, expected %s", name, got, c.left)
		}
	}
}

func TestARealClockMovesBothWays(t *testing.T) {
	t.Parallel()
	c := newClock()
	first := c.now()
	for c.now().since(first) <= 0 { // until it has moved
	}
	if then := c.now(); then.mono <= first.mono || then.wall.Before(first.wall) {
		t.Errorf("%+v is not after %+v", then, first)
	}
}

func TestRenewalsEndWithTheMaximumLifetime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sent, ttl, lifetime time.Duration
		final               bool
	}{
		"InMidLife":          {sent: 3000 * ms, ttl: 1000 * ms, lifetime: 10_000 * ms},
		"WithAGainLeft":      {sent: 8850 * ms, ttl: 1000 * ms, lifetime: 10_000 * ms},
		"WithNextToNoneLeft": {sent: 8950 * ms, ttl: 1000 * ms, lifetime: 10_000 * ms, final: true},
		"CutByTheGateway":    {sent: 9500 * ms, ttl: 490 * ms, lifetime: 10_000 * ms, final: true},
		"AllInOneLease":      {ttl: 10_000 * ms, lifetime: 10_000 * ms, final: true},
		"NotTold":            {sent: 9500 * ms, ttl: 1000 * ms},
	} {
		held := trust{sent: at(c.sent, c.sent), ttl: c.ttl}
		if got := held.final(at(0, 0), c.lifetime, 1000*ms); got != c.final {
			t.Errorf("%s: final is %t", name, got)
		}
	}
}

func TestNoAttemptEatsTheDeadline(t *testing.T) {
	t.Parallel()
	for left, expected := range map[time.Duration]time.Duration{
		30 * time.Second: 10 * time.Second, 900 * ms: 300 * ms, 200 * ms: 100 * ms, 60 * ms: 60 * ms, 0: 0,
	} {
		if got := attemptTime(left); got != expected {
			t.Errorf("of %s an attempt gets %s, expected %s", left, got, expected)
		}
	}
}

func TestBackoffLeavesTimeForAnotherAttempt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		n                int
		asked, left, low time.Duration
		high             time.Duration
	}{
		"First":                 {1, 0, time.Minute, 25 * ms, 50 * ms},
		"Third":                 {3, 0, time.Minute, 100 * ms, 200 * ms},
		"AtMost":                {90, 0, time.Minute, 800 * ms, 1600 * ms},
		"AsTheGatewayAsked":     {1, 4 * time.Second, time.Minute, 2 * time.Second, 4 * time.Second},
		"WhenItAskedForTooMuch": {1, time.Minute, 800 * ms, 100 * ms, 200 * ms},
	} {
		low, high := backoff(c.n, c.asked, c.left, 0), backoff(c.n, c.asked, c.left, 1)
		if low != c.low || high != c.high {
			t.Errorf("%s: %s to %s, expected %s to %s", name, low, high, c.low, c.high)
		}
	}
}

func TestRetryAfterIsSecondsOrADate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, expected := range map[string]time.Duration{
		"3": 3 * time.Second, "0": 0, "-1": 0, "": 0, "soon": 0, "99999999999": 24 * time.Hour,
		"Fri, 02 Jan 2026 03:04:15 GMT": 10 * time.Second, "Fri, 02 Jan 2026 03:04:00 GMT": 0,
	} {
		if got := retryAfter(value, now); got != expected {
			t.Errorf("%q: %s, expected %s", value, got, expected)
		}
	}
}

func TestOnlyTheGatewaysRestIsUnderIt(t *testing.T) {
	t.Parallel()
	base := mustParse(t, "https://Gateway.example/a")
	bare, err := New(Config{URL: "http://gateway.example"})
	if err != nil || !under(bare.base, "rest", mustParse(t, "http://gateway.example/rest/inventory")) {
		t.Errorf("%v: a gateway without a path has no /rest", err)
	}
	for target, expected := range map[string]bool{
		"https://gateway.example/a/rest/inventory?x=y": true,
		"https://gateway.example:443/a/rest/rpc/x":     true,
		"https://gateway.example/a/rest":               true,
		"https://gateway.example/a/v1/transactions":    false,
		"https://gateway.example/a/restless":           false,
		"https://gateway.example/a/rest/../v1/leases":  false,
		"https://gateway.example/rest/inventory":       false,
		"https://gateway.example:8443/a/rest/x":        false,
		"http://gateway.example/a/rest/x":              false,
		"http://gateway.example:443/a/rest/x":          false,
		"https://gateway.example.evil/a/rest/x":        false,
		"https://evil/a/rest/x":                        false,
		"https://gateway.example@evil/a/rest/x":        false,
		"https://other.example/rest/inventory":         false,
	} {
		if got := under(base, "rest", mustParse(t, target)); got != expected {
			t.Errorf("%s: %t", target, got)
		}
	}
}

func mustParse(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
