package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/lease"
)

const (
	locksLive  = 2 * time.Second
	locksPage  = 50
	locksRound = 200 // marks that are asked about at once
	locksMost  = 10  // rounds: holders that are long gone must not cost a page its time
)

type locksBody struct {
	Prefix  string
	Leases  []held
	Older   string // link to the keys that follow; "": there are none
	First   string // link to the first page; "": this is it
	Trouble string // why there is less than there should be; "": there is all
	Blind   bool   // leases are not known, only marks
}

// held is a key and who has it.
type held struct {
	gate.State
	Until    time.Time     // end of the lease, by this gateway's clock
	Lifetime time.Duration // how much longer it can be renewed
}

func (d *Dashboard) held(s gate.State) held {
	return held{State: s, Until: time.Now().Add(s.Left), Lifetime: d.gate().TermsOf(s.Mark.Key).Lifetime - s.Mark.Age}
}

func (d *Dashboard) locks(r *http.Request, _ auth.Principal) (page, error) {
	query := r.URL.Query()
	body := locksBody{Prefix: query.Get("prefix")}
	if len(body.Prefix) > lease.MaxBytes {
		return page{}, badRequest("A lock key has at most %d bytes.", lease.MaxBytes)
	}
	after, err := keyOf(query.Get("after"))
	if err != nil {
		return page{}, err
	}
	if after != "" {
		body.First = locksLink(body.Prefix, "")
	}
	last, err := d.listLeases(r.Context(), &body, after)
	p := page{Name: "locks", Title: "Locks", Tab: "locks", Live: locksLive}
	if err != nil {
		body.Trouble, p.Status = d.trouble(err), http.StatusServiceUnavailable
	}
	if last != "" {
		body.Older = locksLink(body.Prefix, last)
	}
	p.Body = body
	return p, nil
}

// listLeases fills a page and returns the last key that was looked at, "" if no
// more are held. Without the lock service it has the marks alone.
func (d *Dashboard) listLeases(ctx context.Context, body *locksBody, last lease.Key) (lease.Key, error) {
	for range locksMost {
		picked := fence.Selection{Prefix: body.Prefix, After: last, Limit: locksRound, Held: true}
		live, next, err := d.gate().ListLeases(ctx, principalIn(ctx), picked)
		if err != nil {
			return d.listMarks(ctx, body, picked)
		}
		for _, state := range live {
			body.Leases = append(body.Leases, d.held(state))
			if len(body.Leases) == locksPage {
				return state.Mark.Key, nil
			}
		}
		if last = next; last == "" {
			break
		}
	}
	return last, nil
}

func (d *Dashboard) listMarks(ctx context.Context, body *locksBody, picked fence.Selection) (last lease.Key, err error) {
	picked.Limit = locksPage
	marks, err := d.gate().ListMarks(ctx, principalIn(ctx), picked)
	if err != nil {
		return "", err
	}
	body.Blind = true
	for _, mark := range marks {
		body.Leases = append(body.Leases, d.held(gate.State{Mark: mark}))
		last = mark.Key
	}
	if len(marks) < locksPage {
		last = ""
	}
	return last, nil
}

func locksLink(prefix string, after lease.Key) string {
	query := url.Values{}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	if after != "" {
		query.Set("after", after.Wire())
	}
	return "locks?" + query.Encode()
}

// keyOf reads a lock key as an address or a form has it; "" is no key.
func keyOf(text string) (lease.Key, error) {
	if text == "" {
		return "", nil
	}
	key, err := lease.ParseKey(text)
	if err != nil {
		return "", badRequest("The lock key is %s.", err)
	}
	return key, nil
}
