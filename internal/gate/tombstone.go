package gate

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/statement"
)

// stop says which attempts of a refused request must not be applied any more:
// those that present these claims.
type stop struct {
	Code   fence.Code  `json:"code"`
	Claims []presented `json:"claims"`
	Whole  bool        `json:"whole"` // and no others
}

// presented is a claim as tombstones keep it.
type presented struct {
	Key    lease.Key   `json:"key"`
	Token  lease.Token `json:"token,string"`
	Holder string      `json:"holder"` // its digest
}

func presentedBy(claims ...lease.Claim) []presented {
	list := make([]presented, len(claims))
	for i, claim := range claims {
		list[i] = presented{Key: claim.Key, Token: claim.Token, Holder: claim.Holder.Digest()}
	}
	return list
}

// stops are what the refusals of w leave behind. None for what the marks refused,
// which they do for good, nor for a request that can't become a statement under
// any claims. A lease that has ended stops every attempt that rests on it; rows
// out of scope say nothing against other claims than these.
func (w Write) stops(refusals []*Refused) []stop {
	stops := []stop{}
	for _, r := range refusals {
		var byMark *fence.Refusal
		var unbuilt *statement.Fault
		switch {
		case errors.As(r.cause, &byMark), errors.As(r.cause, &unbuilt):
		case r.Code == LockScope:
			stops = append(stops, stop{Code: r.Code, Claims: presentedBy(w.Claims...), Whole: true})
		default:
			stops = append(stops, stop{Code: r.Code, Claims: presentedBy(r.Claim)})
		}
	}
	return stops
}

// refuseKey is refuseAnswer with time of its own: a request that is refused late,
// or whose caller is gone, leaves its tombstone and its record all the same.
func (g *Gate) refuseKey(ctx context.Context, w Write, refusals []*Refused, earlier []*underWay) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	return g.refuseAnswer(ctx, w, refusals, earlier)
}

// refuseAnswer leaves the tombstone of a refused request: an earlier attempt
// that is still on its way can't be applied any more once the caller knows.
// errApplied says that one has been. earlier are those under
// way in this gateway that are not stopped by it.
func (g *Gate) refuseAnswer(ctx context.Context, w Write, refusals []*Refused, earlier []*underWay) error {
	if err := ended(ctx, earlier); err != nil {
		return err
	}
	_, err := g.exec(ctx, `SELECT fencegate.refuse_answer($1, $2, $3, $4, $5::jsonb, $6)`,
		w.Principal.Name, w.Once.Key, w.Once.Fingerprint, string(refusals[0].Code), asJSON(w.stops(refusals)), g.KeepAnswers)
	return classify(executing, answerError(w.Claims, err))
}

func asJSON(v any) string {
	text, _ := json.Marshal(v) // texts and numbers: can't fail
	return string(text)
}
