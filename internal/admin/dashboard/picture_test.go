package dashboard

import (
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/lease"
)

var noon = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

func happened(kind, client string, token lease.Token, seconds float64) audit.Grant {
	return audit.Grant{Event: kind, Client: client, Token: token, OccurredAt: at(seconds), HolderDigest: "0123456789abcdef", Principal: "oncall", Reason: "it hangs"}
}

// refused is an update under token 1 that came after 42 s.
func refused(code string, history ...audit.Grant) gate.Story {
	return gate.Story{
		Record: audit.Record{Code: code, Disposition: audit.Refused, Operation: "update", Table: "shop.inventory",
			Claim: lease.Claim{Key: "k", Token: 1}, Client: "a", OccurredAt: at(42)},
		History: history,
	}
}

func TestThePictureIsWhatIsOnRecord(t *testing.T) {
	t.Parallel()
	granted := happened("granted", "a", 1, 0)
	for name, c := range map[string]struct {
		story gate.Story
		lanes int
		late  float64 // where a's turn ended, in seconds; 0: it had not
		told  []string
	}{
		"TakenOver": {refused("stale_token", granted, happened("granted", "b", 2, 21), happened("granted", "later", 3, 50)), 2, 21,
			[]string{"a was granted the lock under token 1 at 12:00:00.000 on 2026-01-05 UTC.", "After 21.0 s b took over under token 2.",
				"21.0 s later the update of shop.inventory by a under token 1 was refused: somebody took over", "Nothing was written."}},
		"TakenOverOften": {refused("stale_token", granted, happened("granted", "b", 2, 5), happened("released", "b", 2, 6), happened("granted", "c", 3, 7),
			happened("granted", "d", 4, 8), happened("granted", "e", 5, 9), happened("granted", "f", 6, 10)), 4, 5, []string{"token 2, and 4 more after that."}},
		"Released": {refused("lease_released", granted, happened("released", "a", 1, 10)), 1, 10, []string{"It gave the lock back after 10.0 s."}},
		"Revoked": {refused("lease_revoked", granted, happened("revoked", "a", 1, 10), happened("granted", "b", 2, 12)), 2, 10,
			[]string{"After 10.0 s oncall revoked it: “it hangs”."}},
		"RunOut":       {refused("lease_expired", granted), 1, 0, []string{"by a under token 1 was refused: the lease ran out"}},
		"NeverGranted": {refused("token_not_granted"), 0, 0, []string{"The update of shop.inventory by a under token 1 was refused"}},
		"AnotherCode":  {refused("invented_later", granted), 1, 0, []string{"was refused."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := draw(c.story)
			told := strings.NewReplacer("\u2068", "", "\u2069", "").Replace(strings.Join(p.Told, " "))
			for _, want := range c.told {
				if !strings.Contains(told, want) {
					t.Errorf("%q is not in %q", want, told)
				}
			}
			if len(p.Lanes) != c.lanes {
				t.Fatalf("%d lanes: %+v", len(p.Lanes), p.Lanes)
			}
			if c.lanes == 0 {
				return
			}
			first := p.Lanes[0]
			if want := rightEdge * c.late / 42; c.late > 0 && (apart(first.Late.X, want) || apart(first.Late.X+first.Late.W, rightEdge)) || c.late == 0 && first.Late.W != 0 {
				t.Errorf("late is %+v, not from %v on", first.Late, want)
			}
			for _, lane := range p.Lanes {
				if lane.Held.X < 0 || lane.Held.X+lane.Held.W > 100.01 || lane.Held.W <= 0 {
					t.Errorf("a lane is %+v", lane.Held)
				}
			}
		})
	}
}

// apart reports whether two places are not the same.
func apart(a, b float64) bool { return a-b > .5 || b-a > .5 }

func TestALateRenewalWroteNothing(t *testing.T) {
	t.Parallel()
	story := refused("stale_token", happened("granted", "a", 1, 0))
	story.Disposition, story.Operation, story.Table = audit.Event, "renew", ""
	told := strings.Join(draw(story).Told, " ")
	if !strings.Contains(told, "renewal by") || !strings.Contains(told, "came too late") || strings.Contains(told, "Nothing was written") {
		t.Error(told)
	}
}

func TestWhatWasLetThroughIsNotCalledRefused(t *testing.T) {
	t.Parallel()
	story := refused("stale_token", happened("granted", "a", 1, 0))
	story.Disposition, story.Claim.Token = audit.Admitted, 0
	told := strings.Join(draw(story).Told, " ")
	if !strings.Contains(told, "was let through in observe mode") || strings.Contains(told, "token 0") || strings.Contains(told, "Nothing was written") {
		t.Error(told)
	}
}

func TestTextOfCallersIsShownAsItIs(t *testing.T) {
	t.Parallel()
	for given, want := range map[any]string{
		"plain": "plain", "a\u202Eb": `a\u{202E}b`, lease.Key("a\u200Bb"): `a\u{200B}b`, lease.Key("a\nb"): "base64:YQpi",
		"מפתח": "מפתח", "<b>": "<b>", 7: "7",
	} {
		if got := shown(given); got != want {
			t.Errorf("%q is shown as %q, not %q", given, got, want)
		}
	}
}

func TestSpansOfTimeAreBrief(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0 ms", 350 * time.Millisecond: "350 ms", 8240 * time.Millisecond: "8.2 s", 125 * time.Second: "2 min 5 s", 2 * time.Minute: "2 min",
		190 * time.Minute: "3 h 10 min", 98 * time.Hour: "4 d 2 h",
	} {
		if got := brief(d); got != want {
			t.Errorf("%s is %q, not %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{-time.Minute: "just now", 59 * time.Second: "59 s ago", 61 * time.Second: "1 min ago", 25 * time.Hour: "25 h ago", 49 * time.Hour: "2 days ago"} {
		if got := ago(d); got != want {
			t.Errorf("%s is %q, not %q", d, got, want)
		}
	}
}

func TestAnAxisHasAFewRoundMoments(t *testing.T) {
	t.Parallel()
	for _, span := range []time.Duration{3 * time.Second, 7 * time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 90 * 24 * time.Hour} {
		all := ticks(noon.Add(-span), noon)
		if len(all) < 2 || len(all) > 7 {
			t.Errorf("%s has %d ticks", span, len(all))
		}
		for _, one := range all {
			if one.X <= 0 || one.X >= 100 {
				t.Errorf("%s has a tick at %v", span, one.X)
			}
		}
	}
}
