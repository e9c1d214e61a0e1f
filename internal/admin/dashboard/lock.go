package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/lease"
)

const (
	lockLive     = 2 * time.Second
	lockGrants   = 50
	lockRefusals = 100
)

type lockBody struct {
	Key      lease.Key
	State    held
	Known    bool // of the mark; without it nothing is known
	Granted  bool // the key ever was
	Blind    bool // the lease is not known
	Events   []event
	Cut      bool   // there are more refusals than shown
	Older    string // link to what was before; "": nothing was
	First    string // link to the newest; "": this is it
	All      string // link to the refusals of the key
	Trouble  string
	Revoked  string // token that was just revoked, "": none
	Form     revokeForm
	Terms    time.Duration // longest life of a grant
	Moderate bool          // the form is to be shown
}

// event is a line of a key's history: a grant, its end, or a refusal.
type event struct {
	At      time.Time
	Grant   *audit.Grant
	Refusal *audit.Record
}

func (d *Dashboard) lock(r *http.Request, who auth.Principal) (page, error) {
	query := r.URL.Query()
	key, err := keyOf(query.Get("key"))
	if err != nil {
		return page{}, err
	}
	if key == "" {
		return page{}, badRequest("The address names no lock key.")
	}
	before, _ := strconv.ParseInt(query.Get("before"), 10, 64)
	if err := auth.AllowLook(who, key); err != nil {
		return page{}, err
	}
	p, body := d.lockPage(r.Context(), key, max(before, 0))
	if token, err := lease.ParseToken(query.Get("revoked")); err == nil {
		body.Revoked = token.String()
	}
	body.Moderate = body.Granted && who.Admin
	p.Body = body
	return p, nil
}

// lockPage reads all there is about key, up to the event before.
func (d *Dashboard) lockPage(ctx context.Context, key lease.Key, before int64) (page, lockBody) {
	p := page{Name: "lock", Title: "Lock " + shown(key), Tab: "locks", Live: lockLive}
	body := lockBody{Key: key, Terms: d.gate().TermsOf(key).Lifetime,
		All: "refusals?" + url.Values{"key": {key.Wire()}, "span": {"all"}}.Encode()}
	if before > 0 {
		body.First = lockLink(key)
	}
	state, err := d.gate().Look(ctx, principalIn(ctx), key)
	if err != nil {
		state.Mark, err = d.gate().Mark(ctx, principalIn(ctx), key)
		body.Blind = true
	}
	if err == nil {
		body.Known, body.Granted, body.State = true, state.Mark.Token != 0, d.held(state)
		body.Form.Token = state.Mark.Token.String()
		err = d.history(ctx, &body, before)
	}
	if err != nil {
		body.Trouble, p.Status = d.trouble(err), http.StatusServiceUnavailable
	}
	return p, body
}

// history fills in one page of grants and the refusals that lie between them.
func (d *Dashboard) history(ctx context.Context, body *lockBody, before int64) error {
	var grants []audit.Grant
	var err error
	who := principalIn(ctx)
	if who.Admin { // others see what was refused to them
		grants, err = d.gate().ListGrants(ctx, who, body.Key, before, lockGrants+1)
	}
	if err != nil {
		return err
	}
	between := audit.Filter{Key: body.Key}
	if before > 0 && len(grants) > 0 {
		between.Until = grants[0].OccurredAt
	}
	if len(grants) > lockGrants {
		grants = grants[:lockGrants]
		oldest := grants[lockGrants-1]
		between.Since = oldest.OccurredAt
		body.Older = lockLink(body.Key) + "&before=" + strconv.FormatInt(oldest.ID, 10)
	}
	refusals, err := d.gate().ListRefusals(ctx, who, between, lockRefusals)
	if err != nil {
		return err
	}
	body.Cut = len(refusals) == lockRefusals
	body.Events = merge(grants, refusals)
	return nil
}

// merge puts the newest first.
func merge(grants []audit.Grant, refusals []audit.Record) []event {
	var all []event
	for i := range grants {
		all = append(all, event{At: grants[i].OccurredAt, Grant: &grants[i]})
	}
	for i := range refusals {
		all = append(all, event{At: refusals[i].OccurredAt, Refusal: &refusals[i]})
	}
	slices.SortStableFunc(all, func(a, b event) int { return b.At.Compare(a.At) })
	return all
}
