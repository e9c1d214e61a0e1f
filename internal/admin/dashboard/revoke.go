package dashboard

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/lease"
)

// revokeForm is what was typed, and what is wrong with it.
type revokeForm struct {
	Token   string // the mark's when the form was shown
	Reason  string
	Block   string // seconds, "": none
	Confirm string

	ReasonFault, BlockFault, ConfirmFault string
	Fault                                 string // of the whole
}

// The bounds of openapi.yaml.
const (
	maxReason = 500
	maxBlock  = 24 * time.Hour
)

// revoke cuts off whoever holds the key, once its name was typed.
func (d *Dashboard) revoke(r *http.Request, who auth.Principal) (page, error) {
	if err := r.ParseForm(); err != nil {
		return page{}, &problem{http.StatusBadRequest, "Not understood", "The form could not be read: it is malformed or too large."}
	}
	if err := auth.AllowAdmin(who, "revoking"); err != nil {
		return page{}, err
	}
	key, err := keyOf(r.PostForm.Get("key"))
	if err != nil || key == "" {
		return page{}, badRequest("The form names no lock key.")
	}
	form := revokeForm{Token: r.PostForm.Get("token"), Reason: strings.TrimSpace(r.PostForm.Get("reason")),
		Block: strings.TrimSpace(r.PostForm.Get("block")), Confirm: strings.TrimSpace(r.PostForm.Get("confirm"))}
	revocation, right := form.read(key)
	if right {
		if form.Fault = d.changedHands(r, key, form.Token); form.Fault == "" {
			closed, err := d.gate().Revoke(r.Context(), who, revocation)
			if err == nil {
				return page{Goto: lockLink(key) + "&revoked=" + closed.Token.String()}, nil
			}
			form.Fault = d.revokeTrouble(err)
		}
	}
	return d.again(r, key, form), nil
}

// read says what is wrong with the form, in it.
func (f *revokeForm) read(key lease.Key) (r fence.Revocation, right bool) {
	r = fence.Revocation{Key: key, Reason: f.Reason}
	if n := utf8.RuneCountInString(f.Reason); n == 0 || n > maxReason {
		f.ReasonFault = fmt.Sprintf("Say why, in 1 to %d characters: it goes on record.", maxReason)
	}
	if f.Block != "" {
		seconds, err := strconv.ParseUint(f.Block, 10, 32)
		r.Block = time.Duration(seconds) * time.Second
		if err != nil || r.Block > maxBlock {
			f.BlockFault = fmt.Sprintf("A number of seconds up to %d, or nothing.", int(maxBlock.Seconds()))
		}
	}
	if f.Confirm != key.Wire() && f.Confirm != shown(key) {
		f.ConfirmFault = "That is not this lock’s key. Nothing was revoked."
	}
	return r, f.ReasonFault+f.BlockFault+f.ConfirmFault == ""
}

// changedHands keeps an operator from cutting off a holder that he has not seen. A
// grant after this look is cut off all the same.
func (d *Dashboard) changedHands(r *http.Request, key lease.Key, seen string) string {
	mark, err := d.gate().Mark(r.Context(), principalIn(r.Context()), key)
	if err != nil || mark.Token == 0 || mark.Token.String() == seen {
		return "" // Revoke tells it better
	}
	return fmt.Sprintf("The lock changed hands meanwhile: token %s, %s. Nothing was revoked; look again, and confirm if that is still meant.",
		mark.Token, shown(mark.Client))
}

func (d *Dashboard) revokeTrouble(err error) string {
	switch {
	case errors.Is(err, fence.ErrNeverGranted):
		return "This lock was never granted: there is nobody to cut off."
	case errors.Is(err, fence.ErrBusy):
		return "A write in flight holds the lock’s mark. Nothing was revoked; try again."
	case errors.Is(err, gate.ErrUnconfirmed):
		return "The connection to the database was lost on the way: it may have been revoked. Look at the history below."
	}
	return "Nothing was revoked. " + d.trouble(err)
}

// again shows the page with the form as it was typed, but for the confirmation.
func (d *Dashboard) again(r *http.Request, key lease.Key, form revokeForm) page {
	p, body := d.lockPage(r.Context(), key, 0)
	form.Token = body.Form.Token
	if form.ConfirmFault != "" {
		form.Confirm = ""
	}
	body.Form, body.Moderate = form, true
	p.Body, p.Live = body, 0
	if p.Status == 0 {
		p.Status = http.StatusUnprocessableEntity
	}
	return p
}
